#include "lib/receive/submission/envelope.h"

#include <boost/test/unit_test.hpp>

namespace pen::submission {
namespace {

Submission sample() {
  Submission s;
  s.queue_id = "4bGNsx3Ynxz1kGz8";
  s.arrival = WallTime(seconds(1'000'000'000));
  s.sender = "ada@example.org";
  s.recipients = {{.address = "bob@example.org", .original = {}, .orcpt = {}, .notify = 0}};
  return s;
}

BOOST_AUTO_TEST_SUITE(submission_envelope)

BOOST_AUTO_TEST_CASE(the_envelope_has_what_the_user_asked_for) {
  Submission s = sample();
  s.envid = "id 7";
  s.ret = mail::Ret::headers;
  s.body_type = mail::BodyType::eight_bit_mime;
  s.requiretls = mail::RequireTls::yes;
  s.purpose = mail::Purpose::probe;
  const mail::Envelope e = envelope_of(s);
  BOOST_TEST(e.queue_id == s.queue_id);
  BOOST_TEST((e.arrival == s.arrival));
  BOOST_TEST(e.sender == "ada@example.org");
  BOOST_REQUIRE(e.recipients.size() == 1U);
  BOOST_TEST(e.recipients[0].address == "bob@example.org");
  BOOST_TEST(e.envid == "id 7");
  BOOST_TEST((e.ret == mail::Ret::headers));
  BOOST_TEST((e.body_type == mail::BodyType::eight_bit_mime));
  BOOST_TEST((e.requiretls == mail::RequireTls::yes));
  BOOST_TEST((e.purpose == mail::Purpose::probe));
  BOOST_TEST(e.client.protocol == "local");
  BOOST_TEST(!e.smtputf8);
  s.purpose = mail::Purpose::traced;
  BOOST_TEST((envelope_of(s).purpose == mail::Purpose::traced));
}

BOOST_AUTO_TEST_CASE(smtputf8_is_what_was_declared_or_what_an_address_asks_for) {
  Submission declared = sample(), from = sample(), to = sample();
  declared.smtputf8 = true;
  from.sender = "\u00e4da@example.org";
  to.recipients.push_back({.address = "b\u00f6b@example.org", .original = {}, .orcpt = {}, .notify = 0});
  for (const Submission& s : {declared, from, to}) BOOST_TEST(envelope_of(s).smtputf8);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::submission
