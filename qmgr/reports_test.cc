/// What senders and the postmaster learn, and that a crash neither loses nor repeats it.
#include "qmgr/reports.h"
#include "lib/suite/ipc/frame.h"
#include "qmgr/manager_fixture.h"
#include "qmgr/parts_fixture.h"

namespace pen::qmgr {

BOOST_FIXTURE_TEST_SUITE(reports, Fixture)

BOOST_AUTO_TEST_CASE(failures_are_reported_once_and_the_message_ends) {
  qmgr->send("A1", "s@x.example", {"no@a.example", "ok@a.example", "nowhere@c.example"});
  qmgr->run();
  BOOST_TEST(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "failure A1: no@a.example nowhere@c.example");
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_failing_notification_is_dropped_without_another) {
  qmgr->send("B1", "", {"no@a.example"});
  qmgr->run();
  BOOST_TEST(outside.notices.empty());
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(an_owed_report_survives_a_bounce_program_out_of_order_and_a_restart) {
  qmgr->bounce_works = false;
  qmgr->send("A1", "s@x.example", {"no@a.example"});
  qmgr->run();
  BOOST_TEST(qmgr->listed() == 1U);
  kill();
  start();
  qmgr->advance(seconds(400));
  BOOST_TEST(outside.notices.size() == 1U);
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_durable_notification_discharges_even_when_bounce_dies_before_it_answers) {
  qmgr->bounce_answers = false;
  qmgr->send("A1", "s@x.example", {"no@a.example"});
  qmgr->run();
  qmgr->manager_->event()->reports.lost();
  qmgr->advance(seconds(10));
  BOOST_TEST(outside.notices.size() == 1U);
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_report_is_discharged_only_by_whom_it_was_asked_of_and_as_it_was_asked) {
  using ipc::enqueue::Outcome;
  qmgr->bounce_waits = true;
  qmgr->send("A1", "s@x.example", {"ok@a.example", "no@a.example"});
  qmgr->send("A2", "s@x.example", {"no@a.example"});
  qmgr->run();
  BOOST_REQUIRE(qmgr->reports_held.size() == 2U);
  const ipc::bounce::Notify first = qmgr->reports_held[0], second = qmgr->reports_held[1];
  BOOST_TEST(first.permit != second.permit);
  const auto failure = static_cast<std::uint8_t>(ipc::bounce::Kind::failure);
  const auto success = static_cast<std::uint8_t>(ipc::bounce::Kind::success);
  const mail::Discharge right{first.envelope.queue_id, {first.recipients[0].ordinal}, failure};
  int number = 0;
  auto tried = [&](std::vector<mail::Discharge> discharges, std::uint64_t permit) {
    qmgr->last_ = Outcome::try_later;
    qmgr->send("N" + std::to_string(++number), "", {"s@x.example"}, std::move(discharges), permit);
    qmgr->run();
    return qmgr->last_;
  };
  BOOST_TEST((tried({right}, 0) == Outcome::refused));
  BOOST_TEST((tried({right}, first.permit + 1) == Outcome::refused));
  BOOST_TEST((tried({right}, second.permit) == Outcome::refused));
  BOOST_TEST((tried({{right.queue_id, right.ordinals, success}}, first.permit) == Outcome::refused));
  BOOST_TEST((tried({{second.envelope.queue_id, {0}, failure}}, first.permit) == Outcome::refused));
  BOOST_TEST((tried({{right.queue_id, {7}, failure}}, first.permit) == Outcome::refused));
  BOOST_TEST((tried({{right.queue_id, {right.ordinals[0], 7}, failure}}, first.permit) == Outcome::refused));
  BOOST_TEST((tried({right, {"A9", {0}, failure}}, first.permit) == Outcome::refused));
  const auto before = qmgr->manager_->figures().bounced;
  BOOST_TEST((tried({right}, first.permit) == Outcome::ok));
  BOOST_TEST(qmgr->manager_->figures().bounced == before + 1);
  BOOST_TEST((tried({right}, first.permit) == Outcome::refused));  // it is good once
  BOOST_TEST((tried({}, first.permit) == Outcome::ok));            // a message like any other
}

BOOST_AUTO_TEST_CASE(an_expired_message_is_returned) {
  qmgr->send("A1", "s@x.example", {"later@a.example"});
  qmgr->run();
  for (int i = 0; i < 200 && outside.notices.empty(); ++i) qmgr->advance(seconds(4000));
  BOOST_TEST(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "failure A1: later@a.example");
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(bounce_queue_lifetime_is_how_long_a_notice_waits) {
  ManagerOptions options;
  options.double_bounces = true;
  options.bounce_lifetime = seconds(20'000);
  start(options);
  qmgr->send("B1", "", {"later@a.example"});
  qmgr->send("A1", "s@x.example", {"later@a.example"});
  qmgr->run();
  for (int i = 0; i < 6; ++i) qmgr->advance(seconds(4000));
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "failure B1: later@a.example");
  BOOST_TEST(qmgr->listed() == 1U);
}

BOOST_AUTO_TEST_CASE(a_notice_that_fails_is_reported_where_the_postmaster_wants_it) {
  ManagerOptions options;
  options.double_bounces = true;
  start(options);
  qmgr->notify_bits = mail::notify::kNever;
  qmgr->send("B1", "", {"no@a.example", "ok@a.example"});
  qmgr->run();
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "failure B1: no@a.example");
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_report_of_a_failed_notice_is_not_made_again_when_qmgr_dies_before_its_end) {
  ManagerOptions options;
  options.double_bounces = true;
  options.double_bounce_sender = "Double-Bounce@mx.example";
  start(options);
  qmgr->notice_goes_to = "later@local.example";
  qmgr->bounce_waits = true;
  qmgr->send("A1", "s@x.example", {"hang@a.example"});
  qmgr->run();
  qmgr->send("B1", "", {"no@a.example"});
  qmgr->run();
  qmgr->reports_.swap(qmgr->reports_held);
  qmgr->run();
  BOOST_REQUIRE(outside.acknowledged.contains("N1B1"));
  kill();  // B1's end waits for the next write
  // The notice moves on to a retry log while B1 waits for room behind A1.
  ManagerOptions narrow = options;
  narrow.active_messages = 1;
  start(narrow);
  BOOST_REQUIRE(qmgr->in_hand.size() == 1U);
  BOOST_REQUIRE(qmgr->listed() == 3U);
  kill();
  start(options);
  BOOST_TEST(outside.notices.size() == 1U);
  BOOST_TEST(qmgr->listed() == 2U);  // B1 has ended
}

BOOST_AUTO_TEST_CASE(with_soft_bounce_refused_mail_stays_in_the_queue_until_it_expires) {
  ManagerOptions options;
  options.soft_bounce = true;
  start(options);
  qmgr->send("A1", "s@x.example", {"no@a.example", "nowhere@c.example"});
  qmgr->run();
  BOOST_TEST(outside.notices.empty());
  BOOST_TEST(qmgr->listed() == 1U);
  for (int i = 0; i < 200 && outside.notices.empty(); ++i) qmgr->advance(seconds(4000));
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "failure A1: no@a.example nowhere@c.example");
}

BOOST_AUTO_TEST_CASE(a_transport_can_have_a_soft_bounce_of_its_own) {
  ManagerOptions options;
  options.transport_soft_bounce["smtp"] = true;
  start(options);
  qmgr->send("A1", "s@x.example", {"no@a.example", "nowhere@c.example"});
  qmgr->run();
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "failure A1: nowhere@c.example");  // it has no transport
  BOOST_TEST(qmgr->listed() == 1U);
  options.transport_soft_bounce["smtp"] = false;
  options.soft_bounce = true;
  start(options);
  qmgr->send("A2", "s@x.example", {"no@a.example", "nowhere@c.example"});
  qmgr->run();
  BOOST_TEST(outside.notices.back() == "failure A2: no@a.example");
}

BOOST_AUTO_TEST_CASE(each_recipient_of_a_verp_message_has_a_notice_to_his_address) {
  qmgr->verp = "+=";
  qmgr->send("A1", "s@x.example", {"no@a.example", "ok@a.example", "nowhere@c.example"});
  qmgr->run();
  BOOST_TEST_REQUIRE(outside.notices.size() == 2U);
  BOOST_TEST(outside.notices[0] == "failure A1: no@a.example");
  BOOST_TEST(outside.notices[1] == "failure A1: nowhere@c.example");
  BOOST_TEST(qmgr->told[0].envelope.sender == "s+no=a.example@x.example");
  BOOST_TEST(qmgr->told[1].envelope.sender == "s+nowhere=c.example@x.example");
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(without_verp_bounces_there_is_one_notice_to_the_sender_as_he_came) {
  ManagerOptions options;
  options.verp_bounces = false;
  start(options);
  qmgr->verp = "+=";
  qmgr->send("A1", "s@x.example", {"no@a.example", "nowhere@c.example"});
  qmgr->run();
  BOOST_TEST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "failure A1: no@a.example nowhere@c.example");
  BOOST_TEST(qmgr->told[0].envelope.sender == "s@x.example");
}

BOOST_AUTO_TEST_CASE(a_large_verp_list_that_nobody_takes_has_a_notice_for_each_and_ends) {
  qmgr->verp = "+=";
  std::vector<std::string> to;
  for (int i = 0; i < 70; ++i) to.push_back("no" + std::to_string(i) + "@a.example");
  qmgr->send("A1", "s@x.example", to);
  for (int i = 0; i < 100 && qmgr->listed() > 0; ++i) qmgr->advance(seconds(10));
  BOOST_TEST(outside.notices.size() == to.size());
  BOOST_TEST(std::set<std::string>(outside.notices.begin(), outside.notices.end()).size() == to.size());
  BOOST_TEST(qmgr->listed() == 0U);
}

struct Warned : Fixture {
  Warned() {
    options.delay_warning = seconds(3600);
    start(options);
  }
  void wait_hours(int hours) {
    for (int i = 0; i < hours * 12; ++i) qmgr->advance(seconds(300));
  }
  ManagerOptions options;
};

BOOST_FIXTURE_TEST_CASE(a_sender_is_warned_once_of_late_mail_and_across_restarts, Warned) {
  qmgr->send("A1", "s@x.example", {"later@a.example", "ok@a.example", "later2@b.example"});
  wait_hours(1);
  BOOST_TEST(outside.notices.empty());
  wait_hours(2);
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "delay A1: later@a.example later2@b.example");
  wait_hours(5);
  kill();
  start(options);
  wait_hours(5);
  BOOST_TEST(outside.notices.size() == 1U);
  BOOST_TEST(qmgr->listed() == 1U);
  qmgr->all_well = true;
  wait_hours(2);
  BOOST_TEST(outside.notices.size() == 1U);  // confirm_delay_cleared = no
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_FIXTURE_TEST_CASE(a_warning_is_not_sent_again_when_qmgr_dies_before_it_hears_of_it, Warned) {
  for (const bool answered : {false, true}) {
    outside.notices.clear();
    start(options);
    qmgr->bounce_answers = answered;
    const std::string id = answered ? "A2" : "A1";
    qmgr->send(id, "s@x.example", {"later@a.example"});
    wait_hours(1);
    for (int i = 0; i < 30 && outside.notices.empty(); ++i) qmgr->advance(seconds(300));
    BOOST_REQUIRE(outside.notices.size() == 1U);  // durable with the end of that advance
    kill();
    start(options);
    wait_hours(5);
    BOOST_TEST(outside.notices.size() == 1U);
  }
}

BOOST_FIXTURE_TEST_CASE(a_warning_waits_while_bounce_is_out_of_order_and_holds_up_nothing, Warned) {
  qmgr->bounce_works = false;
  qmgr->send("A1", "s@x.example", {"later@a.example"});
  wait_hours(4);
  BOOST_TEST(qmgr->listed() == 1U);
  qmgr->bounce_works = true;
  wait_hours(2);
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "delay A1: later@a.example");
}

BOOST_FIXTURE_TEST_CASE(nobody_is_warned_who_does_not_want_it, Warned) {
  qmgr->send("A1", "", {"later@a.example"});
  qmgr->notify_bits = mail::notify::kFailure | mail::notify::kSuccess;
  qmgr->send("A2", "s@x.example", {"later@a.example"});
  qmgr->notify_bits = mail::notify::kNever;
  qmgr->send("A3", "s@x.example", {"later@a.example"});
  wait_hours(4);
  BOOST_TEST(outside.notices.empty());
  qmgr->notify_bits = mail::notify::kDelay;
  qmgr->send("A4", "s@x.example", {"later@a.example"});
  wait_hours(4);
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "delay A4: later@a.example");
}

BOOST_FIXTURE_TEST_CASE(a_sender_who_was_warned_is_told_of_the_delivery_where_that_is_asked_for, Warned) {
  options.confirm_delay_cleared = true;
  start(options);
  qmgr->send("A1", "s@x.example", {"later@a.example"});
  wait_hours(4);
  BOOST_TEST(outside.notices.size() == 1U);
  kill();
  start(options);
  qmgr->all_well = true;
  qmgr->send("A2", "s@x.example", {"later@a.example"});
  wait_hours(2);
  BOOST_REQUIRE(outside.notices.size() == 2U);
  BOOST_TEST(outside.notices[1] == "success A1: later@a.example");
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(an_alias_that_became_several_is_reported_as_expanded_and_delivered_to_nobody) {
  const auto send = [&](const std::string& id, const std::string& from) {
    mail::Envelope e;
    e.queue_id = id;
    e.arrival = outside.clock.wall_now();
    e.sender = from;
    e.recipients = {
        {.address = "list@a.example",
         .original = {},
         .orcpt = {},
         .notify = mail::notify::kSuccess | mail::notify::kExpanded},
        {.address = "ok@a.example", .original = "list@a.example", .orcpt = {}, .notify = mail::notify::kNever},
        {.address = "later@b.example", .original = "list@a.example", .orcpt = {}, .notify = mail::notify::kNever}};
    qmgr->manager_->event()->new_mail.enqueue(std::move(e), 0, "", 0, 0,
                                              [](ipc::enqueue::Outcome, const std::string&) {}, {});
  };
  for (const bool killed : {false, true}) {
    outside.notices.clear();
    const std::string id = killed ? "A2" : "A1";
    qmgr->all_well = false;
    if (killed) qmgr->bounce_works = false;
    send(id, "s@x.example");
    qmgr->run();
    if (killed) {
      kill();
      start();
      qmgr->advance(seconds(400));
    }
    BOOST_REQUIRE(outside.notices.size() == 1U);
    BOOST_TEST(outside.notices[0] == "success " + id + ": list@a.example");
    BOOST_TEST(delivered(id + " list@a.example") == 0);
    BOOST_TEST(delivered(id + " ok@a.example") == 1);
    qmgr->all_well = true;
    qmgr->advance(seconds(4000));
    BOOST_TEST(delivered(id + " later@b.example") == 1);
    BOOST_TEST(outside.notices.size() == 1U);
    BOOST_TEST(qmgr->listed() == 0U);
  }
  send("A3", "");
  qmgr->run();
  BOOST_TEST(outside.notices.size() == 1U);
}

BOOST_FIXTURE_TEST_CASE(whatever_the_moment_of_the_crash_a_sender_is_warned_and_not_again, Warned) {
  struct Cut {
    FaultStorage disk;
    Outside outside;
    std::string how;
  };
  std::vector<Cut> cuts;
  Random random(12);
  qmgr->send("A1", "s@x.example", {"ok@a.example", "later@c.example"});
  qmgr->run();
  for (int i = 0; i < 10; ++i) qmgr->advance(seconds(300));
  BOOST_REQUIRE(outside.notices.empty());
  disk.before_operation = [&](const FaultStorage& now) {
    for (const auto how : FaultStorage::kCuts) {
      outside.notice_was_durable = outside.acknowledged.contains("N1A1");
      cuts.push_back(
          {now.cut(how, random), outside,
           "operation " + std::to_string(now.operations()) + " cut " + std::to_string(static_cast<int>(how))});
    }
  };
  for (int i = 0; i < 12; ++i) qmgr->advance(seconds(300));
  disk.before_operation = nullptr;
  BOOST_REQUIRE(outside.notices.size() == 1U);
  const auto warned_before = [](const Cut& c) { return c.outside.notice_was_durable; };
  BOOST_TEST(std::count_if(cuts.begin(), cuts.end(), warned_before) > 5);
  for (auto& cut : cuts) {
    BOOST_TEST_CONTEXT(cut.how) {
      Outside& after = cut.outside;
      Qmgr again(after, cut.disk, options);
      again.recover();
      again.run();
      for (int i = 0; i < 4; ++i) again.advance(seconds(4000));
      for (const auto& notice : after.notices) BOOST_TEST(notice == "delay A1: later@c.example");
      BOOST_TEST(after.notices.size() >= 1U);
      if (cut.outside.notice_was_durable) BOOST_TEST(!after.acknowledged.contains("N2A1"));
      BOOST_TEST(after.notices.size() <= 2U);
    }
  }
}

BOOST_AUTO_TEST_CASE(long_replies_of_any_number_of_recipients_fit_into_queue_and_reports) {
#ifdef PEN_FEW
  constexpr std::size_t kRecipients = 30'000;
#else
  constexpr std::size_t kRecipients = 50'000;
#endif
  std::vector<std::string> to;
  for (std::size_t i = 0; i < kRecipients; ++i)
    to.push_back((i % 2 == 0 ? "no" : "later") + std::to_string(i) + "@a.example");
  for (const auto purpose : {mail::Purpose::traced, mail::Purpose::probe}) {
    disk = FaultStorage();
    outside = Outside();
    segment_size = 64U << 20;
    const auto start_large = [&] {
      start();
      qmgr->later_text = std::string(2000, 't');
      qmgr->diagnostic = "smtp; " + std::string(2000, 'd');
    };
    start_large();
    qmgr->purpose = purpose;
    qmgr->send("A1", "s@x.example", to);
    qmgr->run();
    // What cannot be queued while the log is busy with so large a message is reported in the next round.
    for (int i = 0; i < 12; ++i) qmgr->advance(seconds(4000));
    std::set<std::uint32_t> named;  // in reports on the first try
    std::size_t first = 0;
    for (const auto& n : qmgr->told) {
      BOOST_TEST(encode(n).size() < ipc::max_frame(ipc::bounce::kName) / 4);
      if (n.kind == ipc::bounce::Kind::failure) continue;
      ++first;
      for (const auto& r : n.recipients) BOOST_TEST_REQUIRE(named.insert(r.ordinal).second);
    }
    BOOST_TEST(first > 1U);
    BOOST_TEST(named.size() == kRecipients);
    if (purpose == mail::Purpose::probe) {
      BOOST_TEST(qmgr->listed() == 0U);
      continue;
    }
    const std::size_t told = outside.notices.size();
    BOOST_TEST(told > first + 1);
    BOOST_TEST(qmgr->listed() == 1U);
    // What was written is read again, and nothing is reported twice.
    kill();
    start_large();
    qmgr->all_well = true;
    qmgr->advance(seconds(4000));
    BOOST_TEST(outside.notices.size() == told);
    BOOST_TEST(qmgr->listed() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(a_part_of_a_report_on_a_first_try_that_is_left_is_made_after_a_restart) {
  disk = FaultStorage();
  segment_size = 64U << 20;
  start();
  qmgr->purpose = mail::Purpose::traced;
  qmgr->diagnostic = std::string(490, 'd');
  qmgr->later_text = std::string(490, 't');
  std::vector<std::string> to;
  for (int i = 0; i < 12'000; ++i) to.push_back("later" + std::to_string(i) + "@a.example");
  qmgr->bounce_waits = true;
  qmgr->send("T1", "s@x.example", to);
  qmgr->run();
  BOOST_REQUIRE(qmgr->reports_held.size() == 1U);
  qmgr->reports_.swap(qmgr->reports_held);
  qmgr->run();  // the first part is queued, the second is waited for
  BOOST_REQUIRE(qmgr->reports_held.size() == 1U);
  const std::size_t first = qmgr->told.at(0).recipients.size();
  kill();
  start();
  qmgr->advance(seconds(4000));
  BOOST_REQUIRE(outside.notices.size() == 2U);
  BOOST_TEST(first + qmgr->told.at(0).recipients.size() == to.size());
}

BOOST_AUTO_TEST_CASE(a_report_that_cannot_be_made_is_given_up_after_the_time_a_notice_has) {
  ManagerOptions options;
  options.bounce_lifetime = seconds(100'000);
  start(options);
  qmgr->bounce_works = false;
  qmgr->send("A1", "s@x.example", {"no@a.example"});
  qmgr->run();
  for (int i = 0; i < 24; ++i) qmgr->advance(seconds(4000));
  BOOST_TEST(qmgr->listed() == 1U);
  for (int i = 0; i < 5; ++i) qmgr->advance(seconds(4000));
  BOOST_TEST(qmgr->listed() == 0U);
  BOOST_TEST(outside.notices.empty());
}

BOOST_AUTO_TEST_CASE(a_traced_notice_that_fails_is_reported_to_the_postmaster) {
  ManagerOptions options;
  options.double_bounces = true;
  start(options);
  qmgr->purpose = mail::Purpose::traced;
  qmgr->send("B1", "", {"no@a.example", "later@b.example"});
  qmgr->run();
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "failure B1: no@a.example");
}

struct Probing : Fixture {
  Probing() { qmgr->purpose = mail::Purpose::probe; }
  /// What the last report says of an address: "failed 5.1.1".
  std::string said_of(const std::string& address) {
    BOOST_REQUIRE(!qmgr->told.empty());
    const char* const words[] = {"delivered", "deferred", "failed", "relayed", "expanded", "transferred"};
    for (const auto& r : qmgr->told.back().recipients)
      if (r.recipient.address == address)
        return std::string(words[static_cast<int>(r.status.action)]) + " " + r.status.dsn;
    return "nothing";
  }
  void deliver_again() {
    qmgr->purpose = mail::Purpose::mail;
    qmgr->all_well = true;
  }
};

BOOST_FIXTURE_TEST_CASE(a_probe_has_one_try_delivers_nothing_and_is_reported, Probing) {
  qmgr->send("P1", "s@x.example", {"ok@a.example", "no@a.example", "later@b.example", "nowhere@c.example"});
  qmgr->run();
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "first try P1: ok@a.example no@a.example later@b.example nowhere@c.example");
  BOOST_TEST(said_of("ok@a.example") == "delivered 2.0.0");
  BOOST_TEST(said_of("no@a.example") == "failed 5.1.1");
  BOOST_TEST(said_of("later@b.example") == "deferred 4.2.1");
  BOOST_TEST(said_of("nowhere@c.example") == "failed 5.1.2");
  BOOST_TEST(delivered("P1 ok@a.example") == 0);
  BOOST_TEST(qmgr->listed() == 0U);
  deliver_again();
  qmgr->advance(seconds(400'000));
  BOOST_TEST(outside.notices.size() == 1U);
  BOOST_TEST(delivered("P1 later@b.example") == 0);
}

BOOST_FIXTURE_TEST_CASE(a_probe_of_hosts_that_cannot_be_reached_is_answered_at_once, Probing) {
  qmgr->hosts_answer = false;
  qmgr->send("P1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(said_of("ok@a.example") == "deferred 4.4.1");
  BOOST_TEST(!qmgr->where("P1"));
}

BOOST_FIXTURE_TEST_CASE(the_answer_to_a_probe_of_verify_goes_to_verify_and_to_nobody_else, Probing) {
  qmgr->purpose = mail::Purpose::verification;
  for (const char* sender : {"", "double-bounce@mx.example"}) {
    for (const char* address : {"ok@a.example", "no@a.example", "later@b.example", "nowhere@c.example"}) {
      const std::string id = std::string("P") + sender + address;
      qmgr->probed_results.clear();
      qmgr->send(id, sender, {address});
      qmgr->run();
      BOOST_TEST_REQUIRE(qmgr->probed_results.size() == 1U);
      const auto& probed = qmgr->probed_results.front();
      BOOST_TEST(probed.queue_id == id);
      BOOST_TEST(probed.address == address);
      BOOST_TEST_REQUIRE(probed.results.size() == 1U);
      const std::string dsn = probed.results.front().dsn;
      BOOST_TEST(dsn == (probed.address.starts_with("ok")      ? "2.0.0"
                         : probed.address.starts_with("no@")   ? "5.1.1"
                         : probed.address.starts_with("later") ? "4.2.1"
                                                               : "5.1.2"));
      BOOST_TEST(!qmgr->where(id));
    }
  }
  BOOST_TEST(outside.notices.empty());
  BOOST_TEST(delivered("Pok@a.example") == 0);
}

BOOST_FIXTURE_TEST_CASE(a_probe_of_verify_that_a_restart_finds_is_asked_once_more, Probing) {
  qmgr->purpose = mail::Purpose::verification;
  qmgr->send("P1", "double-bounce@mx.example", {"hang@a.example"});
  qmgr->run();
  BOOST_TEST(qmgr->probed_results.empty());
  kill();
  start();
  qmgr->advance(seconds(1));
  BOOST_TEST_REQUIRE(qmgr->in_hand.size() == 1U);
  qmgr->kill_delivery(3);
  BOOST_TEST_REQUIRE(qmgr->probed_results.size() == 1U);
  BOOST_TEST((qmgr->probed_results.front().results.front().action == mail::Action::deferred));
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_FIXTURE_TEST_CASE(ten_thousand_probes_of_verify_delay_no_mail, Probing) {
  segment_size = 1U << 20;
  start({.verification_limit = 20});
  qmgr->purpose = mail::Purpose::verification;
  qmgr->routers_answer = false;
  for (int i = 0; i < 10'000; ++i) qmgr->send("P" + std::to_string(i), "", {"ok" + std::to_string(i) + "@p.example"});
  qmgr->run();
  BOOST_TEST(qmgr->routes_asked == 20U);
  qmgr->purpose = mail::Purpose::mail;
  for (int i = 0; i < 50; ++i) qmgr->send("M" + std::to_string(i), "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST(qmgr->routes_asked == 70U);
}

BOOST_FIXTURE_TEST_CASE(nobody_is_told_of_a_probe_from_the_null_sender, Probing) {
  qmgr->send("P1", "", {"ok@a.example", "no@a.example", "later@a.example"});
  qmgr->run();
  BOOST_TEST(outside.notices.empty());
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_FIXTURE_TEST_CASE(a_probe_is_neither_softened_nor_filtered, Probing) {
  ManagerOptions options;
  options.soft_bounce = true;
  start(options);
  qmgr->purpose = mail::Purpose::probe;
  qmgr->filter = "scan:[127.0.0.1]:10025";
  qmgr->send("P1", "s@x.example", {"no@a.example"});
  qmgr->run();
  BOOST_TEST(said_of("no@a.example") == "failed 5.1.1");
  BOOST_TEST(qmgr->ways_asked.front() == "");
}

BOOST_FIXTURE_TEST_CASE(a_probe_whose_report_cannot_be_made_keeps_its_answers, Probing) {
  qmgr->bounce_works = false;
  qmgr->send("P1", "s@x.example", {"no@a.example", "later@b.example"});
  qmgr->run();
  BOOST_TEST(qmgr->listed() == 1U);
  kill();
  start();
  qmgr->all_well = true;  // it is not asked again
  qmgr->advance(seconds(400));
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(said_of("later@b.example") == "deferred 4.2.1");
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_FIXTURE_TEST_CASE(a_probe_that_ends_its_program_is_answered_with_that, Probing) {
  qmgr->send("P1", "s@x.example", {"hang@a.example", "ok@b.example"});
  qmgr->run();
  qmgr->kill_delivery(3);
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(said_of("ok@b.example") == "delivered 2.0.0");
  BOOST_TEST(said_of("hang@a.example") == "deferred 4.3.0");
  BOOST_TEST(qmgr->told[0].recipients[0].status.text == "given up: asking ends the delivery program");
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_FIXTURE_TEST_CASE(a_probe_whose_look_up_ends_its_program_is_answered_with_that, Probing) {
  qmgr->routers_answer = false;
  qmgr->send("P1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  for (int death = 1; death <= 3; ++death) {
    qmgr->manager_->event()->routes.lost(UINT64_MAX);
    qmgr->run();
  }
  BOOST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(qmgr->told[0].recipients[0].status.text == "given up: the look-up ends its program");
  BOOST_TEST(!qmgr->where("P1"));
}

BOOST_FIXTURE_TEST_CASE(a_probe_on_hold_is_no_answer_until_it_is_released, Probing) {
  qmgr->hold = true;
  qmgr->send("P1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST(outside.notices.empty());
  BOOST_TEST(qmgr->listed() == 1U);
}

BOOST_AUTO_TEST_CASE(a_traced_message_is_reported_after_its_first_try_and_then_as_any_other) {
  qmgr->purpose = mail::Purpose::traced;
  qmgr->send("T1", "s@x.example", {"ok@a.example", "no@a.example", "later@b.example"});
  qmgr->run();
  BOOST_REQUIRE(outside.notices.size() == 2U);
  BOOST_TEST(outside.notices[0] == "first try T1: ok@a.example no@a.example later@b.example");
  BOOST_TEST(outside.notices[1] == "failure T1: no@a.example");
  BOOST_TEST(delivered("T1 ok@a.example") == 1);
  qmgr->advance(seconds(4000));
  BOOST_TEST(outside.notices.size() == 2U);
  qmgr->all_well = true;
  qmgr->advance(seconds(4000));
  BOOST_TEST(delivered("T1 later@b.example") == 1);
  BOOST_TEST(outside.notices.size() == 2U);
  BOOST_TEST(qmgr->listed() == 0U);
  qmgr->send("T2", "", {"ok@a.example", "later@b.example"});
  qmgr->run();
  BOOST_TEST(outside.notices.size() == 2U);
}

BOOST_AUTO_TEST_CASE(whatever_the_moment_of_the_crash_a_first_try_is_reported_and_not_again) {
  struct Cut {
    FaultStorage disk;
    Outside outside;
    std::string how;
  };
  for (const auto purpose : {mail::Purpose::traced, mail::Purpose::probe}) {
    std::vector<Cut> cuts;
    Random random(14);
    disk.before_operation = [&](const FaultStorage& now) {
      for (const auto how : FaultStorage::kCuts) {
        outside.notice_was_durable = outside.acknowledged.contains("N1T1");
        cuts.push_back(
            {now.cut(how, random), outside,
             "operation " + std::to_string(now.operations()) + " cut " + std::to_string(static_cast<int>(how))});
      }
    };
    qmgr->purpose = purpose;
    qmgr->send("T1", "s@x.example", {"ok@a.example", "later@c.example"});
    qmgr->run();
    for (int i = 0; i < 3; ++i) qmgr->advance(seconds(300));
    disk.before_operation = nullptr;
    BOOST_REQUIRE(outside.notices.size() == 1U);
    const auto told_before = [](const Cut& c) { return c.outside.notice_was_durable; };
    BOOST_TEST(std::count_if(cuts.begin(), cuts.end(), told_before) > 5);
    for (auto& cut : cuts) {
      BOOST_TEST_CONTEXT(cut.how) {
        Outside& after = cut.outside;
        const bool taken = after.acknowledged.contains("T1");
        Qmgr again(after, cut.disk);
        again.recover();
        again.run();
        for (int i = 0; i < 4; ++i) again.advance(seconds(4000));
        for (const auto& notice : after.notices) BOOST_TEST(notice == "first try T1: ok@a.example later@c.example");
        if (taken) BOOST_TEST(after.notices.size() >= 1U);
        BOOST_TEST(after.notices.size() <= 2U);
        if (cut.outside.notice_was_durable) BOOST_TEST(!after.acknowledged.contains("N2T1"));
        if (purpose == mail::Purpose::probe) {
          BOOST_TEST(after.delivered["T1 ok@a.example"] == 0);
          BOOST_TEST(again.listed() == 0U);
        }
      }
    }
    outside = Outside();
    disk = FaultStorage();
    start();
  }
}

BOOST_AUTO_TEST_SUITE_END()

namespace {
struct Alone : RoundsFixture {
  Reports reports{around, active, rounds};
  /// A message with one recipient, which has failed.
  Active& failed_message(const std::string& id) {
    Active& m = work_on(envelope(id));
    rounds.done(m, {0}, failed());
    settle_results();
    BOOST_REQUIRE(rounds.next_over() == &m);
    return m;
  }
  mail::Discharge discharge_of(const ipc::bounce::Notify& n) const {
    return {n.envelope.queue_id, {0}, static_cast<std::uint8_t>(n.kind)};
  }
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(reports_alone, Alone)

BOOST_AUTO_TEST_CASE(a_report_is_owed_until_the_program_says_that_it_is_made) {
  Active& m = failed_message("A1");
  BOOST_TEST(reports.start(m));
  BOOST_REQUIRE(ports.notices.size() == 1U);
  BOOST_TEST(ports.notices[0].envelope.queue_id == "A1");
  BOOST_TEST(ports.notices[0].recipients.size() == 1U);
  BOOST_TEST(m.owes());
  rounds.look_at(m.number);
  BOOST_TEST(rounds.next_over() == nullptr);
  reports.notified({ports.notices[0].request, true, "N1", {}});
  BOOST_TEST(!m.owes());
  BOOST_TEST(reports.made() == 1U);
  BOOST_TEST(rounds.next_over() == &m);
  BOOST_TEST(!reports.start(m));
}

BOOST_AUTO_TEST_CASE(a_report_that_cannot_be_made_stays_owed_for_the_next_round) {
  Active& m = failed_message("A1");
  BOOST_TEST(reports.start(m));
  reports.unavailable("no such program");
  BOOST_TEST(m.owes());
  BOOST_TEST(m.report_refused);
  BOOST_TEST(rounds.next_over() == &m);
}

BOOST_AUTO_TEST_CASE(a_report_whose_program_died_is_asked_for_again_after_a_pause) {
  Active& m = failed_message("A1");
  BOOST_TEST(reports.start(m));
  reports.lost();
  reports.ask_again();
  BOOST_TEST(rounds.next_over() == nullptr);
  BOOST_TEST((reports.wake_at() == clock.now() + seconds(5)));
  clock.advance(seconds(5));
  reports.ask_again();
  BOOST_TEST(rounds.next_over() == &m);
  BOOST_TEST(reports.start(m));
  BOOST_TEST(ports.notices.size() == 2U);
}

BOOST_AUTO_TEST_CASE(only_the_permit_of_the_request_discharges_it) {
  Active& m = failed_message("A1");
  BOOST_TEST(reports.start(m));
  const auto& asked = ports.notices[0];
  const auto d = discharge_of(asked);
  BOOST_TEST(!reports.may_discharge(d, 0));
  BOOST_TEST(!reports.may_discharge(d, asked.permit + 1));
  BOOST_TEST(reports.may_discharge(d, asked.permit));
  mail::Discharge of_another = d;
  of_another.ordinals = {0, 1};
  BOOST_TEST(!reports.may_discharge(of_another, asked.permit));
  reports.discharge(d);
  BOOST_TEST(!m.owes());
  BOOST_TEST(!reports.may_discharge(d, asked.permit));
  BOOST_TEST(rounds.next_over() == &m);
}

BOOST_AUTO_TEST_CASE(a_report_from_before_a_restart_waits_for_the_look_through_the_queue) {
  mail::Envelope notice = envelope("N1", {"s@x.example"}, "");
  notice.discharges.push_back({"A1", {0}, static_cast<std::uint8_t>(ipc::bounce::Kind::failure)});
  stored(std::move(notice));
  Active& m = failed_message("A1");
  m.recovered = true;
  BOOST_TEST(reports.start(m));
  BOOST_TEST(ports.notices.empty());
  for (int i = 0; i < 100 && !rounds.any_to_look_at(); ++i) reports.look_back();
  BOOST_REQUIRE(rounds.next_over() == &m);
  BOOST_TEST(!reports.start(m));  // it was made
  BOOST_TEST(!m.owes());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
