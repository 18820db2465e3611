#pragma once
/// For tests and the fuzz target: matches one pattern with one text in every available way. The results must agree.
#include <string>

#include "lib/map/pattern.h"
#include "lib/map/prefilter.h"

namespace pen::map::reference {

struct Seen {
  std::string problem;  // empty: the results agree
  bool matched = false;
  bool passed_over = false;  // the prefilter says that the pattern need not be tried on the text
};

template <class Pattern>
void look(const Pattern& pattern, const std::string& text, Seen& seen) {
  Spans spans;
  const auto matched = pattern.match(text, spans);
  const Prefilter filter(std::vector<Prefilter::Needed>{pattern.needed()});
  BitSet candidates;
  filter.candidates(text, candidates);
  if (!candidates.test(0)) seen.passed_over = true;
  if (!matched) return;  // too long
  if (*matched) seen.matched = true;
  if (*matched && !candidates.test(0)) seen.problem = "passed over though it matches";
}

/// Matches as a pcre pattern and, if the pattern is valid there, as a POSIX one.
inline Seen compare_ways(const std::string& pattern, const std::string& text) {
  Seen seen;
  Rule rule;
  rule.pattern = pattern;
  rule.result.push_back({{}, 0});
  if (const auto regexp = RegexpPattern::compile(rule, "t")) look(*regexp, text, seen);
  const auto pcre = PcrePattern::compile(rule, "t");
  if (!pcre) return seen;
  look(*pcre, text, seen);
  Spans fast, slow;
  const auto by_code = pcre->match(text, fast), by_hand = pcre->match_interpreted(text, slow);
  if (!by_code || !by_hand) return seen;
  if (*by_code != *by_hand || (*by_code && fast.at[0] != slow.at[0]))
    seen.problem = "machine code finds something else";
  return seen;
}

}  // namespace pen::map::reference
