#include "lib/trust/spf/record.h"

#include <boost/test/unit_test.hpp>

#include "lib/trust/spf/macro.h"

using namespace pen;
using namespace pen::spf;

BOOST_AUTO_TEST_SUITE(spf_record)

BOOST_AUTO_TEST_CASE(a_record_is_taken_apart) {
  const auto r =
      Record::parse("v=spf1 a:%{d}.x.example/24//64 -ip6:2001:db8::/32 ?mx//120 ~all exp=e.example unknown=%{i}");
  BOOST_TEST_REQUIRE(r.has_value());
  BOOST_TEST_REQUIRE(r->directives.size() == 4u);
  BOOST_TEST(r->directives[0].target == "%{d}.x.example");
  BOOST_TEST(r->directives[0].bits4 == 24u);
  BOOST_TEST(r->directives[0].bits6 == 64u);
  BOOST_CHECK(r->directives[1].qualifier == Qualifier::fail);
  BOOST_TEST(r->directives[1].bits6 == 32u);
  BOOST_TEST(r->directives[2].bits6 == 120u);
  BOOST_TEST(r->directives[2].bits4 == 32u);
  BOOST_CHECK(r->directives[3].mechanism == Mechanism::all);
  BOOST_CHECK(r->directives[3].qualifier == Qualifier::softfail);
  BOOST_TEST(r->explanation == "e.example");
}

BOOST_AUTO_TEST_CASE(a_mistake_anywhere_makes_the_record_malformed) {
  for (const auto* text : {"v=spf1 all:x.example",
                           "v=spf1 a:",
                           "v=spf1 a:.",
                           "v=spf1 a/33",
                           "v=spf1 a/01",
                           "v=spf1 a//129",
                           "v=spf1 ip4:192.0.2.1/",
                           "v=spf1 ip4:192.0.2.300",
                           "v=spf1 ip4:::1",
                           "v=spf1 ip6:192.0.2.1",
                           "v=spf1 include",
                           "v=spf1 include:x.example/24",
                           "v=spf1 exists:%{z}.example",
                           "v=spf1 exists:%{d0}.example",
                           "v=spf1 redirect=a.example redirect=b.example",
                           "v=spf1 redirect=",
                           "v=spf1 redirect:a.example",
                           "v=spf1 -all ipv4:192.0.2.1",
                           "v=spf1 a:x.123",
                           "v=spf1 a:%{t}.example",
                           "v=spf1 x=%",
                           "v=spf1 \x80"
                           "a"})
    BOOST_TEST(!Record::parse(text).has_value(), text);
  BOOST_TEST(!Record::parse("v=spf1 " + std::string(Record::kMaxSize, 'a')).has_value());
  BOOST_TEST(!Record::parse("v=spf1 a:" + std::string(Record::kMaxTarget, 'a') + ".example").has_value());
}

BOOST_AUTO_TEST_CASE(macros_take_parts_reverse_them_and_escape_them) {
  MacroValues v;
  v.sender = "strong-bad@email.example.com";
  v.domain = "email.example.com";
  v.client = *parse_ip("192.0.2.3");
  const auto is = [&](std::string_view text, std::string_view expected) {
    BOOST_TEST(is_macro_string(text, true), text);
    BOOST_TEST(expand(text, v) == expected);
  };
  // RFC 7208 section 7.4.
  is("%{s}", "strong-bad@email.example.com");
  is("%{d2}", "example.com");
  is("%{dr}", "com.example.email");
  is("%{d2r}", "example.email");
  is("%{lr-}", "bad.strong");
  is("%{ir}.%{v}._spf.%{d2}", "3.2.0.192.in-addr._spf.example.com");
  is("%{lr-}.lp.%{ir}.%{v}._spf.%{d2}", "bad.strong.lp.3.2.0.192.in-addr._spf.example.com");
  is("%%%_%-%{S}", "% %20strong-bad%40email.example.com");
  v.client = *parse_ip("2001:db8::cb01");
  is("%{ir}.%{v}._spf.%{d2}", "1.0.b.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6._spf.example.com");
  is("%{c}", "2001:db8::cb01");
}

BOOST_AUTO_TEST_CASE(of_a_name_that_is_too_long_the_last_labels_count) {
  MacroValues v;
  v.domain = "example.com";
  v.sender = std::string(300, 'x') + ".a." + std::string(200, 'y') + "@example.com";
  const std::string name = expand_domain("%{l}.%{d}", v);
  BOOST_TEST(name == "a." + std::string(200, 'y') + ".example.com");
  v.domain = std::string(300, 'x');
  BOOST_TEST(expand_domain("%{d}", v) == "");
}

BOOST_AUTO_TEST_SUITE_END()
