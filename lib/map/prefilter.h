#pragma once
/// Finds which rules of a table may match a text, so that most texts are compared with no pattern at all.
///
/// Use:     Prefilter filter(needed);          // for each rule, required_literals() of its pattern
///          filter.candidates(text, rules);    // bit i: rule i may match; the others certainly do not
/// Choice:  a rule needs several sets of literals. The set with the literals that the fewest rules share selects the
///          rule: literals that many rules share ("Subject:") are common in texts as well. The other sets are checked
///          after that.
/// Thread:  any, after construction.
#include <unordered_map>

#include "lib/map/literal_scan.h"

namespace pen::map {

class Prefilter {
 public:
  /// The sets of one rule: see required_literals(). Empty: the rule is always tried.
  using Needed = std::vector<std::vector<std::string>>;

  Prefilter() = default;
  explicit Prefilter(const std::vector<Needed>& rules);
  void candidates(std::string_view text, BitSet& rules) const;
  /// The rules that are tried on every text.
  const BitSet& always() const { return always_; }

 private:
  using Literals = std::vector<std::uint32_t>;  // literals by their numbers
  std::vector<Literals> number(const Needed& needed, std::unordered_map<std::string, std::uint32_t>& numbers,
                               std::vector<std::string>& literals);

  LiteralScan scan_;
  std::vector<std::vector<std::uint32_t>> rules_of_;  // for each literal, the rules that it selects
  std::vector<std::vector<Literals>> further_;        // for each rule, the other sets it needs
  BitSet always_;
};

}  // namespace pen::map
