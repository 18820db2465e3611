#include "lib/net/dnsbl/list.h"

#include <boost/test/unit_test.hpp>

#include "lib/net/dnsbl/question.h"

using namespace pen;
using namespace pen::dnsbl;

namespace {

Answer listed(std::vector<Ipv4> addresses) {
  return {.state = Answer::State::listed, .addresses = std::move(addresses), .ttl = seconds(60)};
}
Answer unlisted() { return {.state = Answer::State::not_listed, .addresses = {}, .ttl = seconds(60)}; }
bool filter_takes(std::string_view text, Ipv4 address) {
  const auto filter = Filter::parse(text);
  BOOST_REQUIRE_MESSAGE(filter.has_value(), text);
  return filter->matches(address);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dns_lists)

BOOST_AUTO_TEST_CASE(a_filter_takes_numbers_and_ranges_in_any_field) {
  BOOST_TEST(filter_takes("127.0.0.2", {127, 0, 0, 2}));
  BOOST_TEST(!filter_takes("127.0.0.2", {127, 0, 0, 3}));
  for (const unsigned last : {2U, 9U, 11U}) {
    BOOST_TEST(filter_takes("127.0.0.[2..11]", {127, 0, 0, static_cast<std::uint8_t>(last)}));
    BOOST_TEST(filter_takes("127.0.0.[2;4..9;11]", {127, 0, 0, static_cast<std::uint8_t>(last)}));
  }
  for (const unsigned last : {1U, 3U, 10U, 12U})
    BOOST_TEST(!filter_takes("127.0.0.[2;4..9;11]", {127, 0, 0, static_cast<std::uint8_t>(last)}));
  BOOST_TEST(filter_takes("127.[0..255].[1;3].[7]", {127, 200, 3, 7}));
  BOOST_TEST(!filter_takes("127.[0..255].[1;3].[7]", {127, 200, 2, 7}));
  BOOST_TEST(filter_takes("127.0.0.[5..5]", {127, 0, 0, 5}));
}

BOOST_AUTO_TEST_CASE(a_filter_that_is_not_one_is_refused) {
  for (const char* bad : {"",
                          "127",
                          "127.0.0",
                          "127.0.0.2.",
                          "127.0.0.2.3",
                          "127.0.0.256",
                          "127.0.0.-1",
                          "127.0.0.[2",
                          "127.0.0.2]",
                          "127.0.0.[]",
                          "127.0.0.[2;]",
                          "127.0.0.[;2]",
                          "127.0.0.[2..]",
                          "127.0.0.[..2]",
                          "127.0.0.[9..2]",
                          "127.0.0.[2.4]",
                          "127.0.[0.2]",
                          "127.0.0.3[6..9]",
                          "127.0.0.2..4",
                          "127.0.0.[2,4]",
                          " 127.0.0.2",
                          "127.0.0.x"})
    BOOST_TEST(!Filter::parse(bad).has_value(), bad);
  BOOST_TEST(parse_list("zen.example=127.0.0.[9..2]").error().message().starts_with("127.0.0.[9..2]: bad filter"));
}

BOOST_AUTO_TEST_CASE(a_list_is_a_domain_with_or_without_a_filter) {
  const auto plain = parse_list("Key1.zen.example");
  BOOST_TEST_REQUIRE(plain.has_value());
  BOOST_TEST(plain->domain == "Key1.zen.example");
  BOOST_TEST(!plain->filter.has_value());
  const auto some = parse_list("zen.example=127.0.0.[2..11]");
  BOOST_TEST_REQUIRE(some.has_value());
  BOOST_TEST(some->domain == "zen.example");
  BOOST_TEST(some->text == "zen.example=127.0.0.[2..11]");
  for (const char* bad : {"", "=127.0.0.2", "a..b", "zen.example=", "with blank.example", "zen.example="})
    BOOST_TEST(!parse_list(bad).has_value(), bad);
}

BOOST_AUTO_TEST_CASE(a_weight_is_a_whole_number_of_either_sign) {
  BOOST_TEST(parse_site("a.example")->weight == 1);
  BOOST_TEST(parse_site("a.example*3")->weight == 3);
  BOOST_TEST(parse_site("a.example=127.0.0.[2;3]*-4")->weight == -4);
  BOOST_TEST(parse_site("a.example=127.0.0.2*+2")->list.domain == "a.example");
  for (const char* bad : {"a.example*", "a.example*x", "a.example*--1", "a.example*1.5", "a.example*99999999999"})
    BOOST_TEST(!parse_site(bad).has_value(), bad);
}

BOOST_AUTO_TEST_CASE(listed_is_what_the_filter_takes_or_any_address_of_the_loopback_network) {
  const auto plain = *parse_list("a.example"), some = *parse_list("a.example=127.0.0.[2..3]"),
             own = *parse_list("a.example=10.0.0.1");
  BOOST_TEST(hits(plain, listed({{127, 0, 0, 2}})));
  BOOST_TEST(hits(some, listed({{127, 0, 0, 9}, {127, 0, 0, 3}})));
  BOOST_TEST(!hits(some, listed({{127, 0, 0, 9}})));
  BOOST_TEST(!hits(plain, unlisted()));
  BOOST_TEST(!hits(plain, Answer{}));
  // a domain that was sold: every name has the address of a web server
  BOOST_TEST(!hits(plain, listed({{192, 0, 2, 80}})));
  BOOST_TEST(hits(own, listed({{10, 0, 0, 1}})));
}

BOOST_AUTO_TEST_CASE(answers_that_refuse_a_question_are_known) {
  BOOST_TEST(means_refused({127, 255, 255, 252}));
  BOOST_TEST(means_refused({127, 255, 255, 255}));
  BOOST_TEST(!means_refused({127, 255, 254, 1}));
  BOOST_TEST(!means_refused({127, 0, 0, 255}));
  BOOST_TEST(means_refused_by_allow_list({127, 0, 0, 255}));
  BOOST_TEST(!means_refused_by_allow_list({127, 0, 0, 3}));
}

BOOST_AUTO_TEST_CASE(questions_are_reversed_addresses_and_names_as_they_are) {
  BOOST_TEST(about_address("192.0.2.7", "zen.example").value() == "7.2.0.192.zen.example");
  BOOST_TEST(about_address("2001:db8::12", "Zen.Example").value() ==
             "2.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.zen.example");
  BOOST_TEST(!about_address("unknown", "zen.example").has_value());
  BOOST_TEST(about_name("Mail.Example", "dbl.example").value() == "mail.example.dbl.example");
  BOOST_TEST(about_name("b\xc3\xbc\x63her.example", "dbl.example").value() == "xn--bcher-kva.example.dbl.example");
  for (const std::string bad :
       {"", "[192.0.2.1]", "192.0.2.1", "a.1", "7", "a..b", "with blank.example", "a.example:25"})
    BOOST_TEST(!about_name(bad, "dbl.example").has_value(), bad);
  BOOST_TEST(!about_name(std::string(60, 'a') + "." + std::string(60, 'b') + "." + std::string(60, 'c') + "." +
                             std::string(60, 'd'),
                         "a-long-list.example")
                  .has_value());
}

BOOST_AUTO_TEST_SUITE_END()
