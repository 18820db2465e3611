#include "lib/mail/verp.h"

#include <boost/test/unit_test.hpp>

using namespace pen::mail;

BOOST_AUTO_TEST_SUITE(verp)

BOOST_AUTO_TEST_CASE(the_sender_names_the_recipient) {
  BOOST_TEST(verp_sender("owner@lists.example", "+=", "jo@there.example") == "owner+jo=there.example@lists.example");
  BOOST_TEST(verp_sender("owner-x@lists.example", "-+", "jo=1@there.example") ==
             "owner-x-jo=1+there.example@lists.example");
  BOOST_TEST(verp_sender("owner", "+=", "jo@there.example") == "owner+jo=there.example");
  BOOST_TEST(verp_sender("owner@lists.example", "+=", "jo") == "owner+jo@lists.example");
  BOOST_TEST(verp_sender("", "+=", "jo@there.example") == "");
}

BOOST_AUTO_TEST_CASE(what_needs_quotes_has_them_once) {
  BOOST_TEST(verp_sender("\"o w\"@lists.example", "+=", "\"j o\"@there.example") ==
             "\"o w+j o=there.example\"@lists.example");
}

BOOST_AUTO_TEST_CASE(delimiters_are_two_of_those_that_are_allowed) {
  for (const char* good : {"+=", "-+", "=="}) BOOST_TEST(verp_delimiters(good, "-=+"), good);
  for (const char* bad : {"", "+", "+=+", "+x", "/="}) BOOST_TEST(!verp_delimiters(bad, "-=+"), bad);
}

BOOST_AUTO_TEST_CASE(an_address_says_what_it_was_made_of) {
  for (const char* recipient : {"jo@there.example", "jo+x=1@there.example", "\"j o\"@there.example"}) {
    const auto made = verp_address(verp_sender("owner-x@lists.example", "+=", recipient), "+=");
    BOOST_REQUIRE(made);
    BOOST_TEST(made->sender == "owner-x@lists.example");
    BOOST_TEST(made->recipient == recipient);
  }
  for (const char* other :
       {"jo@there.example", "jo+news@there.example", "+jo=x.example@lists.example", "owner+=x.example@lists.example",
        "owner+jo=@lists.example", "owner+jo=x y@lists.example", "owner=jo+x.example@lists.example"})
    BOOST_TEST(!verp_address(other, "+="), other);
}

BOOST_AUTO_TEST_SUITE_END()
