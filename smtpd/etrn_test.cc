// ETRN: replies, restrictions, and the pace at which the queue manager hears of it.
#include <boost/test/unit_test.hpp>

#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;

namespace {

struct Etrn : Rig {
  explicit Etrn(std::string main_cf = "relay_domains = customer.example\n") : Rig(std::move(main_cf)) {
    BOOST_TEST_REQUIRE(problem == "");
    server.site_flush = std::make_shared<SiteFlush>(loop, [this](std::string site) { return flush(this, site); });
    connect();
    ehlo = say("EHLO client.example\r\n");
  }
  static async::Task<Result<std::uint64_t>> flush(Etrn* self, std::string site) {
    self->flushed.push_back(std::move(site));
    if (self->takes > seconds(0)) (void)co_await self->loop.sleep(self->takes);
    co_return 1;
  }
  std::string etrn(std::string_view domain) { return say("ETRN " + std::string(domain) + "\r\n"); }
  void pass(milliseconds time) {
    clock.advance(time);
    settle();
  }
  std::string ehlo;
  std::vector<std::string> flushed;
  seconds takes{0};
};

using Sites = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(etrn)

BOOST_AUTO_TEST_CASE(the_mail_of_a_relay_domain_is_tried_at_once) {
  Etrn rig;
  BOOST_TEST(rig.ehlo.contains("250-VRFY\r\n250-ETRN\r\n"));
  BOOST_TEST(rig.etrn("Customer.Example") == "250 Queuing started\r\n");
  rig.settle();
  BOOST_TEST(rig.flushed == Sites{"customer.example"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(other_domains_and_bad_parameters_are_refused) {
  Etrn rig;
  BOOST_TEST(rig.etrn("elsewhere.example") == "459 <elsewhere.example>: service unavailable\r\n");
  BOOST_TEST(rig.etrn("@sub.customer.example") == "250 Queuing started\r\n");  // parent_domain_matches_subdomains
  BOOST_TEST(rig.etrn("a..b") == "501 Error: invalid parameter syntax\r\n");
  BOOST_TEST(rig.etrn("[192.0.2.1") == "501 Error: invalid parameter syntax\r\n");
  BOOST_TEST(rig.etrn("") == "500 Syntax: ETRN domain\r\n");
  BOOST_TEST(rig.etrn("a b") == "500 Syntax: ETRN domain\r\n");
  rig.say("MAIL FROM:<>\r\n");
  BOOST_TEST(rig.etrn("customer.example") == "503 Error: MAIL transaction in progress\r\n");
  Etrn other("relay_domains = customer.example\nfast_flush_domains = elsewhere.example\n");
  BOOST_TEST(other.etrn("customer.example").starts_with("459 "));
  BOOST_TEST(other.etrn("elsewhere.example").starts_with("250 "));
  Etrn silent("smtpd_helo_required = yes\nsmtpd_discard_ehlo_keywords = etrn\n");
  BOOST_TEST(!silent.ehlo.contains("ETRN"));
  silent.connect();
  BOOST_TEST(silent.etrn("customer.example") == "503 Error: send HELO/EHLO first\r\n");
  Rig without;
  without.connect();
  BOOST_TEST(without.say("ETRN example.org\r\n").starts_with("459 "));
}

BOOST_AUTO_TEST_CASE(restrictions_are_asked_with_the_domain) {
  const std::string base = "relay_domains = customer.example, other.example\n";
  Etrn rig(base + "smtpd_etrn_restrictions = check_etrn_access inline:{ customer.example=OK }, reject\n");
  BOOST_TEST(rig.etrn("customer.example") == "250 Queuing started\r\n");
  BOOST_TEST(rig.etrn("other.example") == "554 5.7.1 <other.example>: Etrn command rejected: Access denied\r\n");
  Etrn table(base + "smtpd_etrn_restrictions = inline:{ {other.example = REJECT not you} }\n");
  BOOST_TEST(table.etrn("other.example") == "554 5.7.1 <other.example>: Etrn command rejected: not you\r\n");
  BOOST_TEST(table.etrn("customer.example") == "250 Queuing started\r\n");
  Etrn client(base + "smtpd_client_restrictions = permit_mynetworks, reject\n");
  BOOST_TEST(client.etrn("customer.example").starts_with("554 5.7.1 "));
  // In other lists there is no such domain.
  Etrn recipients(base + "smtpd_recipient_restrictions = check_etrn_access static:reject\n");
  recipients.say("MAIL FROM:<>\r\n");
  BOOST_TEST(recipients.say("RCPT TO:<user@example.org>\r\n").starts_with("250 "));
}

BOOST_AUTO_TEST_CASE(flushes_have_a_pace_that_nobody_hastens) {
  Etrn rig("relay_domains = a.example, b.example\n");
  for (int i = 0; i < 3; ++i) {
    rig.etrn("a.example");
    rig.etrn("b.example");
  }
  BOOST_TEST(rig.flushed == Sites{"a.example"}, boost::test_tools::per_element());
  rig.pass(milliseconds(5'100));
  BOOST_TEST(rig.flushed == (Sites{"a.example", "b.example"}), boost::test_tools::per_element());
  for (int i = 0; i < 10; ++i) rig.pass(milliseconds(5'000));
  BOOST_TEST(rig.flushed.size() == 2u);  // a's turn comes again after a minute
  for (int i = 0; i < 3; ++i) rig.pass(milliseconds(5'000));
  BOOST_TEST(rig.flushed == (Sites{"a.example", "b.example", "a.example"}), boost::test_tools::per_element());
  BOOST_TEST(rig.server.site_flush->waiting() <= 1u);
}

BOOST_AUTO_TEST_CASE(after_a_long_look_through_the_queue_comes_a_longer_pause) {
  Etrn rig("relay_domains = a.example, b.example\n");
  rig.takes = seconds(10);
  rig.etrn("a.example");
  rig.etrn("b.example");
  rig.pass(seconds(11));
  rig.pass(seconds(39));
  BOOST_TEST(rig.flushed.size() == 1u);
  rig.pass(seconds(6));
  BOOST_TEST(rig.flushed.size() == 2u);
}

BOOST_AUTO_TEST_CASE(domains_that_wait_are_bounded) {
  Etrn rig("relay_domains = customer.example\nsmtpd_junk_command_limit = 100000\n");
  std::string last;
  for (std::size_t i = 0; i <= SiteFlush::kMost + 1; ++i)
    last = rig.etrn("d" + std::to_string(i) + ".customer.example");
  BOOST_TEST(last == "458 Unable to queue messages\r\n");
  BOOST_TEST(rig.server.site_flush->waiting() == SiteFlush::kMost);
}

BOOST_AUTO_TEST_SUITE_END()
