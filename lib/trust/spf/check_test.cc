#include "lib/trust/spf/check.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/async/sync.h"
#include "lib/base/async/testing/run.h"
#include "lib/net/testing/zone.h"
#include "lib/testing/manual_clock.h"

using namespace pen;
using namespace pen::spf;

namespace {

struct World {
  async::Loop loop;
  net::testing::Zone zone;
  Outcome check(const std::string& client, const std::string& sender = "a@x.example") {
    const Records records = zone.records();
    return async::testing::run(
        loop, spf::check(records, {.client = *parse_ip(client), .sender = sender, .helo = "h.example"}, {}));
  }
  std::string word(const std::string& client) { return std::string(verdict_word(check(client).verdict)); }
};

async::Task<net::DnsAnswer> hang(async::Event* never, async::Until until) {
  (void)co_await never->wait(until);
  co_return net::DnsAnswer{};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(spf_check)

BOOST_AUTO_TEST_CASE(hosts_without_an_address_of_the_clients_kind_do_not_count_as_void) {
  World w;
  w.zone.add("x.example", "TXT", "v=spf1 mx ip6:2001:db8::1 -all");
  for (const auto* host : {"m1.x.example", "m2.x.example", "m3.x.example", "m4.x.example"}) {
    w.zone.add("x.example", "MX", std::string("10 ") + host);
    w.zone.add(host, "A", "192.0.2.1");
  }
  BOOST_TEST(w.word("2001:db8::1") == "pass");
  BOOST_TEST(w.word("192.0.2.1") == "pass");
  BOOST_TEST(w.word("192.0.2.2") == "fail");
}

BOOST_AUTO_TEST_CASE(no_record_makes_more_questions_than_the_limits_allow) {
  World w;
  // Each of ten names has ten MX hosts, and there is another ten.
  std::string record = "v=spf1";
  for (int i = 0; i < 20; ++i) {
    const std::string name = "n" + std::to_string(i) + ".example";
    record += " mx:" + name;
    for (int j = 0; j < 10; ++j) w.zone.add(name, "MX", "10 m" + std::to_string(j) + "." + name);
  }
  w.zone.add("x.example", "TXT", record + " +all");
  const auto outcome = w.check("192.0.2.1");
  BOOST_TEST(verdict_word(outcome.verdict) == "permerror");
  BOOST_TEST(outcome.reason == "more than 30 MX hosts in all");
  BOOST_TEST(w.zone.asked.size() <= 1 + kMostTerms + kMostHosts);
}

BOOST_AUTO_TEST_CASE(checks_that_share_an_allowance_ask_no_more_together) {
  World w;
  std::string mail = "v=spf1", helo = "v=spf1 ptr exists:%{p}.x.example";
  for (int i = 0; i < 3; ++i) {
    const std::string name = "n" + std::to_string(i) + ".example";
    (i == 2 ? helo : mail) += " mx:" + name;
    for (int j = 0; j < 10; ++j) w.zone.add(name, "MX", "10 m" + std::to_string(j) + "." + name);
  }
  for (int i = 0; i < 10; ++i) w.zone.add("1.2.0.192.in-addr.arpa", "PTR", "p" + std::to_string(i) + ".example");
  w.zone.add("x.example", "TXT", mail + " -all");
  w.zone.add("h.example", "TXT", helo + " -all");
  const Records records = w.zone.records();
  const auto check_with = [&](const char* domain, Allowance* allowance) {
    return async::testing::run(w.loop, check(records,
                                             {.client = *parse_ip("192.0.2.1"),
                                              .sender = std::string("a@") + domain,
                                              .helo = "h.example",
                                              .allowance = allowance},
                                             {}));
  };
  BOOST_TEST(verdict_word(check_with("x.example", nullptr).verdict) == "fail");
  BOOST_TEST(verdict_word(check_with("h.example", nullptr).verdict) == "fail");
  w.zone.asked.clear();
  Allowance allowance;
  BOOST_TEST(verdict_word(check_with("x.example", &allowance).verdict) == "fail");
  const auto second = check_with("h.example", &allowance);
  BOOST_TEST(verdict_word(second.verdict) == "permerror");
  BOOST_TEST(second.reason == "more questions to DNS than one message may ask");
  BOOST_TEST(w.zone.asked.size() == Allowance{}.questions);
  BOOST_TEST(verdict_word(check_with("x.example", &allowance).verdict) == "permerror");
  BOOST_TEST(w.zone.asked.size() == Allowance{}.questions);
}

BOOST_AUTO_TEST_CASE(a_record_that_redirects_to_itself_ends) {
  World w;
  w.zone.add("x.example", "TXT", "v=spf1 redirect=x.example");
  const auto outcome = w.check("192.0.2.1");
  BOOST_CHECK(outcome.verdict == Verdict::permerror);
  BOOST_TEST(outcome.reason == "more than 10 terms that ask DNS");
}

BOOST_AUTO_TEST_CASE(mapped_clients_are_ipv4) {
  World w;
  w.zone.add("x.example", "TXT", "v=spf1 ip4:192.0.2.0/24 -all");
  BOOST_TEST(w.word("::ffff:192.0.2.9") == "pass");
}

BOOST_AUTO_TEST_CASE(an_explanation_that_is_long_or_no_ascii_is_left_out) {
  World w;
  w.zone.add("x.example", "TXT", "v=spf1 -all exp=e.x.example");
  w.zone.add("e.x.example", "TXT", "see http://x.example/%{i}");
  BOOST_TEST(w.check("192.0.2.1").explanation == "see http://x.example/192.0.2.1");
  for (const std::string& text :
       {std::string(kMaxExplanation + 1, 'x'), std::string("b\xc3\xb6se"), std::string("a\nb")}) {
    World other;
    other.zone.add("x.example", "TXT", "v=spf1 -all exp=e.x.example");
    other.zone.add("e.x.example", "TXT", text);
    const auto outcome = other.check("192.0.2.1");
    BOOST_CHECK(outcome.verdict == Verdict::fail);
    BOOST_TEST(outcome.explanation == "");
  }
  // The sender's own text must not get into it either.
  World sender;
  sender.zone.add("x.example", "TXT", "v=spf1 -all exp=e.x.example");
  sender.zone.add("e.x.example", "TXT", "%{l}");
  BOOST_TEST(sender.check("192.0.2.1", "\xc3\xb6\x01@x.example").explanation == "");
}

BOOST_AUTO_TEST_CASE(the_time_is_bounded_for_all_questions_together) {
  pen::testing::ManualClock clock;
  async::Loop loop(clock);
  async::Event never(loop);
  std::size_t asked = 0;
  const Records silent = [&](std::string, net::RecordType, async::Until until) {
    ++asked;
    return hang(&never, until);
  };
  std::optional<Outcome> out;
  loop.spawn("check", async::testing::store_result(
                          check(silent, {.client = *parse_ip("192.0.2.1"), .sender = "a@x.example", .helo = "h"},
                                {.deadline = loop.now() + seconds(20)}),
                          &out));
  for (int i = 0; i < 10; ++i) loop.run_once();
  BOOST_TEST(!out.has_value());
  clock.advance(seconds(21));
  for (int i = 0; i < 10; ++i) loop.run_once();
  BOOST_TEST_REQUIRE(out.has_value());
  BOOST_CHECK(out->verdict == Verdict::temperror);
  BOOST_TEST(asked == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
