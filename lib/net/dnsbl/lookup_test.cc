#include "lib/net/dnsbl/lookup.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/net/dnsbl/question.h"
#include "lib/testing/dns_server.h"
#include "lib/testing/manual_clock.h"

using namespace pen;
using namespace pen::dnsbl;
using net::DnsAnswer;
using net::DnsOutcome;
using net::RecordType;
using State = Answer::State;

namespace {

/// A list with answers that the test gives, one by one or by name.
struct World {
  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  std::map<std::string, std::vector<std::string>> a, txt;
  std::vector<std::string> asked, told;
  bool silent = false;  // nothing is answered until the wait ends
  async::Event never{loop};
  Lookup lists;
  async::Gate gate{loop};

  explicit World(Lookup::Limits limits = {})
      : lists(
            loop,
            [this](std::string name, RecordType type, async::Until until) {
              return answer(std::move(name), type, until);
            },
            [this](const std::string& line) { told.push_back(line); }, limits) {}

  async::Task<DnsAnswer> answer(std::string name, RecordType type, async::Until until) {
    asked.push_back((type == RecordType::a ? "A " : "TXT ") + name);
    DnsAnswer out;
    out.text = "Host not found, try again";
    if (silent) {
      (void)co_await never.wait(until);
      co_return out;
    }
    const auto& table = type == RecordType::a ? a : txt;
    const auto found = table.find(name);
    out.outcome = found == table.end() ? DnsOutcome::no_domain : DnsOutcome::found;
    out.ttl = seconds(120);
    if (found != table.end())
      for (const auto& data : found->second) {
        net::DnsRecord record;
        record.type = type;
        record.data = data;
        out.records.push_back(record);
      }
    co_return out;
  }
  static async::Task<void> keep(Lookup* lists, std::string domain, std::string question, std::optional<Answer>* out,
                                async::Until until) {
    *out = co_await lists->ask(std::move(domain), std::move(question), until);
  }
  void ask_aside(std::string domain, std::string question, std::optional<Answer>* out, async::Until until = {}) {
    gate.spawn("ask", keep(&lists, std::move(domain), std::move(question), out, until));
    turn();
  }
  void turn() {
    for (int i = 0; i < 10; ++i) loop.run_once();
  }
  void pass(seconds time) {
    clock.advance(time);
    turn();
  }
  Answer ask(const std::string& question, const std::string& domain = "l.example") {
    std::optional<Answer> out;
    ask_aside(domain, question, &out);
    BOOST_TEST_REQUIRE(out.has_value());
    return *out;
  }
};

struct Small : World {
  Small()
      : World({.at_once = 2, .ahead = 4, .failures = 3, .rest = seconds(30), .tell_again = seconds(3600), .lists = 3}) {
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(dns_list_lookup)

BOOST_FIXTURE_TEST_CASE(an_answer_is_listed_not_listed_or_unknown, World) {
  a["2.0.0.127.l.example"] = {"127.0.0.2", "127.0.0.4"};
  const Answer yes = ask("2.0.0.127.l.example");
  BOOST_TEST((yes.state == State::listed));
  BOOST_TEST((yes.addresses == std::vector<Ipv4>{{127, 0, 0, 2}, {127, 0, 0, 4}}));
  BOOST_TEST((yes.ttl == seconds(120)));
  BOOST_TEST((ask("9.0.0.127.l.example").state == State::not_listed));
  BOOST_TEST(told.empty());
}

BOOST_FIXTURE_TEST_CASE(the_same_question_of_many_is_asked_once, World) {
  silent = true;
  std::optional<Answer> one, two;
  lists.begin("l.example", "q.l.example");
  turn();
  ask_aside("l.example", "q.l.example", &one);
  ask_aside("l.example", "q.l.example", &two);
  BOOST_TEST(asked.size() == 1U);
  BOOST_TEST(lists.counts().joined == 2U);
  never.set();
  turn();
  BOOST_TEST((one && two));
  BOOST_TEST(lists.counts().under_way == 0U);
}

BOOST_FIXTURE_TEST_CASE(a_list_that_does_not_answer_is_unknown_after_ten_seconds, World) {
  silent = true;
  std::optional<Answer> out;
  lists.begin("l.example", "q.l.example");
  turn();
  pass(seconds(6));
  ask_aside("l.example", "q.l.example", &out);  // what has begun earlier also ends earlier
  pass(seconds(3));
  BOOST_TEST(!out.has_value());
  pass(seconds(2));
  BOOST_TEST_REQUIRE(out.has_value());
  BOOST_TEST((out->state == State::unknown));
}

BOOST_FIXTURE_TEST_CASE(who_will_not_wait_so_long_need_not, World) {
  silent = true;
  std::optional<Answer> out;
  ask_aside("l.example", "q.l.example", &out, {.deadline = loop.now() + seconds(1)});
  pass(seconds(2));
  BOOST_TEST_REQUIRE(out.has_value());
  BOOST_TEST((out->state == State::unknown));
}

BOOST_FIXTURE_TEST_CASE(trouble_is_told_of_once_an_hour_for_each_list, World) {
  a["x.l.example"] = {"127.255.255.254"};
  a["y.l.example"] = {"127.0.0.2", "127.255.255.255"};
  a["x.m.example"] = {"127.255.255.252"};
  BOOST_TEST((ask("x.l.example").state == State::unknown));
  BOOST_TEST((ask("y.l.example").state == State::unknown));
  BOOST_TEST_REQUIRE(told.size() == 1U);
  BOOST_TEST(told[0].starts_with("x.l.example: RBL lookup error: the list answers 127.255.255.254, "));
  BOOST_TEST((ask("x.m.example", "m.example").state == State::unknown));
  BOOST_TEST(told.size() == 2U);
  pass(seconds(3500));
  ask("x.l.example");
  BOOST_TEST(told.size() == 2U);
  pass(seconds(101));
  ask("x.l.example");
  BOOST_TEST(told.size() == 3U);
}

BOOST_FIXTURE_TEST_CASE(a_list_that_fails_again_and_again_rests_and_nobody_waits_for_it, Small) {
  for (const char* name : {"1", "2", "3", "4", "5", "6"}) a[name + std::string(".l.example")] = {"127.255.255.254"};
  a["good.l.example"] = {"127.0.0.2"};
  ask("1.l.example");
  ask("2.l.example");
  BOOST_TEST((ask("good.l.example").state == State::listed));  // an answer begins the count anew
  for (const char* name : {"3", "4", "5"}) ask(name + std::string(".l.example"));
  const auto before = asked.size();
  BOOST_TEST((ask("good.l.example").state == State::unknown));
  lists.begin("l.example", "new.l.example");
  turn();
  BOOST_TEST(asked.size() == before);
  BOOST_TEST(lists.counts().not_asked == 1U);
  BOOST_TEST((ask("q.m.example", "m.example").state == State::not_listed));  // other lists are asked
  pass(seconds(31));
  BOOST_TEST((ask("good.l.example").state == State::listed));
  ask("6.l.example");
  BOOST_TEST((ask("good.l.example").state == State::listed));  // awake
}

BOOST_FIXTURE_TEST_CASE(a_question_without_an_answer_is_not_asked_again_at_once, Small) {
  silent = true;
  lists.begin("l.example", "q.l.example");
  turn();
  pass(seconds(11));
  silent = false;
  BOOST_TEST((ask("q.l.example").state == State::unknown));
  lists.begin("l.example", "q.l.example");
  turn();
  BOOST_TEST(asked.size() == 1U);
  for (int i = 0; i < 3; ++i) ask("x", "m.example");  // others are
  pass(seconds(31));
  BOOST_TEST((ask("q.l.example").state == State::not_listed));
}

BOOST_FIXTURE_TEST_CASE(questions_without_an_answer_are_kept_up_to_a_number, World) {
  for (int i = 0; i < 3; ++i) a[std::to_string(i) + ".l.example"] = {"127.255.255.254"};
  Lookup few(
      loop,
      [this](std::string name, RecordType type, async::Until until) { return answer(std::move(name), type, until); },
      [](const std::string&) {}, {.unanswered = 2});
  for (int i = 0; i < 3; ++i) async::testing::run(loop, few.ask("l.example", std::to_string(i) + ".l.example"));
  asked.clear();
  for (int i = 2; i >= 0; --i) async::testing::run(loop, few.ask("l.example", std::to_string(i) + ".l.example"));
  BOOST_TEST((asked == std::vector<std::string>{"A 0.l.example"}));
}

BOOST_FIXTURE_TEST_CASE(a_silent_list_has_few_questions_under_way_and_leaves_room_for_others, Small) {
  silent = true;
  std::vector<std::optional<Answer>> out(4);
  for (std::size_t i = 0; i < out.size(); ++i) ask_aside("l.example", std::to_string(i) + ".l.example", &out[i]);
  BOOST_TEST(asked.size() == 2U);
  lists.begin("l.example", "more.l.example");  // enough wait already
  turn();
  BOOST_TEST(lists.counts().under_way == 4U);
  silent = false;
  BOOST_TEST((ask("q.m.example", "m.example").state == State::not_listed));
  pass(seconds(11));
  for (const auto& one : out) BOOST_TEST((one && one->state == State::unknown));
  BOOST_TEST(lists.counts().under_way == 0U);
}

BOOST_FIXTURE_TEST_CASE(made_up_lists_are_forgotten, Small) {
  a["x.l.example"] = {"127.255.255.254"};
  ask("x.l.example");
  for (int i = 0; i < 3; ++i) ask("x" + std::to_string(i), "other" + std::to_string(i) + ".example");
  a["y.l.example"] = {"127.255.255.254"};
  ask("y.l.example");
  BOOST_TEST(told.size() == 2U);  // that it was reported is forgotten too
}

BOOST_FIXTURE_TEST_CASE(the_reason_is_all_texts_up_to_a_limit, World) {
  txt["x.l.example"] = {"see https://l.example/?x", "second"};
  txt["long.l.example"] = {std::string(300, 'a'), std::string(300, 'b'), "c"};
  BOOST_TEST(async::testing::run(loop, lists.reason("l.example", "x.l.example")) ==
             "see https://l.example/?x / second");
  BOOST_TEST(async::testing::run(loop, lists.reason("l.example", "none.l.example")) == "");
  const std::string text = async::testing::run(loop, lists.reason("l.example", "long.l.example"));
  BOOST_TEST(text == std::string(300, 'a') + " / " + std::string(197, 'b'));
}

BOOST_FIXTURE_TEST_CASE(a_list_without_texts_in_time_is_not_asked_for_them_again_at_once, World) {
  silent = true;
  std::optional<std::string> text;
  gate.spawn("reason", async::testing::store_result(lists.reason("l.example", "x.l.example"), &text));
  turn();
  pass(seconds(11));
  BOOST_TEST_REQUIRE(text.has_value());
  BOOST_TEST(async::testing::run(loop, lists.reason("l.example", "x.l.example")) == "");
  BOOST_TEST(asked.size() == 1U);
}

BOOST_AUTO_TEST_CASE(answers_are_kept_for_their_ttl_by_the_resolver) {
  pen::testing::DnsServer server;
  server.a("2.0.0.127.l.example", "127.0.0.2", 300);
  async::Loop loop;
  async::HandlerPool pool(loop, 1);
  net::ResolverOptions options;
  options.servers = {async::SocketAddress::inet("127.0.0.1", server.port())};
  net::Resolver resolver(loop, pool, options);
  Lookup lists(
      loop,
      [&](std::string name, RecordType type, async::Until until) {
        return resolver.lookup(std::move(name), type, until);
      },
      [](const std::string&) {});
  for (int i = 0; i < 3; ++i) {
    const auto yes = async::testing::run(loop, lists.ask("l.example", *about_address("127.0.0.2", "l.example")));
    BOOST_TEST((yes.state == State::listed));
    const auto no = async::testing::run(loop, lists.ask("l.example", *about_address("127.0.0.3", "l.example")));
    BOOST_TEST((no.state == State::not_listed));
  }
  BOOST_TEST(server.asked("2.0.0.127.l.example") == 1U);
  BOOST_TEST(server.asked("3.0.0.127.l.example") == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
