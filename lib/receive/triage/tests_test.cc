#include "lib/receive/triage/tests.h"

#include <boost/test/unit_test.hpp>
#include <vector>

using namespace pen;
using namespace pen::triage;

namespace {

constexpr std::int64_t kNow = 1'800'000'000;
WallTime now(std::int64_t later = 0) { return WallTime(seconds(kNow + later)); }

Rules all_tests(Action action = Action::ignore) {
  Rules rules;
  for (const Test test : kAllTests) rules.of(test) = {.enabled = true, .action = action, .ttl = seconds(30 * 86400)};
  rules.of(Test::pregreet).ttl = seconds(86400);
  rules.of(Test::dnsbl).ttl = seconds(3600);
  return rules;
}

Record passes_until(std::int64_t second) {
  Record record;
  record.until.fill(second);
  return record;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(triage_tests)

BOOST_AUTO_TEST_CASE(a_new_client_has_all_enabled_tests_before_it) {
  Rules rules = all_tests();
  rules.of(Test::non_smtp).enabled = false;
  const Tests tests(rules, std::nullopt, now());
  BOOST_TEST(tests.is_new());
  for (const Test test : kAllTests) BOOST_TEST(tests.due(test) == (test != Test::non_smtp));
  BOOST_TEST(!tests.passed());
}

BOOST_AUTO_TEST_CASE(a_test_is_due_when_its_pass_has_run_out) {
  struct Row {
    std::int64_t until;
    bool due;
  };
  // A pass that no pass of now could give is not believed, be it garbage or of a clock that was wrong.
  const std::vector<Row> rows = {{Record::kNever, true}, {Record::kDisabled, true}, {kNow - 1, true},
                                 {kNow, false},          {kNow + 3600, false},      {kNow + 3601, true}};
  const Rules rules = all_tests();
  for (const Row& row : rows) {
    Record known = passes_until(kNow + 10);
    known.of(Test::dnsbl) = row.until;
    const Tests tests(rules, known, now());
    BOOST_TEST(!tests.is_new());
    BOOST_TEST(tests.due(Test::dnsbl) == row.due, row.until);
    BOOST_TEST(tests.any_due() == row.due);
    BOOST_TEST(tests.early_due() == row.due);
    BOOST_TEST(tests.passed() == !row.due);
  }
}

BOOST_AUTO_TEST_CASE(each_outcome_by_its_action) {
  struct Row {
    Test test;
    Action action;
    bool passed, failed, cached;
  };
  const std::vector<Row> rows = {
      // early tests: ignored is not passed, and the passes of others are kept
      {Test::pregreet, Action::ignore, false, false, true},
      {Test::pregreet, Action::enforce, false, true, false},
      {Test::pregreet, Action::drop, false, true, false},
      {Test::dnsbl, Action::ignore, false, false, true},
      {Test::dnsbl, Action::drop, false, true, false},
      // later tests: ignored is a pass for a short time
      {Test::pipelining, Action::ignore, true, false, true},
      {Test::pipelining, Action::enforce, false, true, false},
      {Test::non_smtp, Action::drop, false, true, false},
      {Test::bare_newline, Action::ignore, true, false, true},
  };
  for (const Row& row : rows) {
    Rules rules = all_tests();
    rules.of(row.test).action = row.action;
    Tests tests(rules, std::nullopt, now());
    BOOST_TEST((tests.fail(row.test, now()) == row.action));
    BOOST_TEST((tests.fail(row.test, now()) == Action::ignore));  // reported once
    for (const Test test : kAllTests) {
      if (test == row.test) continue;
      if (test == Test::dnsbl)
        tests.judge_lists(0, seconds(600), now());
      else
        tests.pass(test, now());
    }
    BOOST_TEST_CONTEXT(static_cast<int>(row.test) << " " << static_cast<int>(row.action)) {
      BOOST_TEST(!tests.any_due());
      BOOST_TEST(tests.passed() == row.passed);
      BOOST_TEST(tests.failed() == row.failed);
      BOOST_TEST(tests.learnt().has_value() == row.cached);
      if (row.cached && !row.passed) BOOST_TEST(tests.learnt()->of(row.test) == Record::kNever);
      // not beyond the shortest time after which another test is due
      if (row.cached && row.passed) BOOST_TEST(tests.learnt()->of(row.test) == kNow + 3600);
    }
  }
}

BOOST_AUTO_TEST_CASE(passes_are_kept_for_their_time_and_disabled_tests_are_marked) {
  Rules rules = all_tests();
  rules.of(Test::bare_newline).enabled = false;
  Tests tests(rules, std::nullopt, now());
  tests.pass(Test::pregreet, now(6));
  tests.judge_lists(0, seconds(600), now(6));
  tests.pass(Test::pipelining, now(7));
  tests.pass(Test::non_smtp, now(7));
  BOOST_TEST(tests.passed());
  const std::string month = std::to_string(kNow + 7 + 30 * 86400);
  BOOST_TEST(tests.learnt()->text() ==
             std::to_string(kNow + 6 + 86400) + ";" + std::to_string(kNow + 606) + ";" + month + ";" + month + ";1");
}

BOOST_AUTO_TEST_CASE(a_renewed_pass_leaves_the_others_alone) {
  const Rules rules = all_tests();
  Record known = passes_until(kNow + 100);
  known.of(Test::pregreet) = kNow - 5;
  Tests tests(rules, known, now());
  BOOST_TEST(!tests.due(Test::dnsbl));
  BOOST_TEST((tests.judge_lists(1000, seconds(60), now()) == Action::ignore));  // not asked
  tests.pass(Test::pregreet, now());
  BOOST_TEST(tests.passed());
  BOOST_TEST(tests.learnt()->of(Test::pregreet) == kNow + 86400);
  BOOST_TEST(tests.learnt()->of(Test::dnsbl) == kNow + 100);
}

BOOST_AUTO_TEST_CASE(nothing_new_is_nothing_to_write) {
  const Rules rules = all_tests();
  const Tests tests(rules, passes_until(kNow + 100), now());
  BOOST_TEST(tests.passed());
  BOOST_TEST(!tests.learnt().has_value());
}

BOOST_AUTO_TEST_CASE(the_score_of_the_lists_decides) {
  struct Row {
    int score;
    std::optional<seconds> ttl;
    bool failed;
    bool others_due;
    std::int64_t holds;  // of the pass; 0: none
  };
  Rules rules = all_tests(Action::enforce);
  rules.threshold = 3;
  rules.allow_threshold = -2;
  rules.of(Test::dnsbl).ttl = seconds(3600);
  const std::vector<Row> rows = {
      {0, seconds(600), false, true, 600},   {2, seconds(600), false, true, 600},
      {3, seconds(600), true, true, 0},      {4, std::nullopt, true, true, 0},
      {-1, seconds(600), false, true, 600},  {-2, seconds(600), false, false, 600},
      {-5, seconds(600), false, false, 600}, {0, std::nullopt, false, true, 60},  // the least
      {0, seconds(0), false, true, 60},      {0, seconds(86400), false, true, 3600},
  };
  for (const Row& row : rows) {
    Tests tests(rules, std::nullopt, now());
    const Action action = tests.judge_lists(row.score, row.ttl, now());
    BOOST_TEST_CONTEXT(row.score) {
      BOOST_TEST((action == (row.failed ? Action::enforce : Action::ignore)));
      BOOST_TEST(tests.failed() == row.failed);
      BOOST_TEST(tests.due(Test::pregreet) == row.others_due);
      BOOST_TEST(tests.due(Test::bare_newline) == row.others_due);
      BOOST_TEST(tests.passed() == !row.others_due);
      if (row.holds != 0) BOOST_TEST(tests.learnt()->of(Test::dnsbl) == kNow + row.holds);
      if (!row.others_due) BOOST_TEST(tests.learnt()->of(Test::pipelining) == kNow + row.holds);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_allow_list_does_not_undo_a_failure) {
  Rules rules = all_tests(Action::enforce);
  rules.allow_threshold = -1;
  Tests tests(rules, std::nullopt, now());
  tests.fail(Test::pregreet, now());
  tests.judge_lists(-1, seconds(600), now());
  BOOST_TEST(tests.failed());
  BOOST_TEST(!tests.learnt().has_value());
}

BOOST_AUTO_TEST_CASE(a_threshold_of_zero_allows_nobody) {
  const Rules rules = all_tests();
  Tests tests(rules, std::nullopt, now());
  tests.judge_lists(0, seconds(600), now());
  BOOST_TEST(tests.due(Test::pregreet));
}

BOOST_AUTO_TEST_CASE(least_and_longest_time_in_the_wrong_order_mean_the_least) {
  Rules rules = all_tests();
  rules.lists_min_ttl = seconds(7200);
  Tests tests(rules, std::nullopt, now());
  tests.judge_lists(0, seconds(10), now());
  BOOST_TEST(tests.learnt()->of(Test::dnsbl) == kNow + 7200);
}

BOOST_AUTO_TEST_SUITE_END()
