// Connections to databases: the order of hosts, failures, back-off, bounds, the end of idle connections. The driver is
// a fake one in this process, and time comes from the test.
#include "lib/map/database_pool.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <set>
#include <thread>

#include "lib/testing/manual_clock.h"

using namespace pen;
using namespace pen::map;
using namespace pen::map::database;

namespace {

std::string shown(const Value& v) {
  if (!v) return "error: " + v.error().message();
  return v->value_or("(none)");
}

/// Servers by name. What is done to each is written down.
struct Servers final : Driver {
  enum class State { up, refuses_connections, hangs, refuses_questions, hangs_at_questions };
  explicit Servers(testing::ManualClock& c) : clock(c) {}

  struct Session final : Connection {
    Session(Servers& s, std::string h) : servers(s), host(std::move(h)), restarts(s.restarts) { ++servers.open; }
    ~Session() override { --servers.open; }
    Report ask(const Lookup& lookup) override {
      const auto text = lookup.expand(lookup.settings.contains("query") ? "query" : "key_format",
                                      [](std::string_view part, std::string& out) {
                                        out += part;
                                        return true;
                                      });
      const State state = servers.note("ask " + host);
      if (restarts != servers.restarts) return {Outcome::lost, "gone away"};
      if (state == State::refuses_questions) return {Outcome::refused, "no such column"};
      if (state == State::hangs_at_questions) return servers.waste(lookup.deadline);
      if (servers.inside) servers.inside();
      if (*text != "none") lookup.add(host + ":" + *text);
      return {};
    }
    Servers& servers;
    std::string host;
    int restarts;
  };
  std::unique_ptr<Connection> connect(const Settings&, const std::string& host, SteadyTime deadline,
                                      Report& report) override {
    const State state = note("connect " + host);
    if (state == State::refuses_connections) report = {Outcome::lost, "connection refused"};
    if (state == State::hangs) report = waste(deadline);
    if (state == State::refuses_connections || state == State::hangs) return nullptr;
    return std::make_unique<Session>(*this, host);
  }
  Report waste(SteadyTime deadline) {
    if (during) during();
    clock.advance(deadline - clock.now());
    return {Outcome::timed_out, ""};
  }
  State note(const std::string& event) {
    const std::lock_guard lock(mutex);
    events.push_back(event);
    return states[event.substr(event.find(' ') + 1)];
  }
  std::vector<std::string> take_events() {
    const std::lock_guard lock(mutex);
    return std::exchange(events, {});
  }

  testing::ManualClock& clock;
  std::mutex mutex;
  std::map<std::string, State> states;
  std::vector<std::string> events;
  std::function<void()> during, inside;
  std::atomic<int> open = 0;
  int restarts = 0;
};
using State = Servers::State;
using Events = std::vector<std::string>;

struct Fixture {
  Pools& pools() {
    if (!made) made.emplace(clock, [this](const std::string&) -> Result<Driver*> { return &servers; }, limits, 7);
    return *made;
  }
  std::shared_ptr<Table> table(const std::string& hosts, const std::string& more = "",
                               const std::string& type = "mysql") {
    return *read_table(type, "query = %s\nhosts = " + hosts + "\n" + more, "/t.cf", {});
  }
  std::string ask(const std::string& hosts, const std::string& key = "k") {
    clock.advance(microseconds(1));
    return shown(pools().look_up(*table(hosts), key, clock.now()));
  }
  Events events(const std::string& hosts) {
    servers.take_events();
    (void)ask(hosts);
    return servers.take_events();
  }

  testing::ManualClock clock;
  Servers servers{clock};
  Pools::Limits limits;
  std::optional<Pools> made;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(database_pools, Fixture)

BOOST_AUTO_TEST_CASE(one_connection_serves_one_question_after_the_other) {
  BOOST_TEST(ask("a") == "a:k");
  BOOST_TEST(ask("a", "l") == "a:l");
  BOOST_TEST(ask("a", "none") == "(none)");
  BOOST_TEST(servers.take_events() == (Events{"connect a", "ask a", "ask a", "ask a"}),
             boost::test_tools::per_element());
  BOOST_TEST(pools().counts().open == 1U);
  BOOST_TEST(pools().counts().pools == 1U);
}

BOOST_AUTO_TEST_CASE(sockets_come_first_and_tcp_hosts_in_any_order) {
  std::set<std::string> first;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Pools fresh(clock, [this](const std::string&) -> Result<Driver*> { return &servers; }, {}, seed);
    servers.states["unix:/s"] = State::refuses_connections;
    servers.take_events();
    (void)fresh.look_up(*table("a b unix:/s c"), "k", clock.now());
    const auto seen = servers.take_events();
    BOOST_REQUIRE(seen.size() == 3U);
    BOOST_TEST(seen[0] == "connect unix:/s");
    first.insert(seen[1]);
  }
  BOOST_TEST(first.size() == 3U);
}

BOOST_AUTO_TEST_CASE(a_host_that_is_connected_is_asked_before_others) {
  const std::string host = ask("a b c d").substr(0, 1);
  for (int i = 0; i < 10; ++i) BOOST_TEST(ask("a b c d") == host + ":k");
}

BOOST_AUTO_TEST_CASE(the_next_host_is_asked_at_once_and_the_dead_one_left_out_for_a_doubling_time) {
  servers.states["unix:/a"] = State::refuses_connections;
  const auto both = table("unix:/a c", "idle_interval = 0\n");
  std::vector<long> tried;
  for (long second = 0; second < 300; ++second) {
    BOOST_TEST(shown(pools().look_up(*both, "k", clock.now())) == "c:k");
    if (servers.take_events().front() == "connect unix:/a") tried.push_back(second);
    pools().close_idle();
    clock.advance(seconds(1));
  }
  BOOST_TEST(tried == (std::vector<long>{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}), boost::test_tools::per_element());
  servers.states["unix:/a"] = State::up;
  clock.advance(seconds(60));
  BOOST_TEST(shown(pools().look_up(*both, "k", clock.now())) == "unix:/a:k");
}

BOOST_AUTO_TEST_CASE(when_every_host_is_left_out_the_error_comes_without_a_trial) {
  servers.states["a"] = servers.states["b"] = State::refuses_connections;
  BOOST_TEST(ask("a b").starts_with("error: "));
  BOOST_TEST(servers.take_events().size() == 2U);
  BOOST_TEST(ask("a b").contains("connection refused"));
  BOOST_TEST(servers.take_events().empty());
  clock.advance(seconds(2));
  servers.states["a"] = servers.states["b"] = State::up;
  BOOST_TEST(!ask("a b").starts_with("error"));
}

BOOST_AUTO_TEST_CASE(an_only_host_is_tried_for_each_question) {
  servers.states["a"] = State::refuses_connections;
  for (int i = 0; i < 3; ++i) BOOST_TEST(ask("a").contains("a: connection refused"));
  BOOST_TEST(servers.take_events().size() == 3U);
  servers.states["a"] = State::up;
  BOOST_TEST(ask("a") == "a:k");
}

BOOST_AUTO_TEST_CASE(a_refused_question_goes_to_the_next_host) {
  servers.states["unix:/a"] = State::refuses_questions;
  BOOST_TEST(ask("unix:/a b") == "b:k");
  BOOST_TEST(events("unix:/a b") == Events{"ask b"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_question_that_all_hosts_refuse_takes_no_host_from_other_tables) {
  servers.states["a"] = servers.states["b"] = State::refuses_questions;
  BOOST_TEST(ask("a b").contains("no such column"));
  servers.states["a"] = servers.states["b"] = State::up;
  const SteadyTime before = clock.now();
  BOOST_TEST(!shown(pools().look_up(*table("a b", "domain = x.org\n"), "k", before)).starts_with("error"));
}

BOOST_AUTO_TEST_CASE(a_connection_that_died_while_idle_is_replaced) {
  (void)ask("a");
  ++servers.restarts;
  BOOST_TEST(ask("a") == "a:k");
  BOOST_TEST(servers.take_events() == (Events{"connect a", "ask a", "ask a", "connect a", "ask a"}),
             boost::test_tools::per_element());
  BOOST_TEST(servers.open == 1);
}

BOOST_AUTO_TEST_CASE(a_server_that_hangs_costs_one_time_out_for_all_who_ask_meanwhile) {
  servers.states["a"] = State::hangs;
  const SteadyTime asked = clock.now();
  std::string others;
  for (int i = 0; i < 50; ++i) others += shown(pools().look_up(*table("a"), std::to_string(i), asked)) + "\n";
  BOOST_TEST(servers.take_events().size() == 1U);
  BOOST_TEST((clock.now() - asked == seconds(10)));
  BOOST_TEST(std::ranges::count(others, '\n') == 50);
  BOOST_TEST(others.starts_with("error"));
  servers.states["a"] = State::up;
  BOOST_TEST(ask("a") == "a:k");
}

BOOST_AUTO_TEST_CASE(one_slow_question_fails_alone_when_others_are_answered) {
  const SteadyTime asked = clock.now();
  servers.states["a"] = State::hangs_at_questions;
  servers.during = [&] {
    servers.during = nullptr;
    servers.states["a"] = State::up;
    clock.advance(seconds(1));
    BOOST_TEST(shown(pools().look_up(*table("a"), "quick", asked)) == "a:quick");
  };
  BOOST_TEST(shown(pools().look_up(*table("a"), "slow", asked)).contains("no answer"));
  BOOST_TEST((clock.now() - asked == seconds(30)));
  BOOST_TEST(shown(pools().look_up(*table("a"), "later", asked + seconds(29))) == "a:later");
}

BOOST_AUTO_TEST_CASE(memcache_is_asked_max_try_times_and_each_time_has_its_limit) {
  const auto t = *read_table("memcache", "memcache = a\nmax_try = 3\nretry_pause = 0\ntimeout = 2\n", "/t.cf", {});
  servers.states["a"] = State::hangs_at_questions;
  const SteadyTime asked = clock.now();
  BOOST_TEST(shown(pools().look_up(*t, "k", asked)).contains("no answer"));
  BOOST_TEST((clock.now() - asked == seconds(6)));
  BOOST_TEST(servers.take_events().size() == 6U);
  servers.states["a"] = State::refuses_connections;
  clock.advance(microseconds(1));
  BOOST_TEST(shown(pools().look_up(*t, "k", clock.now())).contains("connection refused"));
  BOOST_TEST(servers.take_events().size() == 1U);
}

BOOST_AUTO_TEST_CASE(every_host_has_its_share_of_the_time) {
  servers.states["a"] = servers.states["b"] = servers.states["c"] = State::hangs_at_questions;
  const SteadyTime asked = clock.now();
  BOOST_TEST(shown(pools().look_up(*table("a b c"), "k", asked)).contains("no answer"));
  BOOST_TEST(servers.take_events().size() == 6U);
  BOOST_TEST((clock.now() - asked == seconds(30)));
}

BOOST_AUTO_TEST_CASE(the_time_of_a_question_counts_from_when_it_was_asked) {
  BOOST_TEST(shown(pools().look_up(*table("a"), "k", clock.now() - seconds(31))).contains("no time is left"));
  BOOST_TEST(servers.take_events().empty());
}

BOOST_AUTO_TEST_CASE(idle_connections_are_closed_in_their_time) {
  (void)ask("a");
  BOOST_TEST((pools().close_idle() == clock.now() + seconds(60)));
  clock.advance(seconds(59));
  (void)pools().close_idle();
  BOOST_TEST(servers.open == 1);
  (void)ask("a");
  clock.advance(seconds(59));
  (void)pools().close_idle();
  BOOST_TEST(servers.open == 1);
  clock.advance(seconds(1));
  BOOST_TEST((pools().close_idle() == kNever));
  BOOST_TEST(servers.open == 0);
  BOOST_TEST(pools().counts().open == 0U);
  BOOST_TEST(pools().counts().idle == 0U);
}

BOOST_AUTO_TEST_CASE(a_pool_has_no_more_connections_than_its_bound_and_the_rest_waits_for_one) {
  limits.per_pool = 2;
  std::mutex gate;
  std::condition_variable changed;
  int inside = 0, most = 0;
  bool go = false;
  servers.inside = [&] {
    std::unique_lock lock(gate);
    most = std::max(most, ++inside);
    changed.notify_all();
    changed.wait(lock, [&] { return go; });
    --inside;
  };
  std::atomic<int> answered = 0;
  const auto t = table("a");
  auto& shared = pools();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        if (shown(shared.look_up(*t, std::to_string(i), clock.now())) == "a:" + std::to_string(i)) ++answered;
      });
    std::unique_lock lock(gate);
    changed.wait(lock, [&] { return inside == 2; });
    go = true;
    changed.notify_all();
  }
  BOOST_TEST(answered == 8);
  BOOST_TEST(most == 2);
  BOOST_TEST(pools().counts().connects == 2U);
}

BOOST_AUTO_TEST_CASE(over_the_bound_of_the_process_idle_connections_of_other_pools_make_room) {
  limits.in_all = 3;
  for (const char* host : {"a", "b", "c", "d", "e"}) BOOST_TEST(ask(host) == std::string(host) + ":k");
  BOOST_TEST(servers.open == 3);
  BOOST_TEST(pools().counts().open == 3U);
}

BOOST_AUTO_TEST_SUITE_END()
