#include "lib/map/prefilter.h"

#include <algorithm>

namespace pen::map {

/// Replaces the literals' texts by their numbers.
std::vector<Prefilter::Literals> Prefilter::number(const Needed& needed,
                                                   std::unordered_map<std::string, std::uint32_t>& numbers,
                                                   std::vector<std::string>& literals) {
  std::vector<Literals> sets;
  for (const auto& texts : needed) {
    auto& set = sets.emplace_back();
    for (const auto& text : texts) {
      const auto [at, fresh] = numbers.emplace(text, static_cast<std::uint32_t>(literals.size()));
      if (fresh) literals.push_back(text);
      set.push_back(at->second);
    }
  }
  return sets;
}

Prefilter::Prefilter(const std::vector<Needed>& rules) {
  std::vector<std::string> literals;
  std::unordered_map<std::string, std::uint32_t> numbers;
  for (const auto& needed : rules) further_.push_back(number(needed, numbers, literals));
  scan_ = LiteralScan(literals);

  std::vector<std::size_t> shared(literals.size(), 0);
  for (auto& sets : further_) {
    std::erase_if(sets, [&](const Literals& set) {
      return !std::ranges::all_of(set, [&](auto literal) { return scan_.holds(literal); });
    });
    for (const auto& set : sets)
      for (const auto literal : set) ++shared[literal];
  }
  const auto cost = [&](const Literals& set) {
    std::size_t sum = 0;
    for (const auto literal : set) sum += shared[literal];
    return sum;
  };
  const auto shortest = [&](const Literals& set) {
    std::size_t least = SIZE_MAX;
    for (const auto literal : set) least = std::min(least, literals[literal].size());
    return least;
  };
  rules_of_.resize(literals.size());
  always_.clear(rules.size());
  for (std::uint32_t rule = 0; rule < further_.size(); ++rule) {
    auto& sets = further_[rule];
    if (sets.empty()) {
      always_.set(rule);
      continue;
    }
    const auto best = std::ranges::min_element(sets, [&](const Literals& a, const Literals& b) {
      return std::pair(cost(a), shortest(b)) < std::pair(cost(b), shortest(a));
    });
    for (const auto literal : *best) rules_of_[literal].push_back(rule);
    sets.erase(best);
  }
}

void Prefilter::candidates(std::string_view text, BitSet& rules) const {
  static thread_local BitSet found;
  scan_.find(text, found);
  const auto is_found = [&](std::uint32_t literal) { return found.test(literal); };
  rules.assign(always_);
  for (auto literal = found.next(0); literal != SIZE_MAX; literal = found.next(literal + 1)) {
    for (const auto rule : rules_of_[literal]) {
      const bool all =
          std::ranges::all_of(further_[rule], [&](const Literals& set) { return std::ranges::any_of(set, is_found); });
      if (all) rules.set(rule);
    }
  }
}

}  // namespace pen::map
