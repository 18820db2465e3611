#include "lib/suite/trace/filter.h"

#include <boost/test/unit_test.hpp>

namespace pen::trace {
namespace {

BOOST_AUTO_TEST_SUITE(filter)

BOOST_AUTO_TEST_CASE(hosts_fit_by_network_by_name_and_by_what_is_below_a_domain) {
  const HostWords words({"192.0.2.0/24", "2001:db8::1", "Mail.example", ".sub.example"});
  BOOST_TEST(words.fits("192.0.2.77", ""));
  BOOST_TEST(words.fits("2001:db8::1", "unknown"));
  BOOST_TEST(words.fits("198.51.100.1", "mail.EXAMPLE"));
  BOOST_TEST(words.fits("", "a.b.sub.example"));
  BOOST_TEST(!words.fits("198.51.100.1", "sub.example"));
  BOOST_TEST(!words.fits("198.51.100.1", "other.example"));
  BOOST_TEST(!words.fits("", ""));
  BOOST_TEST(HostWords({}).fits("", ""));
}

BOOST_AUTO_TEST_CASE(messages_fit_by_domain_recipient_and_queue_id) {
  const Filter f({.domains = {"Example.org", ".below.example"},
                  .recipients = {"A@b.example", "@c.example"},
                  .queue_ids = {"4jYB"}});
  BOOST_TEST(f.about_messages());
  BOOST_TEST(f.domain_fits("anna@EXAMPLE.org"));
  BOOST_TEST(f.domain_fits("x@deep.below.example"));
  BOOST_TEST(!f.domain_fits("x@notexample.org"));
  BOOST_TEST(!f.domain_fits(""));
  BOOST_TEST(f.recipient_fits("a@B.example"));
  BOOST_TEST(f.recipient_fits("any@c.EXAMPLE"));
  BOOST_TEST(!f.recipient_fits("any@sub.c.example"));
  BOOST_TEST(f.queue_id_fits("4jYB"));
  BOOST_TEST(!f.queue_id_fits("4jyb"));
  BOOST_TEST(!Filter({.clients = {"192.0.2.1"}}).about_messages());
}

BOOST_AUTO_TEST_CASE(words_that_cannot_fit_are_named) {
  BOOST_TEST(Filter::problem({}) == "");
  BOOST_TEST(Filter::problem({.clients = {"192.0.2.1/24"}}).contains("192.0.2.1/24"));
  BOOST_TEST(Filter::problem({.hosts = {"1:2"}}).contains("1:2"));
  BOOST_TEST(Filter::problem({.domains = {"a@b"}}).contains("not a domain"));
  BOOST_TEST(Filter::problem({.recipients = {"b.example"}}).contains("b.example"));
  BOOST_TEST(Filter::problem({.queue_ids = {""}}).contains("empty"));
  BOOST_TEST(Filter::problem({.queue_ids = std::vector<std::string>(101, "x")}).contains("100"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::trace
