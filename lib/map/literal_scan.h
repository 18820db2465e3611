#pragma once
/// Finds in one pass which of many literals a text contains, in any case (ASCII): an Aho-Corasick automaton.
///
/// Use:     LiteralScan scan(literals);                // literals in lower case, as from required_literals()
///          scan.find(text, found);                    // bit i of `found`: literals[i] is in the text
/// Cost:    two table look-ups for each byte of the text, whatever the number of literals.
/// Bounds:  kMaxStates states, two bytes for each state and kind of character: at most 16 MiB. Literals that do not
///          fit are left out: holds(i) says whether literal i is searched for. Literals must be ASCII.
/// Thread:  any, after construction.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pen::map {

/// A set of small numbers.
class BitSet {
 public:
  void clear(std::size_t size) { words_.assign((size + 63) / 64, 0); }
  void set(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  bool test(std::size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  /// The first member from i on; SIZE_MAX: there is none.
  std::size_t next(std::size_t i) const;
  /// Copies another set of the same size.
  void assign(const BitSet& other) { words_ = other.words_; }

 private:
  std::vector<std::uint64_t> words_;
};

class LiteralScan {
 public:
  static constexpr std::size_t kMaxStates = 65536;

  LiteralScan() = default;
  explicit LiteralScan(const std::vector<std::string>& literals);

  bool holds(std::size_t literal) const { return held_.test(literal); }
  bool empty() const { return next_.empty(); }
  /// Clears `found` first.
  void find(std::string_view text, BitSet& found) const;

 private:
  using State = std::uint16_t;
  /// The state after a byte of this kind.
  State& step(std::size_t state, std::size_t kind) { return next_[state * kinds_ + kind]; }
  bool add(std::string_view literal, std::uint32_t index);
  void connect();

  std::size_t count_ = 0;
  std::array<std::uint8_t, 256> kind_{};  // 0: in no literal
  std::size_t kinds_ = 1;
  std::vector<State> next_;
  std::vector<std::uint32_t> ends_;  // literal index + 1 that ends in a state; 0: none
  // The state of the longest shorter literal that this one ends with; 0: none.
  std::vector<State> shorter_;
  BitSet held_;
};

}  // namespace pen::map
