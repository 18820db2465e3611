#include "lib/trust/dmarc/author.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"

using namespace pen;
using namespace pen::dmarc;

BOOST_AUTO_TEST_SUITE(dmarc_author)

BOOST_AUTO_TEST_CASE(all_addresses_of_all_fields_count) {
  struct Row {
    std::vector<std::string_view> from;
    std::string domains, problem;
  };
  const std::string long_label = " a@" + std::string(64, 'y') + ".x.example";
  std::string many;
  for (int i = 0; i < 101; ++i) many += " a@x.example,";
  const Row rows[] = {
      {{" Anna <a@X.Example>"}, "x.example", ""},
      {{" a@x.example, \"b@y.example\" <b@z.example>"}, "x.example z.example", ""},
      {{" a@x.example", " b@x.example"}, "x.example", ""},
      {{" a@x.example", " b@y.example"}, "x.example y.example", ""},
      {{" a@b\xc3\xbc"
        "cher.example"},
       "xn--bcher-kva.example",
       ""},
      {{" a@x.example,\r\n\tb@y.example"}, "x.example y.example", ""},
      {{}, "", "no From:"},
      {{" "}, "", "a From: without an address"},
      {{" a@x.example."}, "x.example", ""},
      {{" <a@x.example.>"}, "x.example", ""},
      {{" g: a@x.example;, h:;"}, "x.example", ""},
      {{" a@x.example, b@x.example, c@x.example, d@x.example, e@x.example, f@x.example"}, "x.example", ""},
      // What cannot be read hides nobody else, and a domain in it counts.
      {{" a@x.example", " nobody"}, "x.example", "an address in From: without a domain"},
      {{" nobody, a@x.example"}, "x.example", "an address in From: without a domain"},
      {{" a@x.example", ""}, "x.example", "a From: without an address"},
      {{"", " a@x.example"}, "x.example", "a From: without an address"},
      {{" a@x.example, <b@localhost>"}, "x.example", "an address in From: without a domain"},
      {{" a@x.example, <b@[192.0.2.1]>"}, "x.example", "an address in From: without a domain"},
      {{std::string_view(" a@x.example\0", 13)}, "x.example", "a control character in From:"},
      {{std::string_view(" a@x\0.example, b@y.example", 26)}, "x.example y.example", "a control character in From:"},
      {{long_label}, "x.example", "an address in From: without a domain"},
      {{" a@-y-.x.example"}, "x.example", "an address in From: without a domain"},
      {{" a@y..x.example, b@z.example"}, "z.example x.example", "text in From: that is no address"},
      {{" a@x.example b@y.example"}, "x.example y.example", "text in From: that is no address"},
      {{" <a@x.example> <b@y.example>"}, "y.example x.example", "text in From: that is no address"},
      {{" <a@x.example> b@y.example"}, "x.example y.example", "text in From: that is no address"},
      {{" \"A <a@x.example>, b@y.example"}, "x.example y.example", "text in From: that is no address"},
      {{" a@x.example (b@y.example"}, "x.example y.example", "text in From: that is no address"},
      {{" A (b@y.example) <a@x.example> B"}, "x.example", ""},
      {{" a@y.example <a@x.example>"}, "x.example", ""},
      {{" a@localhost"}, "", "an address in From: without a domain"},
      {{" a@[192.0.2.1]"}, "", "an address in From: without a domain"},
      {{" a@1.example, a@2.example, a@3.example, a@4.example, a@5.example, a@6.example"},
       "1.example 2.example 3.example 4.example 5.example",
       "too many addresses in From:"},
      {{many}, "x.example", "too many addresses in From:"},
  };
  for (const auto& row : rows) {
    const auto authors = authors_of(row.from);
    const std::string shown = row.from.empty() ? "none" : std::string(row.from.front());
    BOOST_TEST(join(authors.domains) == row.domains, shown << ": " << join(authors.domains));
    BOOST_TEST(authors.problem == row.problem, shown << ": " << authors.problem);
    BOOST_TEST(authors.more == authors.problem.starts_with("too many"), shown);
  }
}

BOOST_AUTO_TEST_CASE(the_longest_names_cost_little) {
  const std::string deep = " a@" + std::string(500000, '.') + "x.example";
  const auto authors = authors_of({deep});
  BOOST_TEST(join(authors.domains) == "x.example");
  BOOST_TEST(!authors.problem.empty());
}

BOOST_AUTO_TEST_SUITE_END()
