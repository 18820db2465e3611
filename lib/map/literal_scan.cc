#include "lib/map/literal_scan.h"

#include <bit>

#include "lib/base/text.h"

namespace pen::map {

std::size_t BitSet::next(std::size_t i) const {
  std::size_t word = i / 64;
  if (word >= words_.size()) return SIZE_MAX;
  std::uint64_t bits = words_[word] & (~std::uint64_t{0} << (i % 64));
  while (bits == 0) {
    if (++word == words_.size()) return SIZE_MAX;
    bits = words_[word];
  }
  return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
}

LiteralScan::LiteralScan(const std::vector<std::string>& literals) : count_(literals.size()) {
  held_.clear(count_);
  if (literals.empty()) return;
  for (const auto& literal : literals) {
    for (const char c : literal) {
      auto& kind = kind_[static_cast<unsigned char>(c)];
      if (kind == 0) kind = static_cast<std::uint8_t>(kinds_++);
    }
  }
  for (int c = 'A'; c <= 'Z'; ++c)
    kind_[static_cast<std::size_t>(c)] = kind_[static_cast<unsigned char>(ascii_lower(static_cast<char>(c)))];
  next_.assign(kinds_, 0);
  ends_.assign(1, 0);
  for (std::size_t i = 0; i < literals.size(); ++i)
    if (add(literals[i], static_cast<std::uint32_t>(i))) held_.set(i);
  connect();
}

bool LiteralScan::add(std::string_view literal, std::uint32_t index) {
  if (literal.empty() || ends_.size() + literal.size() > kMaxStates) return false;
  std::size_t state = 0;
  for (const char c : literal) {
    const std::size_t kind = kind_[static_cast<unsigned char>(c)];
    if (step(state, kind) == 0) {
      step(state, kind) = static_cast<State>(ends_.size());
      ends_.push_back(0);
      next_.resize(next_.size() + kinds_, 0);
    }
    state = step(state, kind);
  }
  if (ends_[state] != 0) return false;  // a duplicate: the first one is reported
  ends_[state] = index + 1;
  return true;
}

/// Turns the tree of literals into an automaton that never goes back in the text. Level by level, a state without a
/// child for a byte takes over the child of its longest proper suffix that is in the tree.
void LiteralScan::connect() {
  std::vector<State> ending(ends_.size(), 0), order;
  shorter_.assign(ends_.size(), 0);
  for (std::size_t kind = 0; kind < kinds_; ++kind)
    if (const State child = step(0, kind); child != 0) order.push_back(child);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const State state = order[i], back = ending[state];
    shorter_[state] = ends_[back] != 0 ? back : shorter_[back];
    for (std::size_t kind = 0; kind < kinds_; ++kind) {
      State& child = step(state, kind);
      if (child == 0) {
        child = step(back, kind);
      } else {
        ending[child] = step(back, kind);
        order.push_back(child);
      }
    }
  }
  // The state alone says whether a literal ends at this byte.
  for (const State state : order)
    if (ends_[state] == 0 && shorter_[state] != 0) ends_[state] = ends_[shorter_[state]];
}

void LiteralScan::find(std::string_view text, BitSet& found) const {
  found.clear(count_);
  if (empty()) return;
  // Every byte that is checked comes by here: without the library's look at each index. connect() has made them all.
  const State* const next = next_.data();
  const auto* const ends = ends_.data();
  const std::uint8_t* const kind = kind_.data();
  const std::size_t kinds = kinds_;
  std::size_t state = 0;
  for (const char c : text) {
    state = next[state * kinds + kind[static_cast<unsigned char>(c)]];
    if (ends[state] == 0) [[likely]]
      continue;
    for (std::size_t s = state; s != 0; s = shorter_[s]) found.set(ends_[s] - 1);
  }
}

}  // namespace pen::map
