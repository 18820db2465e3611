/// Messages on their way through the manager.
#include "lib/suite/events/attempt.h"
#include "qmgr/manager_fixture.h"

namespace pen::qmgr {

BOOST_FIXTURE_TEST_SUITE(manager, Fixture)

BOOST_AUTO_TEST_CASE(a_message_is_acknowledged_after_the_sync_then_delivered_and_gone) {
  qmgr->send("A1", "s@x.example", {"ok@a.example", "ok2@a.example", "ok@b.example"});
  BOOST_TEST(!outside.acknowledged.contains("A1"));
  const auto syncs = disk.syncs();
  qmgr->commit();
  BOOST_TEST(disk.syncs() == syncs + 1);
  qmgr->manager_->settle();
  BOOST_TEST(outside.acknowledged.contains("A1"));
  qmgr->run();
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
  BOOST_TEST(delivered("A1 ok2@a.example") == 1);
  BOOST_TEST(delivered("A1 ok@b.example") == 1);
  BOOST_TEST(qmgr->bodies["A1"] == "Subject: A1\r\n\r\nbody of A1\r\n");
  BOOST_TEST(qmgr->listed() == 0U);
  BOOST_TEST(qmgr->manager_->figures().active == 0U);
}

BOOST_AUTO_TEST_CASE(the_same_id_again_is_ok_again_and_delivered_once) {
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
}

/// Its receiver, or its drop file, asks again when the log cannot know it any more: two processes died, the first of
/// them with the answer, and positions were saved in between.
BOOST_AUTO_TEST_CASE(two_versions_of_a_message_that_is_worked_on_end_nothing) {
  qmgr->send("A1", "s@x.example", {"hang@a.example", "later@b.example"});
  qmgr->run();
  kill();
  // The second process has saved positions and not begun to deliver: the message waits in its journal.
  qmgr = std::make_unique<Qmgr>(outside, disk);
  qmgr->recover();
  qmgr->log_->commits().save_positions();
  qmgr->commit();
  kill();
  start();
  BOOST_TEST(qmgr->in_hand.size() == 1U);
  qmgr->send("A1", "s@x.example", {"hang@a.example", "later@b.example"});
  qmgr->run();
  BOOST_TEST(qmgr->in_hand.size() == 1U);
  kill();
  start();
  BOOST_TEST(qmgr->in_hand.size() == 1U);
  for (const auto& job : std::exchange(qmgr->in_hand, {})) qmgr->answer(job);
  qmgr->all_well = true;
  qmgr->advance(seconds(4001));
  qmgr->advance(seconds(4001));
  BOOST_TEST(qmgr->listed() == 0U);
  BOOST_TEST(delivered("A1 hang@a.example") == 1);
  BOOST_TEST(delivered("A1 later@b.example") == 1);
}

BOOST_AUTO_TEST_CASE(a_deferred_message_whose_drop_file_returns_is_flushed_and_ends_nothing) {
  qmgr->send("A1", "s@x.example", {"later@a.example"});
  qmgr->run();
  qmgr->advance(seconds(2));
  for (int death = 0; death < 2; ++death) {
    qmgr->log_->commits().save_positions();
    qmgr->commit();
    kill();
    start();
  }
  qmgr->send("A1", "s@x.example", {"later@a.example"});
  qmgr->manager_->flush_all();
  qmgr->run();
  qmgr->advance(seconds(301));
  qmgr->manager_->flush_all();
  qmgr->run();
  BOOST_TEST(qmgr->listed() == 1U);
  qmgr->all_well = true;
  qmgr->advance(seconds(4001));
  BOOST_TEST(qmgr->listed() == 0U);
  BOOST_TEST(delivered("A1 later@a.example") == 1);
}

BOOST_AUTO_TEST_CASE(what_a_stop_leaves_waiting_is_no_failed_try_and_goes_out_at_the_next_start) {
  qmgr->manager_->event()->scheduler.transport_up("smtp", false);
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  qmgr->manager_->drain();
  qmgr->manager_->event()->jobs.transport_failed("smtp", "its program went with the stop");
  qmgr->run();
  BOOST_TEST(qmgr->manager_->figures().deferred == 0U);
  kill();
  start();
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
}

BOOST_AUTO_TEST_CASE(a_route_that_holds_for_a_domain_is_asked_for_once) {
  qmgr->routes_for_domains = true;
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  // more than are routed from memory in one go
  std::vector<std::string> many;
  for (int i = 0; i < 500; ++i) many.push_back("ok" + std::to_string(i) + "@a.example");
  qmgr->send("A2", "s@x.example", many);
  qmgr->run();
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
  for (const auto& to : many) BOOST_TEST(delivered("A2 " + to) == 1);
  BOOST_TEST(qmgr->routes_asked < 400U);  // those of the first two hundred at least are known
  const std::size_t before = qmgr->routes_asked;
  qmgr->manager_->event()->routes.lost(0);
  qmgr->send("A3", "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST(qmgr->routes_asked == before + 1);  // the next one may say something else
}

BOOST_AUTO_TEST_CASE(an_answer_does_not_wait_for_the_work_on_its_message) {
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  BOOST_TEST(qmgr->commit());
  BOOST_TEST((qmgr->manager_->wake_at() <= outside.clock.now()));
  qmgr->manager_->settle();
  BOOST_TEST(outside.acknowledged.contains("A1"));
  BOOST_TEST(qmgr->active_at_answer == 0U);
  BOOST_TEST(qmgr->manager_->figures().active == 1U);
}

BOOST_AUTO_TEST_CASE(messages_whose_envelopes_were_packed_fare_like_others) {
  constexpr int kMessages = 900;  // more than stay unpacked at once, in each way that a message can go
  const char* fates[] = {"ok", "later", "no"};
  for (int i = 0; i < kMessages; ++i) {
    const std::string number = std::to_string(i);
    qmgr->send("A" + number, "s@x.example", {fates[i % 3] + number + "@a.example"});
  }
  for (int i = 0; i < 1000 && qmgr->commit(); ++i) {
  }
  qmgr->manager_->settle();
  BOOST_TEST(qmgr->manager_->figures().active == std::size_t{kMessages});
  qmgr->run();
  BOOST_TEST(qmgr->manager_->figures().active == 0U);
  BOOST_TEST(qmgr->listed() == std::size_t{kMessages / 3});
  BOOST_TEST(outside.notices.size() == std::size_t{kMessages / 3});
  for (int i = 0; i < kMessages; i += 3) {
    const std::string number = std::to_string(i);
    BOOST_TEST(delivered("A" + number + " ok" + number + "@a.example") == 1);
    BOOST_TEST(qmgr->bodies["A" + number].starts_with("Subject: A" + number + "\r\n"));
  }
  qmgr->all_well = true;
  qmgr->advance(seconds(4100));
  BOOST_TEST(qmgr->listed() == 0U);
  BOOST_TEST(delivered("A1 later1@a.example") == 1);
}

BOOST_AUTO_TEST_CASE(an_address_that_a_command_may_take_for_an_option_is_returned_unless_it_is_let_through) {
  for (const bool allowed : {false, true}) {
    ManagerOptions options;
    options.allow_minus = allowed;
    start(options);
    const std::string id = allowed ? "M2" : "M1";
    qmgr->send(id, "ada@here.example", {"-v@a.example", "ok@a.example"});
    qmgr->run();
    BOOST_TEST(delivered(id + " ok@a.example") == 1);
    BOOST_TEST(delivered(id + " -v@a.example") == (allowed ? 1 : 0));
    const bool told =
        std::count(outside.notices.begin(), outside.notices.end(), "failure " + id + ": -v@a.example") == 1;
    BOOST_TEST(told == !allowed);
  }
}

BOOST_AUTO_TEST_CASE(a_malformed_message_is_refused) {
  qmgr->send("A1", "s@x.example", {});
  BOOST_TEST((qmgr->last_ == ipc::enqueue::Outcome::refused));
}

BOOST_AUTO_TEST_CASE(a_deferred_recipient_is_tried_again_at_growing_intervals) {
  qmgr->send("A1", "s@x.example", {"ok@a.example", "later@a.example"});
  qmgr->run();
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
  BOOST_TEST(qmgr->manager_->figures().active == 0U);
  BOOST_TEST(qmgr->listed() == 1U);
  const auto tries = [&] { return qmgr->manager_->figures().deferred; };
  BOOST_TEST(tries() == 1U);
  qmgr->advance(seconds(299));
  BOOST_TEST(tries() == 1U);
  qmgr->advance(seconds(2));
  BOOST_TEST(tries() == 2U);
  qmgr->advance(seconds(301));
  qmgr->advance(seconds(1));
  BOOST_TEST(tries() >= 2U);
  qmgr->all_well = true;
  qmgr->advance(seconds(5000));
  BOOST_TEST(delivered("A1 later@a.example") == 1);
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(each_try_comes_after_as_long_as_the_message_is_old_within_the_bounds) {
  qmgr->send("A1", "s@x.example", {"later@a.example"});
  qmgr->run();
  std::vector<int> tries;  // seconds after its arrival
  for (int second = 0; second <= 17000; ++second) {
    if (second > 0) qmgr->advance(seconds(1));
    if (qmgr->handed.size() > tries.size()) tries.push_back(second);
  }
  const std::vector<int> expected{0, 300, 600, 1200, 2400, 4800, 8800, 12800, 16800};
  BOOST_TEST(tries == expected, boost::test_tools::per_element());
  BOOST_TEST(qmgr->handed.size() == expected.size());
}

BOOST_AUTO_TEST_CASE(a_peer_that_says_when_to_come_back_is_believed_within_bounds) {
  const auto tries = [&] { return qmgr->manager_->figures().deferred; };
  qmgr->later_text = "greylisted, try again in 1000 seconds";
  qmgr->send("A1", "s@x.example", {"later@a.example", "later2@a.example"});
  qmgr->run();
  BOOST_TEST(tries() == 1U);
  qmgr->advance(seconds(999));  // its age alone would have it tried after 300
  BOOST_TEST(tries() == 1U);
  qmgr->later_text = "try again in 10 seconds";  // sooner than a quarter of its age: not believed
  qmgr->advance(seconds(900));
  BOOST_TEST(tries() == 2U);
  qmgr->advance(seconds(200));
  BOOST_TEST(tries() == 2U);
  qmgr->later_text = "try again in 9 hours";
  qmgr->advance(seconds(1000));
  const auto before = tries();
  qmgr->advance(seconds(3900));
  BOOST_TEST(tries() == before);
  qmgr->all_well = true;
  qmgr->advance(seconds(200));
  BOOST_TEST(delivered("A1 later@a.example") == 1);
}

BOOST_AUTO_TEST_CASE(a_fault_of_ours_teaches_nothing_about_the_host) {
  const auto known = [&] {
    std::optional<destdb::Facts> facts;
    qmgr->scheduler_->each_destination([&](const DestinationState& d) { facts = d.facts; });
    BOOST_TEST_REQUIRE(facts.has_value());
    return *facts;
  };
  qmgr->service_time = milliseconds(300);
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  const auto before = known();
  BOOST_TEST(before.service_time.count() > 0);

  qmgr->service_time = {};
  qmgr->send("A2", "s@x.example", {"ours@a.example"});
  qmgr->spool_file = 7;
  qmgr->spool_opens = false;
  qmgr->send("A3", "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST(qmgr->manager_->figures().deferred == 2U);
  BOOST_TEST(known().service_time.count() == before.service_time.count());
  BOOST_TEST(known().deferrals == before.deferrals);
  BOOST_TEST(known().failures == before.failures);
}

BOOST_AUTO_TEST_CASE(a_refused_connection_defers_and_delivers_later) {
  qmgr->hosts_answer = false;
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST(qmgr->listed() == 1U);
  BOOST_TEST(delivered("A1 ok@a.example") == 0);
  qmgr->hosts_answer = true;
  qmgr->advance(seconds(301));
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
}

BOOST_AUTO_TEST_CASE(more_mail_than_the_active_set_holds_follows_from_the_log) {
  ManagerOptions options;
  options.active_messages = 3;
  start(options);
  for (int i = 0; i < 20; ++i) qmgr->send("A" + std::to_string(i), "s@x.example", {"ok@a.example"});
  qmgr->run();
  for (int i = 0; i < 20; ++i) BOOST_TEST(delivered("A" + std::to_string(i) + " ok@a.example") == 1);
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(new_and_deferred_mail_are_admitted_by_turns) {
  ManagerOptions options;
  options.active_messages = 2;
  start(options);
  constexpr int kEach = 8;
  for (int i = 0; i < kEach; ++i) qmgr->send("D" + std::to_string(i), "s@x.example", {"later@a.example"});
  qmgr->run();
  // Nothing more is admitted until one of these is answered.
  for (const char* id : {"H0", "H1"}) qmgr->send(id, "s@x.example", {"hang@a.example"});
  qmgr->run();
  BOOST_TEST_REQUIRE(qmgr->in_hand.size() == 2U);
  qmgr->handed.clear();
  outside.clock.advance(seconds(301));  // the deferred ones are due
  for (int i = 0; i < kEach; ++i) qmgr->send("N" + std::to_string(i), "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST_REQUIRE(qmgr->handed.empty());
  qmgr->all_well = true;
  qmgr->answer(qmgr->in_hand.front());  // one place for all that wait
  qmgr->run();
  BOOST_TEST_REQUIRE(qmgr->handed.size() == std::size_t{2 * kEach});
  int ahead = 0;  // of the new by the deferred
  for (const auto& id : qmgr->handed) {
    ahead += id.starts_with("D") ? 1 : -1;
    BOOST_TEST(std::abs(ahead) <= 1, "at " << id);
  }
}

BOOST_AUTO_TEST_CASE(a_tarpit_keeps_its_share_of_the_active_set_and_makes_room_for_others) {
  ManagerOptions options;
  options.active_messages = 150;
  Options scheduler;
  scheduler.backlog_threshold = scheduler.ride_limit = 1;
  scheduler.share_limit = 5;
  start(options, scheduler);
  for (int i = 0; i < 200; ++i) qmgr->send("T" + std::to_string(i), "s@x.example", {"hang@tar.example"});
  qmgr->run();
  BOOST_TEST(qmgr->manager_->figures().active == 150U);
  const auto parked = [&] { return qmgr->manager_->figures().parked; };
  BOOST_TEST(parked() == 0U);
  for (int i = 0; i < 10; ++i) qmgr->send("A" + std::to_string(i), "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST(parked() == 0U);  // nobody has waited for long
  for (int i = 0; i < 10; ++i) qmgr->advance(seconds(1));
  for (int i = 0; i < 10; ++i) BOOST_TEST(delivered("A" + std::to_string(i) + " ok@a.example") == 1);
  BOOST_TEST(parked() > 0U);
  BOOST_TEST(qmgr->manager_->figures().deferred == 0U);
  BOOST_TEST(qmgr->listed() == 200U);
  // They come back, and the whole of what waits for the tarpit is delivered when it answers.
  qmgr->advance(seconds(301));
  for (int i = 0; i < 200 && qmgr->listed() > 0; ++i) {
    for (const auto& job : std::exchange(qmgr->in_hand, {})) qmgr->answer(job);
    qmgr->run();
    qmgr->advance(seconds(100));
  }
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_relay_host_that_takes_what_it_is_given_may_have_the_whole_active_set) {
  ManagerOptions options;
  options.active_messages = 40;
  Options scheduler;
  scheduler.backlog_threshold = scheduler.ride_limit = 1;
  scheduler.share_limit = 5;
  start(options, scheduler);
  for (int i = 0; i < 500; ++i) qmgr->send("A" + std::to_string(i), "s@x.example", {"ok@a.example"});
  for (int i = 0; i < 8; ++i) qmgr->advance(seconds(1));
  BOOST_TEST(qmgr->manager_->figures().parked == 0U);
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(bodies_beyond_the_bound_are_read_again_from_the_log) {
  ManagerOptions options;
  options.body_bytes = 10;
  start(options);
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->send("A2", "s@x.example", {"later@a.example", "no@a.example"});
  qmgr->run();
  qmgr->all_well = true;
  qmgr->advance(seconds(301));
  BOOST_TEST(qmgr->bodies["A1"] == "Subject: A1\r\n\r\nbody of A1\r\n");
  BOOST_TEST(qmgr->bodies["A2"] == "Subject: A2\r\n\r\nbody of A2\r\n");
}

/// The disk loses what it held under a message that is being delivered.
BOOST_AUTO_TEST_CASE(a_message_whose_record_is_damaged_meanwhile_is_told_of_and_ends_nothing) {
  ManagerOptions options;
  options.body_bytes = 10;
  start(options);
  qmgr->send("A1", "s@x.example", {"hang@a.example", "later@b.example"});
  qmgr->send("A2", "s@x.example", {"ok@a.example"});
  qmgr->run();
  const auto where = qmgr->where("A1");
  BOOST_TEST_REQUIRE(where.has_value());
  for (queue_log::Slot slot = 1; slot < disk.slots(); ++slot) {
    const std::string bytes = disk.content(slot);
    for (auto at = bytes.find("body of A1"); at != std::string::npos; at = bytes.find("body of A1", at + 1))
      disk.flip(slot, at, 0x40);
  }
  for (const auto& job : std::exchange(qmgr->in_hand, {})) qmgr->answer(job);
  qmgr->run();
  BOOST_TEST(!qmgr->where("A1").has_value());
  BOOST_TEST(qmgr->log_->restart().report().damage_count > 0U);
  BOOST_TEST(delivered("A2 ok@a.example") == 1);
  kill();
  start(options);
  BOOST_TEST(!qmgr->where("A1").has_value());
}

BOOST_AUTO_TEST_CASE(a_job_in_hand_at_three_deaths_of_its_program_is_held) {
  qmgr->send("A1", "s@x.example", {"hang@a.example"});
  qmgr->run();
  qmgr->kill_delivery(3);
  BOOST_TEST(qmgr->in_hand.empty());
  const auto listed = qmgr->where("A1");
  BOOST_TEST_REQUIRE(listed.has_value());
  BOOST_TEST(listed->place.log == queue_log::kHold);
}

BOOST_AUTO_TEST_CASE(a_look_up_in_hand_at_three_deaths_of_trivial_rewrite_holds_its_message) {
  qmgr->routers_answer = false;
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  for (int death = 1; death <= 3; ++death) {
    qmgr->manager_->event()->routes.lost(UINT64_MAX);
    qmgr->run();
  }
  const auto listed = qmgr->where("A1");
  BOOST_TEST_REQUIRE(listed.has_value());
  BOOST_TEST(listed->place.log == queue_log::kHold);
}

/// The active set is full of bulk mail that does not move: what is urgent is worked on all the same, also after a
/// restart, where it lies behind the others in the journal.
BOOST_AUTO_TEST_CASE(urgent_mail_finds_room_in_the_active_set) {
  ManagerOptions options;
  options.active_messages = 20;
  options.priorities = true;
  start(options);
  qmgr->priority = -4;
  for (int i = 0; i < 40; ++i) qmgr->send("B" + std::to_string(i), "news@x.example", {"hang@a.example"});
  qmgr->run();
  BOOST_TEST(qmgr->manager_->figures().active == 8U);  // 40 per cent
  qmgr->priority = 0;
  for (int i = 0; i < 40; ++i) qmgr->send("N" + std::to_string(i), "n@x.example", {"hang@a.example"});
  qmgr->run();
  BOOST_TEST(qmgr->manager_->figures().active == 18U);  // 90
  BOOST_TEST(qmgr->manager_->figures().parked_by_share == 62U);
  qmgr->priority = 5;
  qmgr->send("U1", "reset@x.example", {"ok@b.example"});
  qmgr->run();
  BOOST_TEST(qmgr->manager_->find("U1") != nullptr);
  qmgr->send("U2", "reset@x.example", {"ok@b.example"});
  (void)qmgr->commit();
  kill();
  start(options);
  BOOST_TEST(outside.delivered["U2 ok@b.example"] == 1);
  BOOST_TEST(qmgr->listed() == 80U);
}

BOOST_AUTO_TEST_CASE(mail_that_waits_for_two_shares_is_not_written_anew_for_each) {
  ManagerOptions options;
  options.active_messages = 20;
  options.tenant_messages = 5;
  options.priorities = true;
  start(options);
  const auto send = [&](const std::string& tenant, int priority, int count) {
    qmgr->tenant = tenant;
    qmgr->priority = static_cast<std::int8_t>(priority);
    for (int i = 0; i < count; ++i) qmgr->send(tenant + std::to_string(i), "s@x.example", {"hang@a.example"});
    qmgr->run();
  };
  const auto end_one_of = [&](const std::string& tenant) {
    const auto job = std::ranges::find_if(qmgr->in_hand, [&](const auto& j) { return j.queue_id.starts_with(tenant); });
    BOOST_TEST_REQUIRE((job != qmgr->in_hand.end()));
    const auto done = *job;
    qmgr->in_hand.erase(job);
    qmgr->answer(done);
    qmgr->run();
  };
  send("a", 0, 5);
  qmgr->priority = -4;
  qmgr->send("X", "s@x.example", {"ok@b.example"});  // of a, which has its share
  qmgr->run();
  send("b", -4, 5);
  send("c", -4, 3);           // and bulk mail has its 8 places
  qmgr->advance(seconds(1));  // all of it is on the disk
  BOOST_TEST(qmgr->manager_->figures().parked_by_share == 1U);
  end_one_of("a");
  BOOST_TEST(outside.delivered["X ok@b.example"] == 0);
  BOOST_TEST(qmgr->manager_->figures().parked_by_share == 1U);
  end_one_of("b");
  BOOST_TEST(outside.delivered["X ok@b.example"] == 1);
}

struct OnePlaceATenant : Fixture {
  OnePlaceATenant() { options.tenant_messages = 1; }
  /// A1 has the place of its tenant, and A2 waits for it: in a retry log that is not written yet.
  void send_two(const std::string& recipient) {
    start(options);
    qmgr->tenant = "a";
    qmgr->send("A1", "s@x.example", {recipient});
    qmgr->send("A2", "s@x.example", {recipient});
    qmgr->run();
    qmgr->tenant.clear();
    BOOST_TEST(qmgr->manager_->figures().parked_by_share == 1U);
  }
  ManagerOptions options;
};

BOOST_FIXTURE_TEST_CASE(after_a_long_stop_old_mail_that_waits_for_a_share_is_tried_before_it_goes_back,
                        OnePlaceATenant) {
  send_two("hang@a.example");
  qmgr->advance(seconds(1));
  kill();
  outside.clock.advance(options.lifetime);
  start(options);
  for (int tried = 0; tried < 2; ++tried) {
    BOOST_TEST_REQUIRE(qmgr->in_hand.size() == 1U);
    const auto done = qmgr->in_hand.front();
    qmgr->in_hand.clear();
    qmgr->answer(done);
    for (int i = 0; i < 2; ++i) qmgr->advance(seconds(1));
  }
  BOOST_TEST(outside.delivered["A1 hang@a.example"] == 1);
  BOOST_TEST(outside.delivered["A2 hang@a.example"] == 1);
}

BOOST_FIXTURE_TEST_CASE(mail_that_waits_for_a_share_is_remembered_while_its_place_is_not_written, OnePlaceATenant) {
  send_two("ok@a.example");
  qmgr->advance(seconds(1));
  qmgr->advance(seconds(1));
  BOOST_TEST(outside.delivered["A2 ok@a.example"] == 1);
}

BOOST_FIXTURE_TEST_CASE(the_sender_of_mail_that_waits_for_a_share_is_told_that_it_is_late, OnePlaceATenant) {
  options.delay_warning = seconds(3600);
  send_two("hang@a.example");
  for (int i = 0; i < 30; ++i) qmgr->advance(seconds(300));
  BOOST_TEST_REQUIRE(outside.notices.size() == 1U);
  BOOST_TEST(outside.notices[0] == "delay A2: hang@a.example");
  BOOST_TEST(qmgr->told.front().recipients.front().status.text.starts_with("as much mail of the same tenant"));
  for (int i = 0; i < 30; ++i) qmgr->advance(seconds(300));
  BOOST_TEST(outside.notices.size() == 1U);
  BOOST_TEST(qmgr->in_hand.size() == 1U);  // and it waits on
}

BOOST_FIXTURE_TEST_CASE(a_bounce_that_hangs_does_not_fill_the_active_set_with_mail_that_waits_for_a_share,
                        OnePlaceATenant) {
  options.delay_warning = seconds(3600);
  start(options);
  qmgr->bounce_waits = true;
  qmgr->tenant = "a";
  for (int i = 0; i < 150; ++i) qmgr->send("A" + std::to_string(i), "s@x.example", {"hang@a.example"});
  qmgr->run();
  for (int i = 0; i < 30; ++i) qmgr->advance(seconds(300));
  BOOST_TEST(qmgr->reports_held.size() == 100U);
  BOOST_TEST(qmgr->manager_->figures().active <= 101U);
}

BOOST_FIXTURE_TEST_CASE(mail_that_expires_untried_after_a_notice_of_the_delay_says_that_it_expired, OnePlaceATenant) {
  options.delay_warning = seconds(3600);
  options.lifetime = std::chrono::hours(24);
  send_two("hang@a.example");
  for (int i = 0; i < 30; ++i) qmgr->advance(seconds(3600));
  BOOST_TEST_REQUIRE(outside.notices.size() == 2U);
  BOOST_TEST(outside.notices[1] == "failure A2: hang@a.example");
  BOOST_TEST(qmgr->told.back().recipients.front().status.text == events::kExpiredReason);
  BOOST_TEST(qmgr->told.back().recipients.front().status.dsn == events::kExpiredCode);
}

BOOST_AUTO_TEST_CASE(another_message_of_an_id_that_was_taken_is_refused_and_not_taken_for_the_first) {
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  const auto outcome_now = [&] {
    qmgr->send("A1", "s@x.example", {"ok@b.example"});
    qmgr->run();
    return qmgr->last_;
  };
  BOOST_TEST((outcome_now() == ipc::enqueue::Outcome::ok));  // of the same arrival: the message itself
  outside.clock.advance(seconds(1));
  BOOST_TEST((outcome_now() == ipc::enqueue::Outcome::refused));
  BOOST_TEST(outside.delivered["A1 ok@a.example"] == 1);
  BOOST_TEST(outside.delivered["A1 ok@b.example"] == 0);
}

BOOST_AUTO_TEST_CASE(orders_remove_hold_release_and_requeue) {
  using ipc::queue::Outcome;
  using ipc::queue::Verb;
  qmgr->send("A1", "s@x.example", {"later@a.example"});
  qmgr->run();
  const auto order = [&](Verb verb) {
    std::optional<Outcome> outcome;
    qmgr->manager_->event()->orders.give(*qmgr->where("A1"), verb, [&](Outcome o) { outcome = o; });
    qmgr->run();
    BOOST_TEST_REQUIRE(outcome.has_value());
    BOOST_TEST((*outcome == Outcome::ok));
  };
  order(Verb::hold);
  BOOST_TEST(qmgr->where("A1")->place.log == queue_log::kHold);
  qmgr->advance(seconds(20000));
  BOOST_TEST(qmgr->where("A1")->place.log == queue_log::kHold);
  order(Verb::release);
  BOOST_TEST(qmgr->where("A1")->place.log != queue_log::kHold);
  order(Verb::flush);
  BOOST_TEST(qmgr->manager_->figures().deferred == 3U);
  order(Verb::remove);
  BOOST_TEST(!qmgr->where("A1").has_value());
  kill();
  start();
  BOOST_TEST(qmgr->listed() == 0U);
}

/// Gives an order and has it carried out as far as can be without time passing.
static void obeyed(Qmgr& qmgr, const std::string& id, ipc::queue::Verb verb) {
  std::optional<ipc::queue::Outcome> outcome;
  qmgr.manager_->event()->orders.give(*qmgr.where(id), verb, [&](ipc::queue::Outcome o) { outcome = o; });
  qmgr.run();
  BOOST_TEST_REQUIRE(outcome.has_value());
  BOOST_TEST((*outcome == ipc::queue::Outcome::ok));
}

BOOST_AUTO_TEST_CASE(an_expired_message_on_hold_stays_there_and_comes_back_when_it_is_released) {
  using ipc::queue::Verb;
  qmgr->send("A1", "s@x.example", {"later@a.example"});
  qmgr->run();
  obeyed(*qmgr, "A1", Verb::hold);
  for (int times = 1; times <= 2; ++times) obeyed(*qmgr, "A1", Verb::expire);
  BOOST_TEST(qmgr->where("A1")->place.log == queue_log::kHold);
  BOOST_TEST(outside.notices.empty());
  kill();
  start();
  const auto held = qmgr->where("A1");
  BOOST_TEST_REQUIRE(held.has_value());
  BOOST_TEST(held->place.log == queue_log::kHold);
  BOOST_TEST(from_log(*qmgr->log_->runners().read(held->place))->forced_expire);
  qmgr->advance(seconds(20000));
  BOOST_TEST(outside.notices.empty());
  obeyed(*qmgr, "A1", Verb::release);
  BOOST_TEST(outside.notices == std::vector<std::string>{"failure A1: later@a.example"},
             boost::test_tools::per_element());
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(an_order_to_expire_and_release_brings_back_what_is_on_hold) {
  using ipc::queue::Verb;
  for (const bool expired_before : {false, true}) {
    const std::string id = expired_before ? "A2" : "A1";
    outside.notices.clear();
    qmgr->send(id, "s@x.example", {"later@a.example"});
    qmgr->run();
    obeyed(*qmgr, id, Verb::hold);
    if (expired_before) obeyed(*qmgr, id, Verb::expire);
    obeyed(*qmgr, id, Verb::expire_release);
    BOOST_TEST(outside.notices == std::vector<std::string>{"failure " + id + ": later@a.example"},
               boost::test_tools::per_element());
    BOOST_TEST(qmgr->listed() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(an_order_to_expire_that_was_answered_outlives_a_crash) {
  for (const bool at_work : {false, true}) {
    BOOST_TEST_CONTEXT((at_work ? "it is on the wire" : "it waits for its retry")) {
      const std::string id = at_work ? "A2" : "A1";
      qmgr->send(id, "s@x.example", {"hang@a.example", "later@b.example"});
      qmgr->run();
      const auto end_delivery = [&] {
        for (auto& job : std::exchange(qmgr->in_hand, {})) qmgr->answer(job);
        qmgr->run();
      };
      if (!at_work) end_delivery();
      std::optional<FaultStorage> answered;
      qmgr->manager_->event()->orders.give(*qmgr->where(id), ipc::queue::Verb::expire, [&](ipc::queue::Outcome o) {
        BOOST_TEST((o == ipc::queue::Outcome::ok));
        Random random(3);
        answered = disk.cut(FaultStorage::Cut::kill, random);
      });
      qmgr->run();
      BOOST_TEST(answered.has_value() == !at_work);
      end_delivery();
      BOOST_TEST_REQUIRE(answered.has_value());
      qmgr.reset();
      disk = *std::move(answered);
      outside.notices.clear();  // of after the crash
      start();
      BOOST_TEST(outside.notices == std::vector<std::string>{"failure " + id + ": later@b.example"},
                 boost::test_tools::per_element());
      BOOST_TEST(qmgr->listed() == 0U);
    }
  }
}

BOOST_AUTO_TEST_CASE(of_two_orders_for_a_message_on_the_wire_the_later_stands) {
  using ipc::queue::Verb;
  const std::vector<std::vector<Verb>> held{
      {Verb::expire, Verb::hold}, {Verb::hold, Verb::expire}, {Verb::requeue, Verb::hold}};
  for (std::size_t i = 0; i < held.size(); ++i) {
    const auto& orders = held[i];
    const std::string id = "A" + std::to_string(i);
    qmgr->send(id, "s@x.example", {"hang@a.example", "later@b.example"});
    qmgr->run();
    BOOST_TEST_REQUIRE(qmgr->in_hand.size() == 1U);
    std::size_t answers = 0;
    for (const Verb verb : orders)
      qmgr->manager_->event()->orders.give(*qmgr->where(id), verb,
                                           [&](ipc::queue::Outcome o) { answers += o == ipc::queue::Outcome::ok; });
    qmgr->run();
    BOOST_TEST(answers == 0U, "not before the delivery has ended");
    for (auto& job : std::exchange(qmgr->in_hand, {})) qmgr->answer(job);
    qmgr->run();
    BOOST_TEST(answers == 2U);
    const auto where = qmgr->where(id);
    BOOST_TEST_REQUIRE(where.has_value());
    BOOST_TEST(where->place.log == queue_log::kHold);
    const bool expired = orders.front() != Verb::requeue;
    BOOST_TEST(from_log(*qmgr->log_->runners().read(where->place))->forced_expire == expired);
    obeyed(*qmgr, id, Verb::remove);
  }
}

BOOST_AUTO_TEST_CASE(a_message_can_come_in_for_the_hold_log_and_be_released) {
  qmgr->hold = true;
  qmgr->send("A1", "s@x.example", {"ok@a.example"});
  BOOST_TEST(qmgr->commit());
  kill();  // durable, and not yet put where it belongs
  start();
  BOOST_TEST(delivered("A1 ok@a.example") == 0);
  auto at = qmgr->where("A1");
  BOOST_TEST_REQUIRE(at.has_value());
  BOOST_TEST(at->place.log == queue_log::kHold);
  kill();
  start();
  at = qmgr->where("A1");
  BOOST_TEST_REQUIRE(at.has_value());
  BOOST_TEST(at->place.log == queue_log::kHold);
  bool released = false;
  qmgr->manager_->event()->orders.give(*at, ipc::queue::Verb::release,
                                       [&](ipc::queue::Outcome o) { released = o == ipc::queue::Outcome::ok; });
  qmgr->run();
  BOOST_TEST(released);
  BOOST_TEST(delivered("A1 ok@a.example") == 1);
  BOOST_TEST(qmgr->listed() == 0U);
}

BOOST_AUTO_TEST_CASE(a_filter_takes_the_place_of_every_recipients_route) {
  ManagerOptions options;
  options.default_filter_nexthop = "[127.0.0.1]:10025";
  start(options);
  qmgr->routes_for_domains = true;
  qmgr->send("A0", "s@x.example", {"ok@a.example"});
  qmgr->run();
  qmgr->filter = "scan:[127.0.0.9]:10025";
  qmgr->send("A1", "s@x.example", {"ok@a.example", "later@b.example"});
  qmgr->run();
  const std::vector<std::string> both{"", "scan:[127.0.0.9]:10025", "scan:[127.0.0.9]:10025"};
  BOOST_TEST(qmgr->ways_asked == both, boost::test_tools::per_element());
  kill();  // the one that is left keeps its filter
  start(options);
  BOOST_TEST(qmgr->ways_asked == std::vector<std::string>{"scan:[127.0.0.9]:10025"}, boost::test_tools::per_element());
  for (const char* way : {"scan", "scan:", "scan: "}) {
    qmgr->filter = way;
    qmgr->send(std::string("B") + std::to_string(qmgr->ways_asked.size()), "s@x.example", {"ok@a.example"});
    qmgr->run();
    BOOST_TEST(qmgr->ways_asked.back() == "scan:[127.0.0.1]:10025");
  }
  qmgr->transport = "error:5.7.1 refused";  // what is refused goes to no filter
  qmgr->send("C1", "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST(qmgr->ways_asked.back() == "error:5.7.1 refused");
}

BOOST_AUTO_TEST_CASE(a_removed_message_with_a_job_on_the_wire_ends_with_it) {
  using ipc::queue::Outcome;
  qmgr->send("A1", "s@x.example", {"hang@a.example", "hang2@b.example"});
  qmgr->run();
  BOOST_TEST_REQUIRE(qmgr->in_hand.size() >= 1U);
  std::optional<Outcome> outcome;
  qmgr->manager_->event()->orders.give(*qmgr->where("A1"), ipc::queue::Verb::remove, [&](Outcome o) { outcome = o; });
  qmgr->run();
  BOOST_TEST(!outcome.has_value());
  for (auto& job : std::exchange(qmgr->in_hand, {})) qmgr->answer(job);
  qmgr->run();
  BOOST_TEST_REQUIRE(outcome.has_value());
  BOOST_TEST(qmgr->listed() == 0U);
}

// As after a start with much in work: the reserve is for its replacements.
BOOST_AUTO_TEST_CASE(new_mail_waits_while_the_next_segment_is_being_made) {
  qmgr->padding = 3000;
  qmgr->last_ = ipc::enqueue::Outcome::ok;
  int sent = 0;
  for (; sent < 200 && qmgr->last_ == ipc::enqueue::Outcome::ok; ++sent)
    qmgr->send("A" + std::to_string(sent), "s@x.example", {"ok@a.example"});  // the writer does nothing meanwhile
  BOOST_TEST((qmgr->last_ == ipc::enqueue::Outcome::try_later));
  BOOST_TEST(qmgr->manager_->accepting());
  qmgr->run();
  BOOST_TEST(qmgr->states.empty());
  qmgr->send("A" + std::to_string(sent - 1), "s@x.example", {"ok@a.example"});
  qmgr->run();
  BOOST_TEST((qmgr->last_ == ipc::enqueue::Outcome::ok));
  BOOST_TEST(outside.delivered.size() == static_cast<std::size_t>(sent));
}

BOOST_AUTO_TEST_CASE(a_full_disk_refuses_new_mail_and_drains) {
  disk = FaultStorage();
  disk.capacity = 24;
  start();
  int accepted = 0;
  qmgr->hosts_answer = false;
  for (int i = 0; i < 20000; ++i) {
    qmgr->send("A" + std::to_string(i), "s@x.example", {"ok@a.example"});
    qmgr->run();
    if (qmgr->last_ == ipc::enqueue::Outcome::no_space) break;
    ++accepted;
  }
  BOOST_TEST((qmgr->last_ == ipc::enqueue::Outcome::no_space));
  BOOST_TEST(!qmgr->manager_->accepting());
  qmgr->hosts_answer = true;
  for (int i = 0; i < 20; ++i) qmgr->advance(seconds(4000));
  BOOST_TEST(qmgr->listed() == 0U);
  BOOST_TEST(qmgr->manager_->accepting());
  BOOST_TEST(outside.delivered.size() == static_cast<std::size_t>(accepted));
}

// More is active than the 64 KiB that the reserve is at least.
BOOST_AUTO_TEST_CASE(jobs_that_all_fail_at_once_on_a_full_disk_find_room) {
  for (const bool killed : {false, true}) {
    disk = FaultStorage();
    disk.capacity = 100;
    outside = Outside();
    start();
    qmgr->padding = 3000;
    qmgr->hosts_silent = true;
    int accepted = 0;
    for (; accepted < 5000; ++accepted) {
      qmgr->send("A" + std::to_string(accepted), "s@x.example", {"ok@a.example"});
      qmgr->run();
      if (qmgr->last_ == ipc::enqueue::Outcome::no_space) break;
    }
    BOOST_TEST((qmgr->last_ == ipc::enqueue::Outcome::no_space));
    BOOST_TEST(qmgr->log_->work().working_count() * 3000 > 10U * 65536);
    if (killed) {
      Random random(11);
      disk = disk.cut(FaultStorage::Cut::kill, random);
      start();
    } else {
      qmgr->hosts_silent = qmgr->hosts_answer = false;
      qmgr->advance(seconds(0));
      qmgr->hosts_answer = true;
    }
    for (int i = 0; i < 20; ++i) qmgr->advance(seconds(4000));
    BOOST_TEST(qmgr->listed() == 0U);
    BOOST_TEST(qmgr->manager_->accepting());
    BOOST_TEST(outside.delivered.size() == static_cast<std::size_t>(accepted));
  }
}

BOOST_AUTO_TEST_CASE(whatever_the_moment_of_the_crash_nothing_acknowledged_is_lost) {
  struct Cut {
    FaultStorage disk;
    Outside outside;
    std::string how;
  };
  std::vector<Cut> cuts;
  Random random(11);
  disk.before_operation = [&](const FaultStorage& now) {
    for (const auto how : FaultStorage::kCuts) {
      outside.notice_was_durable = outside.acknowledged.contains("N1A1");
      cuts.push_back(
          {now.cut(how, random), outside,
           "operation " + std::to_string(now.operations()) + " cut " + std::to_string(static_cast<int>(how))});
    }
  };
  qmgr->send("A1", "s@x.example", {"ok@a.example", "no@b.example", "later@c.example"});
  qmgr->run();
  qmgr->send("A2", "s@x.example", {"ok@a.example"});
  qmgr->run();
  qmgr->advance(seconds(301));
  qmgr->all_well = true;
  qmgr->advance(seconds(700));
  disk.before_operation = nullptr;
  BOOST_TEST(cuts.size() > 20U);
  for (auto& cut : cuts) {
    BOOST_TEST_CONTEXT(cut.how) {
      Outside& after = cut.outside;
      Qmgr again(after, cut.disk);
      again.all_well = true;
      again.recover();
      again.run();
      for (int i = 0; i < 6; ++i) again.advance(seconds(4000));
      for (const auto& id : after.acknowledged) {
        for (const auto& address : after.wanted[id]) {
          if (address.starts_with("no")) {
            if (id.starts_with("A")) BOOST_TEST(after.notices.size() >= 1U);
          } else {
            const int times = after.delivered[id + " " + address];
            BOOST_TEST(times >= 1, id << " " << address << " lost");
            BOOST_TEST(times <= 2, id << " " << address << " delivered " << times << " times");
          }
        }
      }
      // A notice is made again only when the first was not durable.
      if (cut.outside.notice_was_durable) BOOST_TEST(!after.acknowledged.contains("N2A1"));
      BOOST_TEST(after.notices.size() <= 2U);
      BOOST_TEST(again.listed() == 0U);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
