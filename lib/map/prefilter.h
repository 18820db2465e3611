#pragma once
/// Tells which rules of a table may match a text, so that most texts meet no pattern at all.
///
/// Use:     Prefilter filter(needed);          // of each rule what required_literals() says of its pattern
///          filter.candidates(text, rules);    // bit i: rule i may match; the others surely do not
/// Choice:  of the sets that a rule needs, the one whose literals the fewest rules share brings it up: what many
///          rules have in common ("Subject:") is common in texts as well. The others are looked at then.
/// Thread:  any, once it is made.
#include <unordered_map>

#include "lib/map/literal_scan.h"

namespace pen::map {

class Prefilter {
 public:
  /// Of one rule: see required_literals(). Empty: it is always tried.
  using Needed = std::vector<std::vector<std::string>>;

  Prefilter() = default;
  explicit Prefilter(const std::vector<Needed>& rules);
  void candidates(std::string_view text, BitSet& rules) const;
  /// The rules that are tried on every text.
  const BitSet& always() const { return always_; }

 private:
  using Literals = std::vector<std::uint32_t>;  // by their numbers
  std::vector<Literals> number(const Needed& needed, std::unordered_map<std::string, std::uint32_t>& numbers,
                               std::vector<std::string>& literals);

  LiteralScan scan_;
  std::vector<std::vector<std::uint32_t>> rules_of_;  // those that each literal brings up
  std::vector<std::vector<Literals>> further_;        // of each rule, what else it needs
  BitSet always_;
};

}  // namespace pen::map
