#include "lib/receive/triage/tests.h"

#include <algorithm>

namespace pen::triage {

seconds Rules::shortest() const {
  seconds least = seconds::max();
  for (const One& one : tests)
    if (one.enabled) least = std::min(least, one.ttl);
  return least;
}

Tests::Tests(const Rules& rules, const std::optional<Record>& known, WallTime now)
    : rules_(&rules), record_(known.value_or(Record{})), new_(!known) {
  const std::int64_t second = unix_seconds(now);
  const seconds by_lists = std::max(rules.lists_min_ttl, rules.of(Test::dnsbl).ttl);  // of any test
  for (const Test test : kAllTests) {
    const Rules::One& rule = rules.of(test);
    std::int64_t& until = record_.of(test);
    if (!rule.enabled) {
      if (until == Record::kNever) until = Record::kDisabled;
      continue;
    }
    if (until < second || until > second + std::max(rule.ttl, by_lists).count()) state(test) = State::due;
  }
}

bool Tests::any_due() const { return std::ranges::find(states_, State::due) != states_.end(); }

void Tests::pass_until(Test test, std::int64_t end) {
  record_.of(test) = end;
  state(test) = State::passed;
  changed_ = true;
}

void Tests::pass(Test test, WallTime now) {
  if (due(test)) pass_until(test, unix_seconds(now) + rules_->of(test).ttl.count());
}

Action Tests::fail(Test test, WallTime now) {
  if (!due(test)) return Action::ignore;
  const Action action = rules_->of(test).action;
  if (action != Action::ignore) {
    state(test) = State::failed;
    failed_ = true;
  } else if (is_early(test)) {
    state(test) = State::ignored;
  } else {
    pass_until(test, unix_seconds(now) + rules_->shortest().count());
  }
  return action;
}

Action Tests::judge_lists(int score, std::optional<seconds> ttl, WallTime now) {
  if (!due(Test::dnsbl)) return Action::ignore;
  if (score >= rules_->threshold) return fail(Test::dnsbl, now);
  const seconds least = rules_->lists_min_ttl;
  const seconds holds = std::clamp(ttl.value_or(least), least, std::max(least, rules_->of(Test::dnsbl).ttl));
  const std::int64_t end = unix_seconds(now) + holds.count();
  pass_until(Test::dnsbl, end);
  if (rules_->allow_threshold < 0 && score <= rules_->allow_threshold)
    for (const Test test : kAllTests)
      if (due(test)) pass_until(test, end);
  return Action::ignore;
}

bool Tests::passed() const {
  return std::ranges::none_of(states_,
                              [](State s) { return s == State::due || s == State::ignored || s == State::failed; });
}

std::optional<Record> Tests::learnt() const {
  if (failed_ || !changed_) return std::nullopt;
  return record_;
}

}  // namespace pen::triage
