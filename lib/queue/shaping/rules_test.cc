#include "lib/queue/shaping/rules.h"

#include <boost/test/unit_test.hpp>

#include "lib/queue/shaping/rules_file.h"

namespace pen::shaping {
namespace {
Rules read(std::string_view text) {
  Rules rules;
  const auto done = read_rules(text, "f", rules);
  BOOST_REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
  return rules;
}
std::string wrong(std::string_view text) {
  Rules rules;
  const auto done = read_rules(text, "f", rules);
  return done ? "nothing" : done.error().context();
}
std::string of(const Rules& rules, const char* host, const char* reply) {
  const Rule* r = rules.classify(rules.provider_of(host, {}), reply_of(reply));
  return r == nullptr ? "-" : r->name;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(shaping_rules)

BOOST_AUTO_TEST_CASE(a_provider_is_that_of_all_hosts_of_a_route) {
  const Rules rules = read("provider big .big.example mx.other.example\nprovider inner .in.big.example\n");
  const auto name = [&](const std::vector<std::string>& names) {
    std::vector<Host> hosts;
    for (const std::string& each : names) hosts.push_back({each, "192.0.2.1"});
    const Provider* p = rules.provider_of(hosts);
    return p == nullptr ? "-" : p->name;
  };
  BOOST_TEST(name({"mx1.big.example", "MX2.Big.Example."}) == "big");
  BOOST_TEST(name({"mx1.big.example", "mx.other.example"}) == "big");
  BOOST_TEST(name({"mx1.big.example", "mx.evil.example"}) == "-");
  BOOST_TEST(name({"mx.in.big.example"}) == "inner");
  BOOST_TEST(name({"mx.in.big.example", "mx1.big.example"}) == "-");
  BOOST_TEST(name({"big.example"}) == "-");
  BOOST_TEST(name({"notbig.example"}) == "-");
  BOOST_TEST(name({"sub.mx.other.example"}) == "-");
  BOOST_TEST(name({}) == "-");
}

BOOST_AUTO_TEST_CASE(a_provider_has_networks_too_and_names_come_before_them) {
  const Rules rules = read(
      "provider big .big.example 192.0.2.0/24 2001:db8::/32\nprovider inner 192.0.2.128/25 198.51.100.7\n"
      "provider named mx.named.example\n");
  const auto name = [&](const std::vector<Host>& hosts) {
    const Provider* p = rules.provider_of(hosts);
    return p == nullptr ? "-" : p->name;
  };
  BOOST_TEST(name({{"a.other.example", "192.0.2.7"}}) == "big");
  BOOST_TEST(name({{"a.other.example", "2001:db8:1::1"}}) == "big");
  BOOST_TEST(name({{"a.other.example", "192.0.2.200"}}) == "inner");
  BOOST_TEST(name({{"a.other.example", "198.51.100.7"}}) == "inner");
  BOOST_TEST(name({{"a.other.example", "198.51.100.8"}}) == "-");
  BOOST_TEST(name({{"a.other.example", ""}}) == "-");
  BOOST_TEST(name({{"mx.named.example", "192.0.2.7"}}) == "named");
  BOOST_TEST(name({{"mx.big.example", "203.0.113.1"}, {"a.other.example", "192.0.2.7"}}) == "big");
  BOOST_TEST(name({{"mx.big.example", "203.0.113.1"}, {"a.other.example", "192.0.2.200"}}) == "-");
  BOOST_TEST(name({{"192.0.2.7", "192.0.2.7"}}) == "big");
  BOOST_TEST(wrong("provider big 192.0.2.1/24\n") == "f:1: neither a host nor a .domain or network: 192.0.2.1/24");
}

BOOST_AUTO_TEST_CASE(a_provider_may_have_a_limit_of_all_its_hosts) {
  Rules rules = read(
      "provider big .big.example rate=20/s,300/m,5000/h connections=10\n"
      "provider small connections=1 .small.example\nprovider free .free.example\n");
  BOOST_TEST(rules.limits());
  BOOST_TEST(to_string(rules.provider("big")->limit.rates) == "20/s,300/m,5000/h");
  BOOST_TEST(rules.provider("big")->limit.connections == 10U);
  BOOST_TEST((rules.provider("big")->suffixes == std::vector<std::string>{".big.example"}));
  BOOST_TEST(rules.provider("small")->limit.connections == 1U);
  BOOST_TEST(!rules.provider("small")->limit.rates.limits());
  BOOST_TEST(!rules.provider("free")->limit.limits());
  // One of the same name in a later file replaces it, limits and all.
  BOOST_REQUIRE(read_rules("provider big .big.example\nprovider small .small.example\n", "g", rules));
  BOOST_TEST(!rules.limits());
  BOOST_TEST(wrong("provider a .a.example rate=fast\n").starts_with("f:1: rate=fast "));
  BOOST_TEST(wrong("provider a .a.example rate=1/s,100/m\n").contains("holds nothing back beside 1/s"));
  BOOST_TEST(wrong("provider a .a.example connections=0\n").contains("no number of connections"));
  BOOST_TEST(wrong("provider a .a.example rate=1/s rate=2/s\n").contains("is not rate=N/s"));
  BOOST_TEST(wrong("provider a .a.example speed=1\n").contains("speed=1 is not rate=N/s"));
  BOOST_TEST(wrong("provider a rate=1/s\n") == "f:1: a provider needs names of hosts, .domains of them, or networks");
}

BOOST_AUTO_TEST_CASE(a_reply_is_read_across_its_lines) {
  const Reply r = reply_of("421-4.7.28 An unusual rate\r\n 421-4.7.28  OF  mail from 421 4.7.28 your IP 4.7.28");
  BOOST_TEST(r.code == 421U);
  BOOST_TEST(r.dsn == "4.7.28");
  BOOST_TEST(r.words == "an unusual rate of mail from your ip 4.7.28");
  BOOST_TEST(reply_of("550 no such user").dsn == "");
  BOOST_TEST(reply_of("550-no").words == "no");
  BOOST_TEST(reply_of("").code == 0U);
  BOOST_TEST(reply_of("timed out").code == 0U);
}

BOOST_AUTO_TEST_CASE(code_enhanced_code_words_and_expression_all_have_to_fit) {
  const Rules rules = read(
      "provider big .big.example\n"
      "# a comment\n"
      "rule a provider=big code=421,45 dsn=4.7.5-9,5.1.1 text=\"Too  many\" text=messages regex=\"from [0-9.]+$\"\n"
      "   class=rate scope=source pause=5m  # another\n"
      "rule b code=4 text=busy class=none\n");
  BOOST_TEST(of(rules, "mx.big.example", "421 4.7.7 Too many messages from 192.0.2.1") == "a");
  BOOST_TEST(of(rules, "mx.big.example", "452 4.7.5 messages, too many, from 192.0.2.1") == "a");
  BOOST_TEST(of(rules, "mx.big.example", "441 4.7.7 Too many messages from 192.0.2.1") == "-");
  BOOST_TEST(of(rules, "mx.big.example", "421 4.7.10 Too many messages from 192.0.2.1") == "-");
  BOOST_TEST(of(rules, "mx.big.example", "421 Too many messages from 192.0.2.1") == "-");
  BOOST_TEST(of(rules, "mx.big.example", "421 4.7.7 Too many things from 192.0.2.1") == "-");
  BOOST_TEST(of(rules, "mx.big.example", "421 4.7.7 Too many messages from there") == "-");
  BOOST_TEST(of(rules, "mx.small.example", "421 4.7.7 Too many messages from 192.0.2.1") == "-");
  BOOST_TEST(of(rules, "mx.small.example", "450 Busy") == "b");
  BOOST_TEST(of(rules, "mx.small.example", "250 busy") == "-");
  BOOST_TEST(rules.rules().front().pause->count() == 300);
  BOOST_TEST(rules.rules().front().where == "f:3");
}

BOOST_AUTO_TEST_CASE(rules_of_a_later_file_are_asked_first_and_replace_those_of_the_same_name) {
  Rules rules = read("provider big .big.example\nrule a code=4 class=none\nrule b code=5 class=none\n");
  BOOST_REQUIRE(read_rules("provider big .huge.example\nrule b code=45 class=block scope=source\n", "g", rules));
  BOOST_TEST(rules.rules().size() == 2U);
  BOOST_TEST(of(rules, "x", "451 no") == "b");
  BOOST_TEST(of(rules, "x", "441 no") == "a");
  BOOST_TEST(of(rules, "x", "551 no") == "-");
  BOOST_TEST(rules.providers().size() == 1U);
  BOOST_TEST(rules.provider_of("mx.big.example", {}) == nullptr);
  BOOST_TEST(rules.provider_of("mx.huge.example", {}) != nullptr);
}

BOOST_AUTO_TEST_CASE(an_error_names_the_line) {
  BOOST_TEST(wrong("provider big .big.example\n\nrule\n") == "f:3: a rule needs a name of letters, digits, -, _ and .");
  BOOST_TEST(wrong("rule a code=4 class=rat scope=source") == "f:1: not a class: rat");
  BOOST_TEST(wrong("rule a code=4 class=rate scope=sorce") == "f:1: not a scope: sorce");
  BOOST_TEST(wrong("rule a code=4 class=rate") == "f:1: scope= is missing");
  BOOST_TEST(wrong("rule a code=4 scope=source") == "f:1: class= is missing");
  BOOST_TEST(wrong("rule a code=2 class=none") == "f:1: not the begin of a code 4xx or 5xx: 2");
  BOOST_TEST(wrong("rule a dsn=4.7 class=none") == "f:1: not an enhanced code, or a range of them: 4.7");
  BOOST_TEST(wrong("rule a dsn=4.7.9-5 class=none") == "f:1: not an enhanced code, or a range of them: 4.7.9-5");
  BOOST_TEST(wrong("rule a text=\"x class=none") == "f:1: a quoted value has no end");
  BOOST_TEST(wrong("rule a class=none") == "f:1: it would fit every reply: code, dsn, text or regex is missing");
  BOOST_TEST(wrong("rule a code=4 code=5 class=none") == "f:1: code= is given twice");
  BOOST_TEST(wrong("rule a code=4 class=rate scope=source pause=8d") == "f:1: not a time up to seven days: 8d");
  BOOST_TEST(wrong("rule a code=4 provider=big class=none") == "f:1: there is no provider big");
  BOOST_TEST(wrong("rule a code=4 class=recipient scope=source") == "f:1: class=recipient needs scope=recipient");
  BOOST_TEST(wrong("rule a code=4 class=none\nrule a code=5 class=none") == "f:2: a second rule of this name");
  BOOST_TEST(wrong("provider a b..c") == "f:1: neither a host nor a .domain or network: b..c");
  BOOST_TEST(wrong("provider a") == "f:1: a provider needs names of hosts, .domains of them, or networks");
  BOOST_TEST(wrong("#\nlimit a") == "f:2: neither provider nor rule: limit");
  BOOST_TEST(wrong("rule a regex=\"(\" class=none").starts_with("f:1: regex: "));
  BOOST_TEST(wrong(std::string(kMaxFile + 1, '\n')) == "f:1: the file is too big");
  BOOST_TEST(!read_rules_files({"/nonexistent/shaping.rules"}));
}

BOOST_AUTO_TEST_CASE(an_expression_that_takes_too_long_does_not_fit) {
  const Rules rules = read("rule a regex=\"(a+)+$\" class=none\n");
  BOOST_TEST(of(rules, "x", ("450 " + std::string(1000, 'a') + "b").c_str()) == "-");
  BOOST_TEST(of(rules, "x", "450 aaa") == "a");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::shaping
