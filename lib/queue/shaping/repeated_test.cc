#include "lib/queue/shaping/repeated.h"

#include <boost/test/unit_test.hpp>

#include "lib/queue/shaping/rules.h"
#include "lib/queue/shaping/rules_file.h"

namespace pen::shaping {
namespace {
std::string without(std::string words, std::initializer_list<std::string_view> addresses = {}) {
  drop_repeated(words, std::span(addresses.begin(), addresses.size()));
  return words;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(shaping_repeated)

BOOST_AUTO_TEST_CASE(addresses_are_not_the_receivers_words) {
  BOOST_TEST(without("no account (\"[tss09]\"@y.example) here") == "no account  here");
  BOOST_TEST(without("no account \"too many connections\"@y.example here") == "no account  here");
  BOOST_TEST(without("<throttling@a.example>: greylisted") == "<>: greylisted");
  BOOST_TEST(without("to=throttling@a.example, wait") == " wait");
  BOOST_TEST(without("@ \"@ x@") == "  ");
  BOOST_TEST(without("a < b and <c") == "a < b and <c");
}

BOOST_AUTO_TEST_CASE(parts_of_the_mails_addresses_are_not_either) {
  const std::string_view quoted = "\"Too  many\\ connections\"@Throttling.example";
  BOOST_TEST(without("user too many connections unknown at throttling.example", {quoted}) == "user  unknown at ");
  BOOST_TEST(without("user \"too  many\\ connections\" unknown", {quoted}) == "user  unknown");
  BOOST_TEST(without("throttling.examples", {quoted}) == "throttling.examples");
  BOOST_TEST(without("mailbox [tss09] full", {"[tss09]@y.example"}) == "mailbox  full");
  BOOST_TEST(without("mail rate limited", {"rate@y.example"}) == "mail  limited");
  BOOST_TEST(without("rates limited", {"rate@y.example"}) == "rates limited");
  BOOST_TEST(without("at a rate", {"a@y.example", ""}) == "at a rate");
}

BOOST_AUTO_TEST_CASE(no_address_fits_a_rule_of_ours) {
  const auto rules = read_rules_files({"conf/shaping.rules"});
  BOOST_REQUIRE(rules.has_value());
  const Provider* const yahoo = rules->provider_of("mta5.am0.yahoodns.net", {});
  BOOST_REQUIRE(yahoo != nullptr);
  const auto rule = [&](std::string_view text, std::initializer_list<std::string_view> addresses) {
    const Rule* const r = rules->classify(yahoo, own_words(text, std::span(addresses.begin(), addresses.size())));
    return r == nullptr ? std::string("-") : r->name;
  };
  for (const char* word : {"[tss09]", "[ts03]", "throttling", "rate limited", "message rate limit", "[bl21]",
                           "temporarily deferred", "too many connections"}) {
    const std::string plain = std::string(word) + "@y.example", quoted = '"' + std::string(word) + "\"@y.example";
    for (const char* code : {"421 4.7.0 ", "450 4.2.0 ", "553 5.7.2 ", "554 delivery error: dd "}) {
      for (const std::string& address : {plain, quoted}) {
        BOOST_TEST_CONTEXT(code << address) {
          BOOST_TEST(rule(code + ("this user has no account (" + address + ") here"), {address}) == "-");
          BOOST_TEST(rule(code + ('<' + address + ">: unknown"), {}) == "-");
          BOOST_TEST(rule(code + ("user " + std::string(word) + " is unknown"), {"", address}) == "-");
        }
      }
    }
  }
  BOOST_TEST(rule("553 5.7.2 [TSS09] All messages from 192.0.2.1 will be permanently deferred", {"a@b.example"}) ==
             "yahoo-blocked");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::shaping
