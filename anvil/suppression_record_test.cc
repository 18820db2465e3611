// What failures make of what is known of an address.
#include "anvil/suppression_record.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/suite.h"

BOOST_AUTO_TEST_SUITE(suppression_record)

namespace {

using namespace pen;
using namespace pen::anvil;
using State = SuppressionRecord::State;
using enum SuppressionReason;

struct Fixture {
  /// What one more failure leads to; it is remembered.
  bool fails(SuppressionReason reason, bool certain = false) {
    ipc::suppression::Failure failure{
        .tenant = {}, .address = "jo@there.example", .reason = reason, .certain = certain, .text = "550 no"};
    auto verdict = judged_after(known, failure, rules, now);
    if (verdict.changed) known = verdict.record;
    return verdict.added;
  }
  void pass(seconds time) { now += time; }
  static constexpr seconds kDay{86'400};
  SuppressionRules rules{.bounce_days = 3,
                         .returned_days = 2,
                         .bounce_time = 100 * kDay,
                         .returned_time = 50 * kDay,
                         .complaint_time = 1000 * kDay,
                         .count_time = 10 * kDay};
  std::optional<SuppressionRecord> known;
  WallTime now{seconds(1'800'000'000)};
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(one_certain_failure_suffices_and_holds_for_its_time) {
  BOOST_TEST(fails(bounce, true));
  BOOST_TEST(known->listed(now));
  BOOST_TEST(known->text == "550 no");
  pass(100 * kDay - seconds(1));
  BOOST_TEST(known->listed(now));
  pass(seconds(1));
  BOOST_TEST(!known->listed(now));
}

BOOST_AUTO_TEST_CASE(no_notice_is_certain) {
  BOOST_TEST(!fails(returned, true));
  BOOST_TEST((known->state == State::watched));
  pass(kDay);
  BOOST_TEST(fails(returned, true));
  BOOST_TEST(known->by_strangers);
}

BOOST_AUTO_TEST_CASE(it_is_kept_whether_only_strangers_have_said_it) {
  fails(complaint);
  pass(kDay);
  BOOST_TEST(fails(complaint));
  BOOST_TEST(known->by_strangers);
  known.reset();
  BOOST_TEST(fails(complaint, true));
  BOOST_TEST(!known->by_strangers);
  known.reset();
  fails(returned);
  pass(kDay);
  fails(returned);
  BOOST_TEST(known->by_strangers);
  fails(complaint, true);  // a provider that is believed says it too
  BOOST_TEST(!known->by_strangers);
}

BOOST_AUTO_TEST_CASE(texts_are_cut_and_printable_whatever_brings_them) {
  fails(bounce, true);
  ipc::suppression::Failure failure{.tenant = {},
                                    .address = "jo@there.example",
                                    .reason = complaint,
                                    .certain = true,
                                    .text = "abuse\n\x01" + std::string(100'000, 'x')};
  const auto verdict = judged_after(known, failure, rules, now);
  BOOST_TEST(verdict.changed);
  BOOST_TEST(verdict.record.text.size() <= ipc::suppression::kMostText + 3);  // with its mark
  BOOST_TEST(!verdict.record.text.contains('\n'));
  BOOST_TEST(!verdict.record.text.contains('\x01'));
  SuppressionRecord told = verdict.record;
  told.text = failure.text;
  BOOST_TEST(told.take_in());
  BOOST_TEST(told.text == verdict.record.text);
}

BOOST_AUTO_TEST_CASE(a_record_of_another_host_that_makes_no_sense_is_not_taken) {
  SuppressionRecord told;
  BOOST_TEST(told.take_in());
  told.reason = static_cast<SuppressionReason>(200);
  BOOST_TEST(!told.take_in());
  told = {};
  told.state = static_cast<State>(3);
  BOOST_TEST(!told.take_in());
}

BOOST_AUTO_TEST_CASE(others_count_by_days) {
  BOOST_TEST(!fails(bounce));
  BOOST_TEST(!fails(bounce));  // the same day
  pass(kDay);
  BOOST_TEST(!fails(bounce));
  BOOST_TEST((known->state == State::watched));
  BOOST_TEST(!known->listed(now));
  pass(kDay);
  BOOST_TEST(fails(bounce));
  BOOST_TEST(known->listed(now));
}

BOOST_AUTO_TEST_CASE(days_are_forgotten_without_a_failure) {
  fails(bounce);
  pass(kDay);
  fails(bounce);
  pass(10 * kDay);
  BOOST_TEST(!fails(bounce));
  BOOST_TEST(known->bounce_days == 1u);
}

BOOST_AUTO_TEST_CASE(what_strangers_say_does_not_count_as_what_was_said_here) {
  fails(returned);
  pass(kDay);
  fails(bounce);
  BOOST_TEST((known->state == State::watched));
  BOOST_TEST(fails(returned));
  BOOST_TEST((known->reason == returned));
  BOOST_TEST(known->expires == unix_seconds(now + 50 * kDay));
}

BOOST_AUTO_TEST_CASE(a_complaint_of_a_stranger_counts_as_a_notice) {
  BOOST_TEST(!fails(complaint));
  pass(kDay);
  BOOST_TEST(fails(complaint));
  BOOST_TEST(known->expires == unix_seconds(now + 1000 * kDay));
}

BOOST_AUTO_TEST_CASE(a_reason_without_time_adds_nothing) {
  rules.bounce_time = seconds(0);
  BOOST_TEST(!fails(bounce, true));
  BOOST_TEST(!known.has_value());
}

BOOST_AUTO_TEST_CASE(a_complaint_replaces_a_bounce_and_nothing_shortens_the_time) {
  fails(bounce, true);
  const auto end = known->expires;
  pass(kDay);
  BOOST_TEST(!fails(returned, true));
  BOOST_TEST((known->reason == bounce));
  BOOST_TEST(known->expires == end);
  BOOST_TEST(!fails(complaint, true));  // it is on the list already
  BOOST_TEST((known->reason == complaint));
  BOOST_TEST(known->expires > end);
}

BOOST_AUTO_TEST_CASE(what_was_ordered_stays) {
  known = SuppressionRecord{.state = State::listed, .reason = order, .expires = unix_seconds(now) + 100, .text = {}};
  fails(complaint, true);
  BOOST_TEST((known->reason == order));
  BOOST_TEST(known->expires == unix_seconds(now) + 100);
}

BOOST_AUTO_TEST_CASE(one_that_was_removed_begins_anew) {
  fails(bounce);
  known->state = State::removed;
  known->bounce_days = 2;
  pass(kDay);
  BOOST_TEST(!fails(bounce));
  BOOST_TEST(known->bounce_days == 1u);
}

BOOST_AUTO_TEST_CASE(keys_hold_all_forms_of_an_address_and_no_more_than_fits) {
  BOOST_TEST(suppression_key("News", "Jo@There.Example") == suppression_key("news", "jo@there.example"));
  BOOST_TEST(suppression_key("a", "jo@there.example") != suppression_key("", "jo@there.example"));
  const std::string key = suppression_key("a", "jo@there.example");
  const auto [tenant, address] = suppression_names(key);
  BOOST_TEST(tenant == "a");
  BOOST_TEST(address == "jo@there.example");
  BOOST_TEST(suppression_key("", "jo") == "");
  BOOST_TEST(suppression_key("", std::string(500, 'x') + "@there.example") == "");
  BOOST_TEST(suppression_key("", std::string("a\0b@there.example", 17)) == "");
}

BOOST_AUTO_TEST_SUITE_END()
