#include "lib/dmarc/author.h"

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
      {{" a@x.example", " nobody"}, "", "an address in From: without a domain"},
      {{" a@localhost"}, "", "an address in From: without a domain"},
      {{" a@[192.0.2.1]"}, "", "an address in From: without a domain"},
      {{" a@1.example, a@2.example, a@3.example, a@4.example, a@5.example, a@6.example"},
       "",
       "too many addresses in From:"},
  };
  for (const auto& row : rows) {
    const auto authors = authors_of(row.from);
    const std::string shown = row.from.empty() ? "none" : std::string(row.from.front());
    BOOST_TEST(join(authors.domains) == row.domains, shown << ": " << join(authors.domains));
    BOOST_TEST(authors.problem == row.problem, shown << ": " << authors.problem);
  }
}

BOOST_AUTO_TEST_SUITE_END()
