/// Urgent mail before other mail, and what the other mail has all the same.
#include "qmgr/scheduler/urgency_round.h"

#include <boost/test/unit_test.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "qmgr/scheduler/steady_hosts.h"

namespace pen::qmgr {
BOOST_AUTO_TEST_SUITE(scheduler_urgency)

namespace {

using steady_hosts::World;

#ifdef PEN_FEW
constexpr std::size_t kNewsletters = 20'000;
#else
constexpr std::size_t kNewsletters = 100'000;
#endif

std::function<std::string(std::size_t)> to(std::string host) {
  return [host = std::move(host)](std::size_t) { return host; };
}

struct Waiting {
  explicit Waiting(Urgency u) : of(qmgr::turn_of(u, 10)) {}
  UrgencyTurn of;
  UrgencyTurn turn() const { return of; }
  Node<Waiting> node{this};
  WorkerQueue<Waiting>::Entry entry{this};
};

}  // namespace

BOOST_AUTO_TEST_CASE(nineteen_priorities_are_three_classes) {
  for (int p = -9; p < 0; ++p) BOOST_TEST((urgency_of(p) == Urgency::bulk));
  BOOST_TEST((urgency_of(0) == Urgency::normal));
  for (int p = 1; p <= 9; ++p) BOOST_TEST((urgency_of(p) == Urgency::urgent));
}

BOOST_AUTO_TEST_CASE(in_a_round_each_class_has_its_share_and_the_most_urgent_comes_first) {
  UrgencyRound<Waiting> round;
  Waiting bulk(Urgency::bulk), normal(Urgency::normal), other(Urgency::normal);
  round.push_back(normal.node);
  round.push_back(other.node);
  BOOST_TEST(round.front() == &normal);
  round.rotate(1);
  BOOST_TEST(round.front() == &other);
  Waiting urgent(Urgency::urgent);
  round.push_back(bulk.node);
  round.push_back(urgent.node);
  BOOST_TEST(round.front() == &urgent);
  std::map<Waiting*, int> served;
  for (int i = 0; i < 1110; ++i) {
    ++served[round.front()];
    round.rotate(1);
  }
  BOOST_TEST(served[&bulk] == 10);
  BOOST_TEST(served[&normal] == 50);
  BOOST_TEST(served[&other] == 50);
  BOOST_TEST(served[&urgent] == 1000);
  // A class that leaves for a moment has not had less.
  while (round.front() != &normal && round.front() != &other) round.rotate(1);
  urgent.node.unlink();
  round.push_back(urgent.node);
  BOOST_TEST(round.front() != &urgent);
}

BOOST_AUTO_TEST_CASE(a_class_that_comes_back_saves_no_turns_up) {
  UrgencyRound<Waiting> round;
  Waiting bulk(Urgency::bulk), normal(Urgency::normal);
  round.push_back(bulk.node);
  round.push_back(normal.node);
  for (int i = 0; i < 11; ++i) round.rotate(1);
  bulk.node.unlink();
  for (int i = 0; i < 1000; ++i) round.rotate(1);
  round.push_back(bulk.node);
  int of_bulk = 0;
  for (int i = 0; i < 110; ++i) {
    if (round.front() == &bulk) ++of_bulk;
    round.rotate(1);
  }
  BOOST_TEST(of_bulk <= 11);
  BOOST_TEST(of_bulk >= 9);
}

BOOST_AUTO_TEST_CASE(in_a_queue_for_workers_too) {
  UrgencyQueue<Waiting> queue;
  Waiting bulk(Urgency::bulk), normal(Urgency::normal), urgent(Urgency::urgent);
  std::uint64_t seq = 1;
  for (Waiting* w : {&bulk, &normal, &urgent}) {
    w->entry.seq = seq++;
    queue.add(w->entry);
  }
  BOOST_TEST(queue.size() == 3U);
  BOOST_TEST(queue.urgent() == &urgent);
  std::map<Waiting*, int> served;
  for (int i = 0; i < 1110; ++i) {
    Waiting* const next = queue.next({}, 5);
    BOOST_REQUIRE(next != nullptr);
    ++served[next];
    queue.served(next->turn(), 1);
  }
  BOOST_TEST(served[&bulk] == 10);
  BOOST_TEST(served[&normal] == 100);
  BOOST_TEST(served[&urgent] == 1000);
  for (Waiting* w : {&bulk, &normal, &urgent}) queue.remove(w->entry);
  BOOST_TEST(queue.size() == 0U);
  BOOST_TEST(queue.next({}, 5) == nullptr);
}

/// A provider with 20 connections takes a second for each message: the newsletter takes 83 minutes. The same sender's
/// password resets leave within what the messages in hand take, and the newsletter loses their number and no more.
BOOST_AUTO_TEST_CASE(a_password_reset_does_not_wait_behind_a_newsletter) {
  for (const Urgency newsletter : {Urgency::normal, Urgency::bulk}) {
    World w;
    w.options.tenants = false;  // names are only for what is counted
    w.hosts["provider.example"] = milliseconds(1000);
    w.flood("news", kNewsletters, to("provider.example"), 1, newsletter);
    w.run_for(seconds(60));
    const auto before = w.finished["news"];
    w.trickle("reset", "provider.example", milliseconds(5000), 60, Urgency::urgent);
    w.run_for(seconds(300));
    BOOST_TEST(w.finished["reset"] == 60U);
    BOOST_TEST(w.slowest["reset"].count() <= 3000);
    BOOST_TEST(w.finished["news"] - before >= 300 * 20 - 60 - 40U);
  }
}

/// As it was before, and still is for mail without a priority.
BOOST_AUTO_TEST_CASE(mail_of_one_class_takes_turns_as_ever) {
  World w;
  w.options.tenants = false;  // names are only for what is counted
  w.hosts["provider.example"] = milliseconds(1000);
  w.flood("news", 5'000, to("provider.example"));
  w.run_for(seconds(60));
  w.arrive("reset", "provider.example", 3);
  w.run_for(seconds(20));
  BOOST_TEST(w.finished["reset"] == 0U);
}

/// With more of each class than the host takes, the lower ones have their part of it.
BOOST_AUTO_TEST_CASE(urgent_mail_starves_nobody) {
  World w;
  w.options.tenants = false;  // names are only for what is counted
  w.flood("bulk", 20'000, to("provider.example"), 1, Urgency::bulk);
  w.flood("normal", 100'000, to("provider.example"), 1, Urgency::normal);
  w.flood("urgent", 1'000'000, to("provider.example"), 1, Urgency::urgent);
  w.run_for(seconds(100));
  w.delivered.clear();
  w.run_for(seconds(1110));
  const double all = 1110.0 * 200;
  BOOST_TEST(static_cast<double>(w.delivered["bulk"]) > all / 111 * 0.8);
  BOOST_TEST(static_cast<double>(w.delivered["bulk"]) < all / 111 * 1.3);
  BOOST_TEST(static_cast<double>(w.delivered["normal"]) > all / 11.1 * 0.8);
  BOOST_TEST(static_cast<double>(w.delivered["normal"]) < all / 11.1 * 1.3);
}

/// All workers are busy with a newsletter to many hosts. Urgent mail for another host gets one when a message is done.
BOOST_AUTO_TEST_CASE(urgent_mail_gets_a_worker_that_others_have) {
  World w;
  w.options.tenants = false;  // names are only for what is counted
  w.limits.workers = 10;
  for (int i = 0; i < 10; ++i) w.hosts["d" + std::to_string(i) + ".example"] = milliseconds(2000);
  w.flood("news", 50'000, [](std::size_t n) { return "d" + std::to_string(n % 10) + ".example"; });
  w.run_for(seconds(60));
  BOOST_TEST(w.core->figures().connections == 10U);
  w.trickle("reset", "other.example", milliseconds(30'000), 10, Urgency::urgent);
  w.run_for(seconds(310));
  BOOST_TEST(w.finished["reset"] == 10U);
  BOOST_TEST(w.slowest["reset"].count() <= 3000);
  const auto before = w.finished["news"];
  w.run_for(seconds(100));
  BOOST_TEST(w.finished["news"] - before >= 450U);  // it has its workers back
}

/// Tenants have their shares whatever their mail says of itself; within one what is urgent comes first.
BOOST_AUTO_TEST_CASE(who_says_urgent_takes_nothing_from_other_tenants) {
  World w;
  w.flood("loud", 100'000, to("provider.example"), 1, Urgency::urgent);
  w.flood("calm", 100'000, to("provider.example"), 1, Urgency::normal);
  w.run_for(seconds(100));
  const double ratio = static_cast<double>(w.delivered["loud"]) / static_cast<double>(w.delivered["calm"]);
  BOOST_TEST(ratio > 0.85);
  BOOST_TEST(ratio < 1.15);
}

/// Messages of all classes come, are taken back and go: each is served in the end.
BOOST_AUTO_TEST_CASE(nothing_waits_for_ever) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World w;
    w.options.tenants = seed % 2 == 0;
    w.random = Random(seed);
    Random draw(seed * 7);
    w.limits.workers = static_cast<std::uint32_t>(1 + draw.below(12));
    w.limits.destination_concurrency = static_cast<std::uint32_t>(1 + draw.below(4));
    w.options.urgency_ratio = static_cast<std::uint32_t>(2 + draw.below(20));
    w.options.fairness = {.max_message_concurrency = static_cast<std::uint32_t>(1 + draw.below(4)),
                          .scale_max_concurrency = static_cast<std::uint32_t>(draw.below(11))};
    for (int i = 0; i < 2000; ++i) {
      const MessageNumber m =
          w.arrive("t" + std::to_string(draw.below(3)), "h" + std::to_string(draw.below(30)) + ".example",
                   draw.below(3) == 0 ? 0 : (draw.below(5) << 1U) | 1U, static_cast<std::uint32_t>(1 + draw.below(4)),
                   static_cast<Urgency>(draw.below(kUrgencies)));
      if (draw.below(10) == 0) w.take_away(m, w.core->withdraw(m).size());
      if (draw.below(4) == 0) w.run_for(milliseconds(static_cast<std::int64_t>(draw.below(400))));
    }
    w.finish();
    BOOST_TEST(w.core->figures().messages == 0U);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
