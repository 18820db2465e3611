#include "lib/map/ask.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <thread>

#include "lib/base/async/testing/run.h"
#include "lib/base/text.h"
#include "lib/map/database_look_up.h"
#include "lib/map/debug_map.h"
#include "lib/map/source.h"
#include "lib/map/testing/table_server.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"

namespace pen::map {
namespace {

using async::Loop;
using async::Task;
using async::testing::run;

struct Fixture {
  testing::ScratchDir dir;
  Loop loop;
  TableServer server{loop, dir.file("s")};
  Asker tables{loop, {.connections = 4}};

  MapList maps(const std::string& table = "t") const {
    return *MapList::open("socketmap:unix:" + dir.file("s") + ":" + table);
  }
  Task<Value> look(MapList maps_in, std::string key) {
    return tables.ask([maps = std::move(maps_in), key = std::move(key)] { return maps.lookup(key); });
  }
  std::string value(const std::string& key) { return shown(run(loop, look(maps(), key))); }
  static std::string shown(const Value& v) {
    if (!v) return "error: " + v.error().message();
    return v->value_or("(none)");
  }
  /// Starts looking; the result appears where the returned pointer says.
  std::shared_ptr<std::optional<Value>> start(MapList maps_in, std::string key) {
    auto out = std::make_shared<std::optional<Value>>();
    loop.spawn("look", keep(look(std::move(maps_in), std::move(key)), out));
    return out;
  }
  static Task<void> keep(Task<Value> task, std::shared_ptr<std::optional<Value>> out) { out->emplace(co_await task); }
  template <class F>
  void turn_until(F done) {
    for (int i = 0; i < 100000 && !done(); ++i) loop.run_once(milliseconds(50));
    BOOST_REQUIRE(done());
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(ask, Fixture)

BOOST_AUTO_TEST_CASE(a_table_server_is_asked_over_a_connection_that_stays) {
  BOOST_TEST(value("key") == "key");
  BOOST_TEST(value("no") == "(none)");
  BOOST_TEST(value("die").starts_with("error: "));
  BOOST_TEST(value("key") == "key");
  BOOST_TEST(server.connections == 3U);  // "die" was asked again over a new one
}

BOOST_AUTO_TEST_CASE(work_runs_again_until_all_its_questions_are_answered) {
  const auto outer = maps();
  const auto inner = *MapList::open("inline:{a=b}");
  int runs = 0;
  auto work = [&]() -> Value {
    ++runs;
    PEN_TRY_ASSIGN(const auto first, outer.lookup("one"));
    PEN_TRY_ASSIGN(const auto second, inner.lookup("a"));
    PEN_TRY_ASSIGN(const auto third, outer.lookup(*first + "-" + *second));
    return third;
  };
  BOOST_TEST(shown(run(loop, tables.ask(work))) == "one-b");
  BOOST_TEST(runs == 3);
  BOOST_TEST((server.asked == std::vector<std::string>{"one", "one-b"}));
}

BOOST_AUTO_TEST_CASE(debug_tells_a_look_up_once_and_with_its_answer) {
  std::vector<std::string> told;
  on_debug_look_up([&](const std::string& line) { told.push_back(line); });
  const std::string table = "socketmap:unix:" + dir.file("s") + ":t";
  const auto served = *MapList::open("debug:" + table);
  const auto here = *MapList::open("debug:inline:{a=b}");
  auto work = [&]() -> Value {
    PEN_TRY_ASSIGN(const auto first, here.lookup("a"));
    PEN_TRY_ASSIGN(const auto second, served.lookup(*first));
    return served.lookup(*second + "-no");
  };
  (void)run(loop, tables.ask(work));
  on_debug_look_up({});
  BOOST_TEST((told == std::vector<std::string>{"inline:{a=b} lookup: \"a\" = \"b\"", table + " lookup: \"b\" = \"b\"",
                                               table + " lookup: \"b-no\" = \"b-no\""}));
}

BOOST_AUTO_TEST_CASE(work_that_goes_on_after_an_error_gets_several_answers_at_once) {
  const auto list = maps();
  int runs = 0;
  auto work = [&]() -> std::string {
    ++runs;
    std::string all;
    for (const auto* key : {"a", "no", "b"}) all += shown(list.lookup(key)) + " ";
    return all;
  };
  BOOST_TEST(run(loop, tables.ask(work)) == "a (none) b ");
  BOOST_TEST(runs == 2);
}

BOOST_AUTO_TEST_CASE(a_server_that_hangs_for_some_keys_costs_those_who_ask_for_them) {
  std::vector<std::shared_ptr<std::optional<Value>>> stuck;
  for (int i = 0; i < 3; ++i) stuck.push_back(start(maps(), "hang" + std::to_string(i)));
  turn_until([&] { return server.hanging == 3; });
  for (int i = 0; i < 20; ++i) BOOST_TEST(value("key" + std::to_string(i)).starts_with("key"));
  for (const auto& one : stuck) BOOST_TEST(!one->has_value());
}

BOOST_AUTO_TEST_CASE(a_table_whose_connections_all_hang_has_no_part_in_another_table) {
  for (int i = 0; i < 20; ++i) start(maps("slow"), "hang" + std::to_string(i));
  turn_until([&] { return server.hanging == 4; });  // its share
  BOOST_TEST(value("key") == "key");
  BOOST_TEST(server.hanging == 4U);
  BOOST_TEST(tables.counts().under_way == 20U);
}

BOOST_AUTO_TEST_CASE(who_asks_the_same_at_the_same_time_gets_the_same_answer) {
  std::vector<std::shared_ptr<std::optional<Value>>> all;
  for (int i = 0; i < 50; ++i) all.push_back(start(maps(), "key"));
  turn_until([&] { return std::ranges::all_of(all, [](const auto& one) { return one->has_value(); }); });
  for (const auto& one : all) BOOST_TEST(shown(**one) == "key");
  BOOST_TEST(server.asked.size() == 1U);
}

BOOST_AUTO_TEST_CASE(one_who_gives_up_takes_nothing_from_the_others_who_ask_the_same) {
  {
    async::Gate gate(loop);
    auto out = std::make_shared<std::optional<Value>>();
    gate.spawn("gives up", keep(look(maps(), "key"), out));
    loop.run_once();
  }
  BOOST_TEST(value("key") == "key");
}

BOOST_AUTO_TEST_CASE(connections_that_died_while_idle_are_replaced) {
  for (int i = 0; i < 4; ++i) start(maps(), "key" + std::to_string(i));
  turn_until([&] { return tables.counts().under_way == 0 && tables.counts().asked == 4; });
  BOOST_TEST(server.connections == 4U);
  BOOST_TEST(value("die").starts_with("error"));
  BOOST_TEST(value("key") == "key");
}

BOOST_AUTO_TEST_CASE(a_server_that_is_not_there_is_an_error_at_once) {
  const auto none = *MapList::open("socketmap:unix:" + dir.file("none") + ":t");
  BOOST_TEST(shown(run(loop, look(none, "key"))).starts_with("error: "));
}

BOOST_AUTO_TEST_CASE(the_name_service_is_asked_in_a_thread) {
  const auto accounts = *MapList::open("unix:passwd.byname");
  BOOST_TEST(shown(run(loop, look(accounts, "root"))).starts_with("root:*:0:0:"));
  BOOST_TEST(shown(run(loop, look(accounts, "nobody-of-this-name"))) == "(none)");
}

BOOST_AUTO_TEST_CASE(a_name_service_that_hangs_holds_nobody_who_asks_a_server) {
  // Stands for getpwnam() with a directory service that does not answer.
  struct Hanging final : Source {
    explicit Hanging(std::shared_ptr<std::pair<std::mutex, std::condition_variable>> gate)
        : Source("unix:hanging"), gate_(std::move(gate)) {}
    Value ask_now(const std::string&) const override {
      std::unique_lock lock(gate_->first);
      gate_->second.wait(lock);
      return std::nullopt;
    }
    std::shared_ptr<std::pair<std::mutex, std::condition_variable>> gate_;
  };
  const auto gate = std::make_shared<std::pair<std::mutex, std::condition_variable>>();
  const std::shared_ptr<const Source> hanging = std::make_shared<Hanging>(gate);
  std::vector<std::shared_ptr<std::optional<Value>>> stuck;
  for (int i = 0; i < 20; ++i) {
    stuck.push_back(std::make_shared<std::optional<Value>>());
    loop.spawn("stuck",
               keep(tables.ask([hanging, i] { return answer_from(hanging, std::to_string(i)); }), stuck.back()));
  }
  for (int i = 0; i < 10; ++i) BOOST_TEST(value("key" + std::to_string(i)).starts_with("key"));
  for (const auto& one : stuck) BOOST_TEST(!one->has_value());
  turn_until([&] {
    gate->second.notify_all();
    return std::ranges::all_of(stuck, [](const auto& one) { return one->has_value(); });
  });
}

BOOST_AUTO_TEST_CASE(work_in_a_thread_waits_for_servers_outside_it) {
  async::HandlerPool pool(loop, 1);
  const auto list = maps();
  auto work = [list] { return list.lookup("key"); };
  BOOST_TEST(shown(run(loop, tables.ask_in(pool, work))) == "key");
  auto out = std::make_shared<std::optional<Value>>();
  loop.spawn("stuck", keep(tables.ask_in(pool, [list] { return list.lookup("hang"); }), out));
  turn_until([&] { return server.hanging == 1; });
  BOOST_TEST(shown(run(loop, tables.ask_in(pool, work))) == "key");
  BOOST_TEST(!out->has_value());
}

BOOST_AUTO_TEST_SUITE_END()

namespace {

/// A database with connections that answer in steps, over socket pairs. A key that begins with "hang" has no answer.
struct Stepped final : database::Driver {
  struct Session final : database::Connection {
    explicit Session(Stepped& d) : driver(d) {
      BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
      ++driver.open;
    }
    ~Session() override {
      for (const int fd : ends) ::close(fd);
      --driver.open;
    }
    database::Report ask(const database::Lookup&) override { return {database::Outcome::refused, "asked in a thread"}; }
    bool in_steps() const override { return true; }
    std::optional<database::Report> begin(const database::Lookup& lookup) override {
      key = *lookup.expand("query", [](std::string_view part, std::string& out) {
        out += part;
        return true;
      });
      driver.most = std::max(driver.most, ++driver.under_way);
      if (!key.starts_with("hang")) BOOST_REQUIRE(::send(ends[1], "x", 1, 0) == 1);
      return std::nullopt;
    }
    std::optional<database::Report> step(const database::Lookup& lookup) override {
      BOOST_TEST((std::this_thread::get_id() == driver.loop_thread));
      char c = 0;
      if (::recv(ends[0], &c, 1, 0) != 1) return std::nullopt;
      --driver.under_way;
      lookup.add("answer to " + key);
      return database::Report{};
    }
    Waits waits() const override { return {.fd = ends[0], .write = false}; }
    Stepped& driver;
    int ends[2] = {-1, -1};
    std::string key;
  };
  std::unique_ptr<database::Connection> connect(const database::Settings&, const std::string&, SteadyTime,
                                                database::Report&) override {
    if (std::this_thread::get_id() == loop_thread) ++connected_in_loop;
    return std::make_unique<Session>(*this);
  }
  std::thread::id loop_thread = std::this_thread::get_id();
  int under_way = 0, most = 0;
  std::atomic<int> open = 0, connected_in_loop = 0;
};

class SteppedSource final : public PooledSource {
 public:
  SteppedSource(std::string name, database::Pools& pools)
      : PooledSource(std::move(name)),
        pools_(pools),
        table_(*database::read_table("mysql", "query = %s\nhosts = h\n", "/t.cf", {})) {}
  std::string lane() const override { return "lane"; }
  std::size_t lane_width() const override { return pools_.limits().per_pool; }
  Value ask(const std::string& key, SteadyTime since) const override { return pools_.look_up(table_, key, since); }
  Result<std::shared_ptr<Steps>> begin(const std::string& key, SteadyTime since,
                                       std::function<void()> wake) const override {
    if (key == "nowhere") return nullptr;
    return std::make_shared<database::LookUp>(
        pools_, table_, database::LookUp::Question{.key = key, .store = std::nullopt, .since = since}, std::move(wake));
  }

 private:
  database::Pools& pools_;
  std::shared_ptr<const database::Table> table_;
};

struct SteppedFixture {
  std::shared_ptr<std::optional<Value>> start_asking(const std::string& key) {
    auto out = std::make_shared<std::optional<Value>>();
    loop.spawn("look", Fixture::keep(tables->ask([s = source, key] { return answer_from(s, key); }), out));
    return out;
  }
  template <class F>
  void turn_until(F done) {
    for (int i = 0; i < 100000 && !done(); ++i) loop.run_once(milliseconds(50));
    BOOST_REQUIRE(done());
  }
  static std::string shown(const Value& v) { return Fixture::shown(v); }

  Loop loop;
  Stepped driver;
  database::Pools pools{
      system_clock(), [this](const std::string&) -> Result<database::Driver*> { return &driver; }, {.per_pool = 4}, 7};
  std::shared_ptr<const Source> source = std::make_shared<SteppedSource>("stepped:t", pools);
  std::optional<Asker> tables{std::in_place, loop};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(ask_in_steps, SteppedFixture)

BOOST_AUTO_TEST_CASE(questions_are_asked_in_the_loop_over_as_many_connections_as_the_pool_has) {
  std::vector<std::shared_ptr<std::optional<Value>>> answers;
  for (int i = 0; i < 50; ++i) answers.push_back(start_asking("k" + std::to_string(i)));
  turn_until([&] { return std::ranges::all_of(answers, [](const auto& a) { return a->has_value(); }); });
  for (std::size_t i = 0; i < answers.size(); ++i) BOOST_TEST(shown(**answers[i]) == "answer to k" + std::to_string(i));
  BOOST_TEST(driver.most <= 4);
  BOOST_TEST(driver.connected_in_loop == 0);
  BOOST_TEST(pools.counts().connects <= 4U);
  const auto none = start_asking("nowhere");
  turn_until([&] { return none->has_value(); });
  BOOST_TEST(shown(**none) == "(none)");
}

BOOST_AUTO_TEST_CASE(one_that_hangs_holds_its_connection_and_nobody_else_and_ends_with_the_asker) {
  const auto hanging = start_asking("hang");
  turn_until([&] { return driver.under_way == 1; });
  for (int i = 0; i < 10; ++i) {
    const auto other = start_asking("k" + std::to_string(i));
    turn_until([&] { return other->has_value(); });
    BOOST_TEST(shown(**other) == "answer to k" + std::to_string(i));
  }
  BOOST_TEST(!hanging->has_value());
  BOOST_TEST(driver.open == 2);
  tables.reset();
  BOOST_TEST(driver.open == 1);  // the other rests
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(keys_that_hang_leave_connections_of_their_table_to_others) {
  const testing::ScratchDir dir;
  testing::ManualClock clock;
  Loop loop(clock);
  TableServer server(loop, dir.file("s"));
  Asker tables(loop, {.connections = 2, .patience = seconds(30)});
  const auto maps = *MapList::open("socketmap:unix:" + dir.file("s") + ":t");
  std::vector<std::optional<Value>> out(30);
  const auto start = [&](std::size_t i, std::string key) {
    loop.spawn("ask", async::testing::store_result(tables.ask([maps, key] { return maps.lookup(key); }), &out[i]));
  };
  const auto settle = [&] {
    for (int i = 0; i < 200; ++i) loop.run_once(milliseconds(1));
  };
  for (std::size_t i = 0; i < 29; ++i) start(i, "hang" + std::to_string(i));
  settle();
  BOOST_TEST(server.hanging == 2U);
  clock.advance(milliseconds(1100));
  settle();
  BOOST_TEST(server.hanging == 4U);
  for (int i = 0; i < 12; ++i) {
    clock.advance(milliseconds(1100));
    settle();
  }
  BOOST_TEST(server.hanging == 20U);  // and no more
}

BOOST_AUTO_TEST_CASE(a_question_without_an_answer_ends_with_an_error_in_its_time) {
  const testing::ScratchDir dir;
  testing::ManualClock clock;
  Loop loop(clock);
  TableServer server(loop, dir.file("s"));
  Asker tables(loop, {.connections = 1, .patience = seconds(30)});
  const auto maps = *MapList::open("socketmap:unix:" + dir.file("s") + ":t");
  std::vector<std::optional<Value>> out(2);
  const auto start = [&](std::size_t i, const char* key) {
    loop.spawn("ask", async::testing::store_result(tables.ask([maps, key] { return maps.lookup(key); }), &out[i]));
  };
  start(0, "hang");
  start(1, "waits for its turn");
  for (int i = 0; i < 1000 && server.hanging == 0; ++i) loop.run_once(milliseconds(1));
  BOOST_REQUIRE(server.hanging == 1U);
  clock.advance(seconds(31));
  for (int i = 0; i < 100 && !(out[0] && out[1]); ++i) loop.run_once();
  BOOST_REQUIRE((out[0] && out[1]));
  for (const auto& one : out) {
    BOOST_TEST(!*one);
    BOOST_TEST(one->error().is_errno(ETIMEDOUT));
  }
}

}  // namespace pen::map
