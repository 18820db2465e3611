#include "lib/base/idn/domain.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"

using namespace pen;
using namespace pen::idn;

BOOST_AUTO_TEST_SUITE(two_forms)

BOOST_AUTO_TEST_CASE(both_forms_of_a_domain_are_one) {
  struct Row {
    std::string_view a, b;
    bool same;
  };
  for (const Row& row : {
           Row{"bücher.example", "xn--bcher-kva.example", true},
           Row{"BÜCHER.example", "XN--BCHER-KVA.Example", true},
           Row{"GRÜN.example", "grün.example", true},
           Row{"mail.bücher.example", "mail.xn--bcher-kva.example", true},
           Row{"xn--bcher-kva.bücher.example", "bücher.xn--bcher-kva.example", true},
           Row{"b\u0075\u0308cher.example", "bücher.example", true},  // not composed, and composed
           Row{"A.example", "a.example", true},
           Row{"a.example", "b.example", false},
           Row{"bücher.example", "xn--bcher-kva.other", false},
           Row{"xn--example-.org", "example.org", false},
           Row{"xn--.example", "example", false},
           Row{"xn--\xff", "xn--\xff", true},
           Row{"[192.0.2.1]", "[192.0.2.1]", true},
           Row{"", "", true},
       })
    BOOST_TEST(same_domain(row.a, row.b) == row.same, row.a << " " << row.b);
}
BOOST_AUTO_TEST_CASE(a_domain_has_others_below_it) {
  BOOST_TEST(within_domain("bücher.example", "xn--bcher-kva.example"));
  BOOST_TEST(within_domain("a.b.BÜCHER.example", "xn--bcher-kva.example"));
  BOOST_TEST(within_domain("a.example", "A.example"));
  BOOST_TEST(!within_domain("example", "a.example"));
  BOOST_TEST(!within_domain("aa.example", "a.example"));
  BOOST_TEST(!within_domain("", "a"));
}
BOOST_AUTO_TEST_CASE(domains_are_converted) {
  BOOST_TEST(*ascii_domain("BÜCHER.Example") == "xn--bcher-kva.example");
  BOOST_TEST(*unicode_domain("XN--BCHER-KVA.example") == "bücher.example");
  BOOST_TEST(*ascii_domain("faß.example") == "xn--fa-hia.example");
  BOOST_TEST(!ascii_domain(std::string(2000, 'a')));
  BOOST_TEST(!ascii_domain("b\xff.example"));
  BOOST_TEST(!unicode_domain("xn--example-.org"));
}
BOOST_AUTO_TEST_CASE(addresses_are_compared_by_both_their_parts) {
  BOOST_TEST(same_address("JÖRG@bücher.example", "jörg@xn--bcher-kva.example"));
  BOOST_TEST(same_address("JÖRG", "jörg"));
  BOOST_TEST(!same_address("jörg@bücher.example", "jorg@bücher.example"));
  BOOST_TEST(!same_address("jörg@bücher.example", "jörg"));
}
BOOST_AUTO_TEST_CASE(an_address_has_one_key_in_all_its_forms) {
  for (const std::string_view form : {"JÖRG@bücher.example", "jörg@XN--BCHER-KVA.example", "jörg@BÜCHER.Example"})
    BOOST_TEST(address_key(form) == "jörg@xn--bcher-kva.example");
  BOOST_TEST(address_key("Jo@.Bücher.example") == "jo@.xn--bcher-kva.example");
  BOOST_TEST(address_key(".Bücher.example") == ".xn--bcher-kva.example");
  BOOST_TEST(address_key("*@Example.org") == "*@example.org");
  for (const std::string_view same : {"*", "", "@", "jo", "jo@", "jo@[192.0.2.1]", "a b@-x-.example"})
    BOOST_TEST(address_key(same) == same);
}
BOOST_AUTO_TEST_CASE(a_key_has_the_forms_of_its_domain) {
  struct Row {
    std::string_view key, others;
  };
  for (const Row& row : {
           Row{"jo@example.org", ""},
           Row{"", ""},
           Row{"bücher.example", "xn--bcher-kva.example"},
           Row{"jo@bücher.example", "jo@xn--bcher-kva.example"},
           Row{"jörg@example.org", ""},
           Row{"jörg@XN--BCHER-KVA.example", "jörg@bücher.example"},
           Row{".bücher.example", ".xn--bcher-kva.example"},
           Row{"[bücher.example]:587", "[xn--bcher-kva.example]:587"},
           Row{"bücher.example:25", "xn--bcher-kva.example:25"},
           Row{"@bücher.example", "@xn--bcher-kva.example"},
           Row{"bücher@", ""},
           Row{"bücher.xn--bcher-kva.example", "xn--bcher-kva.xn--bcher-kva.example bücher.bücher.example"},
           Row{"x@xn--example-.org", ""},
           Row{"Subject: größer", ""},
           Row{"Schöne Grüße", ""},
       })
    BOOST_TEST(join(other_forms(row.key)) == row.others, row.key);
}

BOOST_AUTO_TEST_SUITE_END()
