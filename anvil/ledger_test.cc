#include "anvil/ledger.h"

#include <boost/test/unit_test.hpp>

#include <string>

#include "lib/base/random.h"

namespace pen::anvil {
namespace {

using namespace ipc::sessions;

struct Fixture {
  explicit Fixture(std::string_view text = "*.customer.fr 8 8, * 3 3") : ledger(*sessions::Classes::parse(text)) {}

  Ledger::Holder begin(bool listens, bool again = false) {
    ledger.set_time(now);
    return ledger.begin({listens, again});
  }
  bool ask(Ledger::Holder holder, std::uint64_t lease, Direction direction, const char* name, const char* address,
           bool held = false) {
    ledger.set_time(now);
    BOOST_REQUIRE(ledger.take(holder, {lease, direction, name, address, held}));
    collect();
    return granted == lease;
  }
  bool in(Ledger::Holder holder, std::uint64_t lease, const char* name = "a.customer.fr") {
    return ask(holder, lease, Direction::incoming, name, "192.0.2.1");
  }
  bool out(Ledger::Holder holder, std::uint64_t lease, const char* name = "a.customer.fr") {
    return ask(holder, lease, Direction::outgoing, name, "192.0.2.1");
  }
  /// Copies the ledger's actions into the members.
  void collect() {
    granted = refused = 0;
    rooms.clear();
    wanted.clear();
    fulls.clear();
    for (const auto& send : ledger.take_actions()) {
      to = send.to;
      if (const auto* t = std::get_if<Taken>(&send.message)) (t->granted ? granted : refused) = t->lease;
      if (const auto* r = std::get_if<Room>(&send.message)) rooms.push_back(r->mask + " to " + std::to_string(send.to));
      if (const auto* w = std::get_if<Wanted>(&send.message)) wanted.push_back(*w);
      if (const auto* f = std::get_if<AllFull>(&send.message)) fulls.push_back(f->full);
    }
  }
  void release(Ledger::Holder holder, std::uint64_t lease) {
    ledger.release(holder, lease);
    collect();
  }
  void yield(Ledger::Holder holder, std::uint64_t ask_number, bool closing) {
    ledger.yielded(holder, {ask_number, closing});
    collect();
  }
  std::string counts() {
    std::string text;
    for (const auto& c : ledger.status().classes)
      text += c.mask + " " + std::to_string(c.incoming) + "+" + std::to_string(c.outgoing) + " ";
    return text;
  }

  Ledger ledger;
  SteadyTime now{};
  Ledger::Holder to = 0;
  std::uint64_t granted = 0, refused = 0;  // the last ones; 0: none
  std::vector<std::string> rooms;
  std::vector<Wanted> wanted;
  std::vector<bool> fulls;
};

BOOST_FIXTURE_TEST_SUITE(ledger_of_sessions, Fixture)

BOOST_AUTO_TEST_CASE(incoming_and_outgoing_sessions_of_a_class_are_one_count) {
  const auto smtpd = begin(false), qmgr = begin(false);
  BOOST_TEST(out(qmgr, 1, "mx.net"));
  BOOST_TEST(out(qmgr, 2, "mx.net"));
  BOOST_TEST(in(smtpd, 1, "b.net"));
  BOOST_TEST(!out(qmgr, 3, "mx.org"));
  BOOST_TEST(refused == 3U);
  BOOST_TEST(counts() == "*.customer.fr 0+0 * 1+2 ");
  for (std::uint64_t i = 10; i < 18; ++i) BOOST_TEST(in(smtpd, i));  // the other class has counts of its own
  BOOST_TEST(!in(smtpd, 18));
  BOOST_TEST(counts() == "*.customer.fr 8+0 * 1+2 ");
  BOOST_TEST(ledger.status().classes[0].refused == 1U);
}

BOOST_AUTO_TEST_CASE(a_refuse_limit_below_the_total_keeps_places_for_outgoing_mail) {
  ledger = Ledger(*sessions::Classes::parse("* 4 2"));
  const auto h = begin(false);
  BOOST_TEST(in(h, 1));
  BOOST_TEST(in(h, 2));
  BOOST_TEST(!in(h, 3));
  BOOST_TEST(out(h, 4));
  BOOST_TEST(out(h, 5));
  BOOST_TEST(!out(h, 6));
  BOOST_TEST(counts() == "* 2+2 ");
}

BOOST_AUTO_TEST_CASE(a_refuse_limit_above_the_total_blocks_outgoing_mail_first) {
  ledger = Ledger(*sessions::Classes::parse("* 2 4"));
  const auto h = begin(false);
  BOOST_TEST(in(h, 1));
  BOOST_TEST(in(h, 2));
  BOOST_TEST(!out(h, 3));
  BOOST_TEST(in(h, 4));
  BOOST_TEST(in(h, 5));
  BOOST_TEST(!in(h, 6));
  release(h, 1);
  release(h, 2);
  BOOST_TEST(rooms.empty());  // two sessions remain, which is the total limit
  release(h, 4);
  BOOST_TEST(rooms == std::vector<std::string>{"* to 1"});
  BOOST_TEST(out(h, 7));
}

BOOST_AUTO_TEST_CASE(who_belongs_to_no_class_is_granted_and_not_counted) {
  ledger = Ledger(*sessions::Classes::parse("*.customer.fr 1 1"));
  const auto h = begin(false);
  for (std::uint64_t i = 1; i < 20; ++i) BOOST_TEST(in(h, i, "other.fr"));
  BOOST_TEST(counts() == "*.customer.fr 0+0 ");
  release(h, 1);
  BOOST_TEST(counts() == "*.customer.fr 0+0 ");
}

BOOST_AUTO_TEST_CASE(a_holder_that_dies_frees_all_that_it_held_and_nothing_else) {
  const auto smtpd = begin(false), qmgr = begin(false);
  for (std::uint64_t i = 1; i <= 5; ++i) BOOST_TEST(in(smtpd, i));
  for (std::uint64_t i = 1; i <= 3; ++i) BOOST_TEST(out(qmgr, i));
  BOOST_TEST(!out(qmgr, 4));
  ledger.end(smtpd);
  collect();
  BOOST_TEST(counts() == "*.customer.fr 0+3 * 0+0 ");
  BOOST_TEST(rooms == std::vector<std::string>{"*.customer.fr to 2"});
  ledger.end(qmgr);
  BOOST_TEST(counts() == "*.customer.fr 0+0 * 0+0 ");
  ledger.end(qmgr);  // an unknown holder: nothing happens
}

BOOST_AUTO_TEST_CASE(what_a_holder_says_it_holds_counts_beyond_every_limit) {
  const auto h = begin(false);
  for (std::uint64_t i = 1; i <= 5; ++i) ask(h, i, Direction::incoming, "x.net", "192.0.2.1", true);
  BOOST_TEST(counts() == "*.customer.fr 0+0 * 5+0 ");
  BOOST_TEST(!in(h, 6, "x.net"));
  release(h, 1);
  release(h, 2);
  BOOST_TEST(!in(h, 7, "x.net"));
  release(h, 3);
  BOOST_TEST(in(h, 8, "x.net"));
}

BOOST_AUTO_TEST_CASE(room_is_told_once_to_each_holder_that_was_refused) {
  ledger = Ledger(*sessions::Classes::parse("* 1 9"));
  const auto a = begin(false), b = begin(false);
  BOOST_TEST(out(a, 1));
  BOOST_TEST(!out(a, 2));
  BOOST_TEST(!out(a, 3));
  BOOST_TEST(!out(b, 1));
  release(a, 1);
  BOOST_TEST(rooms == (std::vector<std::string>{"* to 1", "* to 2"}));
  BOOST_TEST(!out(b, 2));  // the place is kept for the other holder
  BOOST_TEST(out(a, 4));
  release(a, 4);
  BOOST_TEST(rooms == std::vector<std::string>{"* to 2"});
  BOOST_TEST(out(b, 3));
  release(b, 3);
  BOOST_TEST(rooms.empty());
}

BOOST_AUTO_TEST_CASE(at_the_refuse_limit_an_idle_outgoing_connection_makes_place) {
  const auto smtpd = begin(false), qmgr = begin(false);
  BOOST_TEST(out(qmgr, 1, "mx.net"));
  BOOST_TEST(out(qmgr, 2, "mx.net"));
  BOOST_TEST(in(smtpd, 1, "a.net"));
  BOOST_TEST(!in(smtpd, 2, "a.net"));
  BOOST_REQUIRE_EQUAL(wanted.size(), 1U);
  BOOST_TEST(!refused);  // it waits for the answer
  BOOST_TEST(to == qmgr);
  yield(qmgr, wanted[0].ask, true);
  BOOST_TEST(!granted);
  release(qmgr, 1);
  BOOST_TEST(granted == 2U);
  BOOST_TEST(counts() == "*.customer.fr 0+0 * 2+1 ");
  BOOST_TEST(!in(smtpd, 3, "a.net"));
  yield(qmgr, wanted.at(0).ask, false);
  BOOST_TEST(refused == 3U);
  BOOST_TEST(!in(smtpd, 4, "a.net"));
  const auto asked = wanted.at(0).ask;
  release(qmgr, 2);  // the session ended while the question was on its way
  BOOST_TEST(granted == 4U);
  yield(qmgr, asked, false);
  BOOST_TEST(!refused);
  BOOST_TEST(!in(smtpd, 5, "a.net"));
  BOOST_TEST(wanted.empty());  // only incoming sessions fill the class, so nobody is asked
  BOOST_TEST(refused == 5U);
}

BOOST_AUTO_TEST_CASE(several_that_wait_for_idle_connections_each_get_one) {
  const auto smtpd = begin(false), qmgr = begin(false);
  for (std::uint64_t i = 1; i <= 3; ++i) BOOST_TEST(out(qmgr, i, "mx.net"));
  std::vector<std::uint64_t> asks;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    BOOST_TEST(!in(smtpd, i, "a.net"));
    asks.push_back(wanted.at(0).ask);
  }
  for (const auto number : asks) yield(qmgr, number, true);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    release(qmgr, i);
    BOOST_TEST(granted == i);
    BOOST_TEST(wanted.empty());
  }
  BOOST_TEST(counts() == "*.customer.fr 0+0 * 3+0 ");
}

BOOST_AUTO_TEST_CASE(one_that_waits_is_refused_in_time_and_when_it_leaves_forgotten) {
  const auto smtpd = begin(false), qmgr = begin(false);
  for (std::uint64_t i = 1; i <= 3; ++i) BOOST_TEST(out(qmgr, i, "mx.net"));
  BOOST_TEST(!in(smtpd, 1, "a.net"));
  BOOST_TEST(!in(smtpd, 2, "a.net"));
  release(smtpd, 2);
  BOOST_TEST((ledger.next_wake() == now + kYieldTime));
  now += kYieldTime;
  ledger.set_time(now);
  ledger.tick();
  collect();
  BOOST_TEST(refused == 1U);
  BOOST_TEST((ledger.next_wake() == kNever));
  release(qmgr, 1);
  BOOST_TEST(!granted);
  BOOST_TEST(counts() == "*.customer.fr 0+0 * 0+2 ");
}

BOOST_AUTO_TEST_CASE(when_the_holder_that_was_asked_dies_its_places_are_given_to_who_waits) {
  const auto smtpd = begin(false), qmgr = begin(false);
  for (std::uint64_t i = 1; i <= 3; ++i) BOOST_TEST(out(qmgr, i, "mx.net"));
  BOOST_TEST(!in(smtpd, 1, "a.net"));
  ledger.end(qmgr);
  collect();
  BOOST_TEST(granted == 1U);
  BOOST_TEST(counts() == "*.customer.fr 0+0 * 1+0 ");
}

BOOST_AUTO_TEST_CASE(listeners_hear_when_every_class_is_full_and_when_one_is_not) {
  ledger = Ledger(*sessions::Classes::parse("a.fr 1 1, * 2 2"));
  const auto smtpd = begin(true), other = begin(false);
  BOOST_TEST(in(smtpd, 1, "b.fr"));
  BOOST_TEST(in(smtpd, 2, "b.fr"));
  BOOST_TEST(fulls.empty());
  BOOST_TEST(in(other, 1, "a.fr"));
  BOOST_TEST(fulls == std::vector<bool>{true});
  BOOST_TEST(to == smtpd);
  const auto late = begin(true);
  collect();
  BOOST_TEST(fulls == std::vector<bool>{true});
  BOOST_TEST(to == late);
  release(smtpd, 1);
  BOOST_TEST(fulls == (std::vector<bool>{false, false}));
  ledger.end(other);
  collect();
  BOOST_TEST(fulls.empty());
}

BOOST_AUTO_TEST_CASE(without_a_last_class_for_all_nothing_is_ever_full) {
  ledger = Ledger(*sessions::Classes::parse("a.fr 1 1"));
  const auto smtpd = begin(true);
  BOOST_TEST(in(smtpd, 1, "a.fr"));
  BOOST_TEST(fulls.empty());
}

BOOST_AUTO_TEST_CASE(with_every_class_full_an_idle_connection_is_asked_for_at_once) {
  ledger = Ledger(*sessions::Classes::parse("* 1 1"));
  const auto qmgr = begin(false);
  BOOST_TEST(out(qmgr, 1));
  BOOST_REQUIRE_EQUAL(wanted.size(), 1U);
  yield(qmgr, wanted[0].ask, true);
  release(qmgr, 1);
  BOOST_TEST(!ledger.all_full());
}

BOOST_AUTO_TEST_CASE(after_a_restart_nobody_is_granted_more_before_all_have_told_what_they_hold) {
  const auto qmgr = begin(false, true);
  BOOST_TEST(!out(qmgr, 1, "mx.net"));
  BOOST_TEST(refused == 0U);
  BOOST_TEST(!out(qmgr, 2, "mx.net"));
  BOOST_TEST(!out(qmgr, 3, "mx.net"));
  ledger.release(qmgr, 2);
  const auto smtpd = begin(true, true);
  for (std::uint64_t i = 1; i <= 2; ++i) ask(smtpd, i, Direction::incoming, "a.net", "192.0.2.1", true);
  const auto gone = begin(false, true);
  BOOST_TEST(!in(gone, 1, "a.net"));
  ledger.end(gone);
  BOOST_TEST((ledger.next_wake() == now + kSettleTime));
  now += kSettleTime;
  ledger.set_time(now);
  ledger.tick();
  collect();
  BOOST_TEST(granted == 1U);
  BOOST_TEST(refused == 3U);
  BOOST_TEST(counts() == "*.customer.fr 0+0 * 2+1 ");
  BOOST_TEST((ledger.next_wake() == kNever));
  BOOST_TEST(in(smtpd, 9));
}

BOOST_AUTO_TEST_CASE(clients_that_come_all_the_time_do_not_take_every_place_from_waiting_mail) {
  ledger = Ledger(*sessions::Classes::parse("* 2 2"));
  const auto smtpd = begin(false), qmgr = begin(false);
  BOOST_TEST(in(smtpd, 1));
  BOOST_TEST(in(smtpd, 2));
  BOOST_TEST(!out(qmgr, 1));
  release(smtpd, 1);
  BOOST_TEST(rooms == std::vector<std::string>{"* to 2"});
  BOOST_TEST(!in(smtpd, 3));  // the place is kept for the waiting holder
  BOOST_TEST(out(qmgr, 2));
  BOOST_TEST(!out(qmgr, 3));
  release(smtpd, 2);
  BOOST_TEST(rooms == std::vector<std::string>{"* to 2"});
  BOOST_TEST(in(smtpd, 4));  // every other place is free for all
  BOOST_TEST(!out(qmgr, 4));
  release(smtpd, 4);
  BOOST_TEST(!in(smtpd, 5));
  BOOST_TEST((ledger.next_wake() == now + kReserved));
  now += kReserved;  // the holder did not ask for it
  ledger.set_time(now);
  ledger.tick();
  collect();
  BOOST_TEST((ledger.next_wake() == kNever));
  BOOST_TEST(granted == 5U);
}

BOOST_AUTO_TEST_CASE(a_number_in_use_is_nonsense) {
  const auto h = begin(false);
  BOOST_TEST(in(h, 1));
  BOOST_TEST(!ledger.take(h, {1, Direction::incoming, "a.customer.fr", "192.0.2.1", false}));
  release(h, 77);  // releasing an unknown lease changes nothing
  BOOST_TEST(counts() == "*.customer.fr 1+0 * 0+0 ");
}

/// After any events in any order the counts match the live leases, and no request waits beside a free place.
BOOST_AUTO_TEST_CASE(the_counts_are_right_after_any_order_of_events) {
  Random random(20241121);
  for (int round = 0; round < 200; ++round) {
    ledger = Ledger(*sessions::Classes::parse("a.fr 3 2, b.fr 2 4, * 3 3"));
    struct Model {
      std::map<std::uint64_t, std::pair<int, Direction>> held, asked;
    };
    std::map<Ledger::Holder, Model> model;
    std::vector<Wanted> questions;
    std::vector<Ledger::Holder> asked_of;
    std::uint64_t next = 1;
    const char* names[] = {"a.fr", "b.fr", "c.fr"};
    const auto read = [&] {
      for (const auto& send : ledger.take_actions()) {
        if (const auto* t = std::get_if<Taken>(&send.message)) {
          auto& m = model.at(send.to);
          if (t->granted) m.held[t->lease] = m.asked.at(t->lease);
          m.asked.erase(t->lease);
        } else if (const auto* w = std::get_if<Wanted>(&send.message)) {
          questions.push_back(*w);
          asked_of.push_back(send.to);
        }
      }
    };
    for (int step = 0; step < 300; ++step) {
      now += milliseconds(random.below(200));
      ledger.set_time(now);
      const auto what = random.below(12);
      if (what == 0 && model.size() < 4) model[ledger.begin({random.below(2) == 0, false})];
      if (model.empty()) continue;
      auto at = std::next(model.begin(), static_cast<long>(random.below(model.size())));
      if (what == 1) {
        ledger.end(at->first);
        model.erase(at);
      } else if (what < 7) {
        const auto c = static_cast<int>(random.below(3));
        const auto direction = random.below(2) == 0 ? Direction::incoming : Direction::outgoing;
        const bool held = random.below(20) == 0;
        auto& list = held ? at->second.held : at->second.asked;
        list[next] = {c, direction};
        BOOST_REQUIRE(ledger.take(at->first, {next, direction, names[c], "192.0.2.1", held}));
        ++next;
      } else if (what < 10 && !at->second.held.empty()) {
        auto lease = std::next(at->second.held.begin(), static_cast<long>(random.below(at->second.held.size())));
        const auto number = lease->first;
        at->second.held.erase(lease);
        ledger.release(at->first, number);
      } else if (what == 10 && !questions.empty()) {
        ledger.yielded(asked_of.back(), {questions.back().ask, random.below(2) == 0});
        questions.pop_back();
        asked_of.pop_back();
      } else {
        ledger.set_time(now);
        ledger.tick();
      }
      read();
      std::uint64_t in_model[3][2] = {}, waiting[3] = {};
      for (const auto& [holder, m] : model) {
        for (const auto& [number, lease] : m.held) ++in_model[lease.first][static_cast<int>(lease.second)];
        for (const auto& [number, lease] : m.asked) ++waiting[lease.first];
      }
      const auto status = ledger.status();
      for (int c = 0; c < 3; ++c) {
        const auto& s = status.classes[static_cast<std::size_t>(c)];
        BOOST_REQUIRE_EQUAL(s.incoming, in_model[c][0]);
        BOOST_REQUIRE_EQUAL(s.outgoing, in_model[c][1]);
        // a place may be kept for outgoing mail
        BOOST_REQUIRE(waiting[c] == 0 || s.incoming + s.outgoing + 1 >= s.refuse);
      }
    }
    now += kYieldTime;
    ledger.set_time(now);
    ledger.tick();
    read();
    for (const auto& [holder, m] : model) BOOST_REQUIRE(m.asked.empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::anvil
