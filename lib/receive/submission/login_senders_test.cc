#include "lib/receive/submission/login_senders.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::submission;

namespace {

struct Site {
  LoginSenders senders;
  explicit Site(const std::string& maps) {
    senders.maps = map::MapList::open(maps).value();
    senders.delimiters = "+";
  }
  bool may(std::string_view login, std::string_view sender) const { return senders.permit(login, sender).value(); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(login_senders)

BOOST_AUTO_TEST_CASE(local_login_sender_maps_by_default_permit_everybody_everything) {
  const Site site("static:*");
  BOOST_TEST(site.may("jo", "bo@example.org"));
  BOOST_TEST(site.may("uid:4711", ""));
}

BOOST_AUTO_TEST_CASE(local_login_sender_maps_permit_what_is_listed) {
  const Site site(
      "inline:{ { root = * } { jo = jo, jo@example.org @list.example \"j o\"@example.org } "
      "{ bo = <> } { uid:7 = seven } }");
  BOOST_TEST(site.may("root", "any@where.example"));
  BOOST_TEST(site.may("root", ""));
  BOOST_TEST(site.may("jo", "jo"));
  BOOST_TEST(site.may("jo", "Jo@Example.ORG"));
  BOOST_TEST(site.may("jo", "jo+tag@example.org"));  // extensions are ignored
  BOOST_TEST(site.may("jo", "jo+tag"));
  BOOST_TEST(site.may("jo", "any@list.example"));
  BOOST_TEST(site.may("jo", "\"j o\"@example.org"));
  BOOST_TEST(!site.may("jo", "any@sub.list.example"));
  BOOST_TEST(!site.may("jo", "bo@example.org"));
  BOOST_TEST(!site.may("jo", "list.example"));
  BOOST_TEST(!site.may("jo", ""));
  BOOST_TEST(site.may("bo", ""));
  BOOST_TEST(!site.may("bo", "bo"));
  BOOST_TEST(!site.may("bo", "<>"));
  BOOST_TEST(site.may("uid:7", "seven"));
  BOOST_TEST(!site.may("nobody", "nobody"));
}

BOOST_AUTO_TEST_CASE(an_extension_that_names_another_domain_is_none) {
  const Site site(
      "inline:{ { jo = jo jo@example.com } { root = * } { gate = bo+x%there.example @here.example "
      "} }");
  BOOST_TEST(site.may("jo", "jo+x"));
  for (const char* sender : {"jo+x%victim.org", "jo+a!root", "jo+!root", "jo+x!root%victim.org", "jo+x\\%victim.org",
                             "jo+x%victim.org@", "jo+x%victim.org@.", "@jo+x%victim.org", "jo%victim.org", "jo!root"})
    BOOST_TEST(!site.may("jo", sender), sender);
  BOOST_TEST(site.may("root", "jo+x%victim.org"));
  BOOST_TEST(site.may("gate", "bo+x%there.example"));
  BOOST_TEST(!site.may("gate", "bo+y%there.example"));
  // If the sender has a domain, that domain decides what the local part means.
  BOOST_TEST(site.may("jo", "jo+x%victim.org@example.com"));
  BOOST_TEST(site.may("gate", "jo+x%victim.org@here.example"));
}

BOOST_AUTO_TEST_CASE(empty_address_local_login_sender_maps_lookup_key_stands_for_the_null_sender) {
  Site site("inline:{ { jo = none } { bo = <> } }");
  site.senders.null_pattern = "none";
  BOOST_TEST(site.may("jo", ""));
  BOOST_TEST(!site.may("bo", ""));
  BOOST_TEST(!site.may("jo", "none"));
}

BOOST_AUTO_TEST_CASE(a_table_that_cannot_be_read_permits_nothing_and_says_so) {
  const Site site("texthash:/nonexistent/file");
  BOOST_TEST(!site.senders.permit("jo", "jo").has_value());
}

BOOST_AUTO_TEST_CASE(an_account_without_a_name_is_known_by_its_number) {
  BOOST_TEST(login_name(0) == "root");
  BOOST_TEST(login_name(3999999999U) == "uid:3999999999");
}

BOOST_AUTO_TEST_SUITE_END()
