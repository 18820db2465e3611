#include "lib/trust/dmarc/suffixes.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::dmarc;

BOOST_AUTO_TEST_SUITE(dmarc_suffixes)

BOOST_AUTO_TEST_CASE(a_domain_belongs_to_the_name_below_its_public_suffix) {
  const auto list = Suffixes::parse(
      "// a comment\n\ncom\njp\n*.kawasaki.jp\n!city.kawasaki.jp\nco.uk  what follows is a comment\nuk\n"
      "\xe5\x85\xac\xe5\x8f\xb8.cn\ncn\n");
  BOOST_TEST_REQUIRE(list.has_value());
  struct Row {
    const char *domain, *organisation;
  };
  // Most of these are of publicsuffix.org's own tests.
  const Row rows[] = {{"example.com", "example.com"},
                      {"a.b.example.com", "example.com"},
                      {"com", "com"},
                      {"example.co.uk", "example.co.uk"},
                      {"a.example.co.uk", "example.co.uk"},
                      {"co.uk", "co.uk"},
                      {"a.b.c.kawasaki.jp", "b.c.kawasaki.jp"},
                      {"c.kawasaki.jp", "c.kawasaki.jp"},
                      {"city.kawasaki.jp", "city.kawasaki.jp"},
                      {"www.city.kawasaki.jp", "city.kawasaki.jp"},
                      {"a.b.unlisted", "b.unlisted"},
                      {"unlisted", "unlisted"},
                      {"www.food.xn--55qx5d.cn", "food.xn--55qx5d.cn"}};
  for (const auto& row : rows) BOOST_TEST((*list)->organisation(row.domain) == row.organisation, row.domain);
}

BOOST_AUTO_TEST_CASE(a_list_that_is_none_is_an_error) {
  BOOST_TEST(!Suffixes::parse("// nothing\n").has_value());
  const pen::testing::ScratchDir scratch;
  BOOST_TEST(!Suffixes::read(scratch.file("missing")).has_value());
  scratch.write("empty", "");
  BOOST_TEST(!Suffixes::read(scratch.file("empty")).has_value());
  scratch.write("list", "com\n");
  BOOST_TEST(Suffixes::read(scratch.file("list")).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
