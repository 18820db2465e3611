// Connections to databases: the order of hosts, failures, back-off, bounds, the end of idle connections. The driver is
// a fake one in this process, and time comes from the test.
#include "lib/map/database_pool.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <set>
#include <thread>

#include "lib/map/database_look_up.h"
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
    bool in_steps() const override { return servers.stepped; }
    std::optional<Report> begin(const Lookup& lookup) override {
      if (restarts != servers.restarts) return ask(lookup);
      if (lookup.deadline <= servers.clock.now()) return Report{Outcome::timed_out, ""};
      return std::nullopt;
    }
    std::optional<Report> step(const Lookup& lookup) override {
      if (restarts != servers.restarts) return Report{Outcome::lost, "gone away"};
      if (!servers.ready) return std::nullopt;
      return ask(lookup);
    }
    Waits waits() const override { return {.fd = 77, .write = !servers.ready}; }
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
  bool stepped = true, ready = true;
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
  /// In a thread that waits, and in steps: in turns, as both have the same servers and failures.
  Value look_up(const std::shared_ptr<Table>& t, const std::string& key, SteadyTime since) {
    if (++looked_up % 2 != 0) return pools().look_up(t, key, since);
    LookUp one(pools(), t, {.key = key, .store = std::nullopt, .since = since}, [] {});
    for (;;) switch (one.next()) {
        case Steps::Next::thread:
          one.in_thread();
          break;
        case Steps::Next::descriptor:
          break;
        case Steps::Next::room:
          clock.advance(one.until() - clock.now());
          break;
        case Steps::Next::done:
          return one.take();
      }
  }
  std::string ask(const std::string& hosts, const std::string& key = "k") {
    clock.advance(microseconds(1));
    return shown(look_up(table(hosts), key, clock.now()));
  }
  Events events(const std::string& hosts) {
    servers.take_events();
    (void)ask(hosts);
    return servers.take_events();
  }

  testing::ManualClock clock;
  Servers servers{clock};
  Pools::Limits limits;
  int looked_up = 0;
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
    (void)fresh.look_up(table("a b unix:/s c"), "k", clock.now());
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
    BOOST_TEST(shown(look_up(both, "k", clock.now())) == "c:k");
    if (servers.take_events().front() == "connect unix:/a") tried.push_back(second);
    pools().close_idle();
    clock.advance(seconds(1));
  }
  BOOST_TEST(tried == (std::vector<long>{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}), boost::test_tools::per_element());
  servers.states["unix:/a"] = State::up;
  clock.advance(seconds(60));
  BOOST_TEST(shown(look_up(both, "k", clock.now())) == "unix:/a:k");
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

BOOST_AUTO_TEST_CASE(what_is_told_of_a_uri_has_neither_its_login_nor_its_options) {
  servers.states["postgresql://u:secret@h:1/d?password=word"] = State::refuses_connections;
  const std::string told = ask("postgresql://u:secret@h:1/d?password=word");
  BOOST_TEST(told.contains("postgresql://h:1/d: connection refused"), told);
}
BOOST_AUTO_TEST_CASE(a_question_that_all_hosts_refuse_takes_no_host_from_other_tables) {
  servers.states["a"] = servers.states["b"] = State::refuses_questions;
  BOOST_TEST(ask("a b").contains("no such column"));
  servers.states["a"] = servers.states["b"] = State::up;
  const SteadyTime before = clock.now();
  BOOST_TEST(!shown(look_up(table("a b", "domain = x.org\n"), "k", before)).starts_with("error"));
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
  for (int i = 0; i < 50; ++i) others += shown(look_up(table("a"), std::to_string(i), asked)) + "\n";
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
    BOOST_TEST(shown(look_up(table("a"), "quick", asked)) == "a:quick");
  };
  BOOST_TEST(shown(look_up(table("a"), "slow", asked)).contains("no answer"));
  BOOST_TEST((clock.now() - asked == seconds(30)));
  BOOST_TEST(shown(look_up(table("a"), "later", asked + seconds(29))) == "a:later");
}

BOOST_AUTO_TEST_CASE(memcache_is_asked_max_try_times_and_each_time_has_its_limit) {
  const std::shared_ptr<Table> t =
      *read_table("memcache", "memcache = a\nmax_try = 3\nretry_pause = 0\ntimeout = 2\n", "/t.cf", {});
  servers.states["a"] = State::hangs_at_questions;
  const SteadyTime asked = clock.now();
  BOOST_TEST(shown(look_up(t, "k", asked)).contains("no answer"));
  BOOST_TEST((clock.now() - asked == seconds(6)));
  BOOST_TEST(servers.take_events().size() == 6U);
  servers.states["a"] = State::refuses_connections;
  clock.advance(microseconds(1));
  BOOST_TEST(shown(look_up(t, "k", clock.now())).contains("connection refused"));
  BOOST_TEST(servers.take_events().size() == 1U);
}

BOOST_AUTO_TEST_CASE(every_host_has_its_share_of_the_time) {
  servers.states["a"] = servers.states["b"] = servers.states["c"] = State::hangs_at_questions;
  const SteadyTime asked = clock.now();
  BOOST_TEST(shown(look_up(table("a b c"), "k", asked)).contains("no answer"));
  BOOST_TEST(servers.take_events().size() == 6U);
  BOOST_TEST((clock.now() - asked == seconds(30)));
}

BOOST_AUTO_TEST_CASE(the_time_of_a_question_counts_from_when_it_was_asked) {
  BOOST_TEST(shown(look_up(table("a"), "k", clock.now() - seconds(31))).contains("no time is left"));
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
        if (shown(shared.look_up(t, std::to_string(i), clock.now())) == "a:" + std::to_string(i)) ++answered;
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

BOOST_AUTO_TEST_CASE(pools_that_hang_with_all_connections_of_the_process_leave_each_other_pool_one) {
  limits.in_all = 2;
  std::mutex gate;
  std::condition_variable changed;
  int inside = 0;
  bool go = false;
  servers.inside = [&] {
    std::unique_lock lock(gate);
    if (inside == 2) return;  // the other pool
    ++inside;
    changed.notify_all();
    changed.wait(lock, [&] { return go; });
  };
  const auto hanging = table("a"), other = table("b");
  auto& shared = pools();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&, i] { (void)shared.look_up(hanging, std::to_string(i), clock.now()); });
    std::unique_lock lock(gate);
    changed.wait(lock, [&] { return inside == 2; });
    lock.unlock();
    auto answer = std::async(std::launch::async, [&] { return shown(shared.look_up(other, "k", clock.now())); });
    BOOST_TEST((answer.wait_for(seconds(20)) == std::future_status::ready));  // otherwise when the others are released
    BOOST_TEST(shared.counts().open == 3U);
    lock.lock();
    go = true;
    changed.notify_all();
    lock.unlock();
    BOOST_TEST(answer.get() == "b:k");
  }
  BOOST_TEST(shown(shared.look_up(other, "l", clock.now())) == "b:l");
  BOOST_TEST(shared.counts().connects == 3U);
}

BOOST_AUTO_TEST_CASE(over_the_bound_of_the_process_idle_connections_of_other_pools_make_room) {
  limits.in_all = 3;
  for (const char* host : {"a", "b", "c", "d", "e"}) BOOST_TEST(ask(host) == std::string(host) + ":k");
  BOOST_TEST(servers.open == 3);
  BOOST_TEST(pools().counts().open == 3U);
}

BOOST_AUTO_TEST_SUITE_END()

namespace {

using Next = Steps::Next;

/// Look-ups that nobody waits for but the test.
struct Stepping : Fixture {
  std::unique_ptr<LookUp> begin(const std::string& hosts, const std::string& key = "k") {
    return std::make_unique<LookUp>(pools(), table(hosts),
                                    LookUp::Question{.key = key, .store = std::nullopt, .since = clock.now()},
                                    [this] { ++woken; });
  }
  /// Goes on, with all that a thread has to do, until something else is to be waited for.
  static Next go_on(LookUp& one) {
    for (;;)
      if (const Next next = one.next(); next != Next::thread)
        return next;
      else
        one.in_thread();
  }
  /// A look-up that waits for the answer to its question.
  std::unique_ptr<LookUp> asked(const std::string& hosts, const std::string& key = "k") {
    servers.ready = false;
    auto one = begin(hosts, key);
    BOOST_REQUIRE((go_on(*one) == Next::descriptor));
    return one;
  }
  std::string answer(LookUp& one) {
    servers.ready = true;
    Next next = go_on(one);
    if (next == Next::descriptor) next = go_on(one);  // it was only begun now
    if (next == Next::descriptor) next = go_on(one);  // over another connection
    BOOST_REQUIRE((next == Next::done));
    return shown(one.take());
  }
  int woken = 0;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(database_steps, Stepping)

BOOST_AUTO_TEST_CASE(only_loading_and_connecting_need_a_thread_and_a_question_its_descriptor) {
  servers.ready = false;
  const auto first = begin("a");
  BOOST_TEST((first->next() == Next::thread));
  first->in_thread();
  BOOST_TEST((first->next() == Next::thread));
  first->in_thread();
  BOOST_TEST((first->next() == Next::descriptor));
  BOOST_TEST(first->descriptor().fd == 77);
  BOOST_TEST(first->descriptor().write);
  BOOST_TEST((first->until() == clock.now() + seconds(30)));
  BOOST_TEST((first->next() == Next::descriptor));  // woken for nothing
  BOOST_TEST(answer(*first) == "a:k");
  servers.take_events();
  servers.ready = false;
  const auto second = begin("a", "l");
  BOOST_TEST((second->next() == Next::descriptor));
  servers.ready = true;
  BOOST_TEST((second->next() == Next::done));
  BOOST_TEST(shown(second->take()) == "a:l");
  BOOST_TEST(servers.take_events() == (Events{"ask a"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_driver_without_steps_is_asked_in_the_thread_that_has_connected_it) {
  servers.stepped = false;
  const auto one = begin("a");
  BOOST_TEST((one->next() == Next::thread));
  one->in_thread();
  BOOST_TEST((one->next() == Next::thread));
  one->in_thread();
  BOOST_TEST((one->next() == Next::done));
  BOOST_TEST(shown(one->take()) == "a:k");
}

BOOST_AUTO_TEST_CASE(a_question_without_an_answer_ends_at_its_time_and_its_connection_in_a_thread) {
  const auto one = asked("a");
  clock.advance(one->until() - clock.now());
  BOOST_TEST((one->next() == Next::thread));
  BOOST_TEST(servers.open == 1);
  one->in_thread();
  BOOST_TEST(servers.open == 0);
  BOOST_TEST((one->next() == Next::done));
  BOOST_TEST(shown(one->take()).contains("no answer"));
  BOOST_TEST(pools().counts().open == 0U);
}

BOOST_AUTO_TEST_CASE(the_next_host_is_asked_when_the_share_of_the_first_is_over) {
  const auto one = asked("unix:/a b");
  BOOST_TEST((one->until() == clock.now() + seconds(15)));
  clock.advance(seconds(15));
  BOOST_TEST((go_on(*one) == Next::descriptor));
  BOOST_TEST((one->until() == clock.now() + seconds(15)));
  BOOST_TEST(answer(*one) == "b:k");
  BOOST_TEST(events("unix:/a b").front() == "ask b");  // a is left out
}

BOOST_AUTO_TEST_CASE(who_finds_all_connections_busy_is_woken_when_one_comes_free) {
  limits.per_pool = 1;
  const auto first = asked("a");
  const auto second = begin("a", "l");
  BOOST_TEST((go_on(*second) == Next::room));
  BOOST_TEST((second->until() == clock.now() + seconds(30)));
  BOOST_TEST(woken == 0);
  BOOST_TEST(answer(*first) == "a:k");
  BOOST_TEST(woken == 1);
  BOOST_TEST(answer(*second) == "a:l");
  BOOST_TEST(woken == 1);
  BOOST_TEST(pools().counts().connects == 1U);
}

BOOST_AUTO_TEST_CASE(who_waits_for_a_connection_when_the_last_host_fails_gets_that_failure) {
  limits.per_pool = 1;
  const auto first = asked("a");
  const auto second = begin("a", "l");
  BOOST_TEST((go_on(*second) == Next::room));
  clock.advance(seconds(30));
  BOOST_TEST((go_on(*first) == Next::done));
  BOOST_TEST(woken == 1);
  servers.take_events();
  BOOST_TEST((second->next() == Next::done));
  BOOST_TEST(shown(second->take()).contains("no answer"));
  BOOST_TEST(servers.take_events().empty());
}

BOOST_AUTO_TEST_CASE(a_wait_for_a_connection_ends_at_its_time) {
  limits.per_pool = 1;
  const auto first = asked("a");
  clock.advance(seconds(1));
  const auto second = begin("a", "l");
  BOOST_TEST((go_on(*second) == Next::room));
  clock.advance(seconds(28));
  BOOST_TEST(answer(*first) == "a:k");
  const auto third = asked("a", "m");
  BOOST_TEST((second->next() == Next::room));
  clock.advance(seconds(2));
  BOOST_TEST((second->next() == Next::done));
  BOOST_TEST(shown(second->take()).contains("all connections are busy"));
}

BOOST_AUTO_TEST_CASE(a_connection_that_died_while_idle_is_replaced_without_a_word) {
  BOOST_TEST(answer(*asked("a")) == "a:k");
  ++servers.restarts;
  servers.take_events();
  BOOST_TEST(answer(*begin("a", "l")) == "a:l");
  BOOST_TEST(servers.take_events() == (Events{"ask a", "connect a", "ask a"}), boost::test_tools::per_element());
  // While a question is under way it is the same.
  const auto one = asked("a", "m");
  ++servers.restarts;
  BOOST_TEST(answer(*one) == "a:m");
  BOOST_TEST(servers.open == 1);
  BOOST_TEST(pools().counts().open == 1U);
}

BOOST_AUTO_TEST_CASE(a_look_up_that_is_given_up_ends_its_connection_and_lets_the_next_one_in) {
  limits.per_pool = 1;
  auto first = asked("a");
  const auto second = begin("a", "l");
  BOOST_TEST((go_on(*second) == Next::room));
  first.reset();
  BOOST_TEST(servers.open == 0);
  BOOST_TEST(woken == 1);
  BOOST_TEST(answer(*second) == "a:l");
  // One that waits may be given up, too.
  const auto third = asked("a");
  auto fourth = begin("a", "n");
  BOOST_TEST((go_on(*fourth) == Next::room));
  fourth.reset();
  BOOST_TEST(answer(*third) == "a:k");
  BOOST_TEST(woken == 1);
}

BOOST_AUTO_TEST_CASE(threads_and_steps_share_connections_and_failures) {
  BOOST_TEST(answer(*asked("a")) == "a:k");
  BOOST_TEST(ask("a", "l") == "a:l");
  BOOST_TEST(pools().counts().connects == 1U);
  servers.states["a"] = State::refuses_questions;
  BOOST_TEST(answer(*asked("a")).contains("no such column"));
}

BOOST_AUTO_TEST_SUITE_END()
