/// The table of docs/notices.md, row by row.
#include "qmgr/notice_rules.h"

#include "qmgr/parts_fixture.h"

namespace pen::qmgr {
namespace {

struct Rules {
  ManagerOptions options;
  Active m;
  WallTime arrival{seconds(1'800'000'000)};

  explicit Rules(std::uint8_t notify = 0, const std::string& sender = "s@x.example") {
    mail::Envelope e;
    e.queue_id = "A1";
    e.arrival = arrival;
    e.sender = sender;
    e.recipients.push_back({.address = "r@x.example", .original = {}, .orcpt = {}, .notify = notify});
    m.remaining.add(0);
    m.set_envelope(std::move(e));
  }
  int owed(const mail::DeliveryStatus& status) { return owed_for(options, m, 0, status); }
  /// The next report, after this result and so long after the arrival.
  std::optional<ipc::bounce::Kind> next(seconds age) {
    m.notes[0].status = later();
    return next_report(options, m, arrival + age);
  }
};
using ipc::bounce::Kind;
using mail::notify::kDelay, mail::notify::kFailure, mail::notify::kNever, mail::notify::kSuccess;

}  // namespace

BOOST_AUTO_TEST_SUITE(notice_rules)

BOOST_AUTO_TEST_CASE(a_failure_is_owed_unless_notify_leaves_it_out) {
  BOOST_TEST(Rules(0).owed(failed()) == kFailure);
  BOOST_TEST(Rules(kFailure | kSuccess).owed(failed()) == kFailure);
  BOOST_TEST(Rules(kNever).owed(failed()) == 0);
  BOOST_TEST(Rules(kSuccess).owed(failed()) == 0);
}

BOOST_AUTO_TEST_CASE(a_success_is_owed_where_it_is_asked_for_and_is_ours_to_tell) {
  BOOST_TEST(Rules(0).owed(ok()) == 0);
  BOOST_TEST(Rules(kSuccess).owed(ok()) == kSuccess);
  BOOST_TEST(Rules(kSuccess).owed(mail::make_status(mail::Action::transferred, "2.0.0", "250 ok")) == 0);
}

BOOST_AUTO_TEST_CASE(of_a_notice_only_the_postmaster_hears) {
  Rules notice(0, "");
  BOOST_TEST(notice.owed(failed()) == 0);
  notice.options.double_bounces = true;
  BOOST_TEST(notice.owed(failed()) == kFailure);
}

BOOST_AUTO_TEST_CASE(a_delay_is_told_once_and_only_when_it_is_long) {
  Rules late;
  BOOST_TEST((late.next(seconds(9000)) == std::nullopt));
  late.options.delay_warning = seconds(3600);
  BOOST_TEST((late.next(seconds(3599)) == std::nullopt));
  BOOST_TEST((late.next(seconds(3600)) == std::optional(Kind::delay)));
  queue_log::OrdinalSet all;
  all.add(0);
  mark_told(late.m, all, Kind::delay);
  BOOST_TEST((late.next(seconds(9000)) == std::nullopt));
}

BOOST_AUTO_TEST_CASE(nobody_is_warned_who_does_not_want_it) {
  Rules late(kFailure);
  late.options.delay_warning = seconds(3600);
  BOOST_TEST((late.next(seconds(9000)) == std::nullopt));
}

BOOST_AUTO_TEST_CASE(of_mail_that_waits_for_a_share_the_notice_states_no_try_and_no_end_that_is_past) {
  Rules rules;
  rules.options.delay_warning = seconds(3600);
  rules.options.lifetime = seconds(7200);
  rules.m.parked = true;
  rules.m.waits_for = Active::WaitsFor::tenant;
  BOOST_TEST((next_report(rules.options, rules.m, rules.arrival + seconds(7200)) == std::nullopt));
  BOOST_TEST((next_report(rules.options, rules.m, rules.arrival + seconds(7199)) == std::optional(Kind::delay)));
  BOOST_TEST(rules.m.notes.at(0).status.dsn == "4.4.5");
  BOOST_TEST((rules.m.notes.at(0).when == WallTime{}));
}

BOOST_AUTO_TEST_CASE(a_delivery_after_a_warning_is_told_where_that_is_set) {
  Rules warned;
  warned.m.notes[0].owed = kWarned;
  BOOST_TEST(warned.owed(ok()) == 0);
  warned.options.confirm_delay_cleared = true;
  BOOST_TEST(warned.owed(ok()) == (kSuccess | kWarned));
}

BOOST_AUTO_TEST_CASE(the_report_on_a_first_try_comes_before_the_others) {
  Rules rules;
  rules.m.notes[0].owed = kFirstTry | kFailure;
  BOOST_TEST((rules.next(seconds(0)) == std::optional(Kind::first_try)));
  rules.m.notes[0].owed = kFailure | kSuccess;
  BOOST_TEST((rules.next(seconds(0)) == std::optional(Kind::failure)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
