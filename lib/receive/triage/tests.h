#pragma once
/// The tests of one client in one session: which are due, what an outcome means, what is kept of it.
///
/// Use:     Tests tests(rules, cache.find(key), now);
///          if (!tests.any_due()) … it passed before
///          switch (tests.fail(Test::pregreet, now)) …      // what the administrator wants
///          tests.judge_lists(score, ttl, now); tests.pass(Test::pregreet, now);
///          if (tests.passed()) … let it through;  if (auto record = tests.learnt()) cache.put(key, *record);
/// Rules:   a pass holds for the test's TTL; that of the DNS lists as long as their answers, within bounds. A failed
///          test (enforce, drop) makes all passes of its session void. A failure that is ignored is no pass: the test
///          is made again next time, but for one that watches the session, which is left alone until a pass of another
///          test can run out. A score at or below the allow threshold stands for all other tests, as long as it holds.
/// Time:    a stored pass that ends later than a pass of now would is not believed.
/// Source:  Postfix postscreen(8), POSTSCREEN_README.  Pure; any thread. The rules must outlive it.
#include <optional>

#include "lib/base/time.h"
#include "lib/receive/triage/record.h"

namespace pen::triage {

enum class Action : std::uint8_t { ignore, enforce, drop };

struct Rules {
  struct One {
    bool enabled = false;
    Action action = Action::ignore;
    seconds ttl{0};  // of the DNS lists: the longest
  };
  std::array<One, kTests> tests;
  seconds lists_min_ttl{60};
  int threshold = 1;        // of the score of the DNS lists, from which a client fails
  int allow_threshold = 0;  // at or below which it needs no other test; 0: none

  One& of(Test test) { return tests[static_cast<std::size_t>(test)]; }
  const One& of(Test test) const { return tests[static_cast<std::size_t>(test)]; }
  /// The shortest TTL of the tests that are made.
  seconds shortest() const;
};

class Tests {
 public:
  /// known: what the cache has of the client.
  Tests(const Rules& rules, const std::optional<Record>& known, WallTime now);

  bool due(Test test) const { return states_[static_cast<std::size_t>(test)] == State::due; }
  bool early_due() const { return due(Test::pregreet) || due(Test::dnsbl); }
  bool any_due() const;
  /// The cache knew nothing of the client.
  bool is_new() const { return new_; }

  /// No effect unless due.
  void pass(Test test, WallTime now);
  /// Returns what becomes of the session. A test that is not due is ignored.
  Action fail(Test test, WallTime now);
  /// The score of the DNS lists, and how long their answers hold; nullopt: none came. Returns as fail().
  Action judge_lists(int score, std::optional<seconds> ttl, WallTime now);

  /// Every test that was due has been passed.
  bool passed() const;
  bool failed() const { return failed_; }
  /// For the cache; nullopt: nothing new, or a test failed.
  std::optional<Record> learnt() const;

 private:
  enum class State : std::uint8_t { not_due, due, passed, ignored, failed };
  State& state(Test test) { return states_[static_cast<std::size_t>(test)]; }
  void pass_until(Test test, std::int64_t end);

  const Rules* rules_;
  Record record_;
  std::array<State, kTests> states_{};
  bool new_ = false, failed_ = false, changed_ = false;
};

}  // namespace pen::triage
