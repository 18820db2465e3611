#include "lib/mail/returned/plain_text.h"

#include <boost/test/unit_test.hpp>

namespace pen::returned {
namespace {

const std::string kQmail =
    "Hi. This is the qmail-send program at mx.there.example.\n"
    "I'm afraid I wasn't able to deliver your message to the following addresses.\n"
    "This is a permanent error; I've given up. Sorry it didn't work out.\n\n"
    "<jo@there.example>:\nSorry, no mailbox here by that name. (#5.1.1)\n\n"
    "<al@far.example>:\n192.0.2.7 does not like recipient.\nRemote host said: 550 no\nGiving up on 192.0.2.7.\n\n"
    "--- Below this line is a copy of the message.\n\n"
    "Return-Path: <owner@here.example>\nMessage-ID: <m1@here.example>\nFrom: Owner <owner@here.example>\n\n"
    "<no@recipient.example>:\nof the message\n";

const std::string kExim =
    "This message was created automatically by mail delivery software.\n\n"
    "A message that you sent could not be delivered to one or more of its\n"
    "recipients. This is a permanent error. The following address(es) failed:\n\n"
    "  jo@there.example\n    (generated from list@there.example)\n"
    "    host mx.far.example [192.0.2.7]\n    SMTP error from remote mail server after RCPT TO:<jo@there.example>:\n"
    "    550 5.1.1 gone\n  al@far.example\n    Unrouteable address\n\n"
    "------ This is a copy of the message, including all the headers. ------\n\n"
    "Return-path: <owner@here.example>\nMessage-Id: <m2@here.example>\n\ntext\n";

BOOST_AUTO_TEST_SUITE(plain_text)

BOOST_AUTO_TEST_CASE(the_form_of_qmail) {
  Original original;
  const auto n = read_qmail(kQmail, original);
  BOOST_REQUIRE(n);
  BOOST_CHECK(n->form == Form::qmail);
  BOOST_REQUIRE(n->recipients.size() == 2U);
  BOOST_TEST(n->recipients[0].address() == "jo@there.example");
  BOOST_TEST(n->recipients[0].status == "5.1.1");
  BOOST_TEST(n->recipients[1].address() == "al@far.example");
  BOOST_TEST(n->recipients[1].status == "5.0.0");
  BOOST_TEST(n->recipients[1].diagnostic ==
             "192.0.2.7 does not like recipient. Remote host said: 550 no Giving up on 192.0.2.7.");
  BOOST_TEST(original.message_id == "<m1@here.example>");
  BOOST_TEST(original.return_path == "owner@here.example");
}

BOOST_AUTO_TEST_CASE(the_form_of_exim) {
  Original original;
  const auto n = read_exim(kExim, "jo@there.example, al@far.example", original);
  BOOST_REQUIRE(n);
  BOOST_CHECK(n->form == Form::exim);
  BOOST_REQUIRE(n->recipients.size() == 2U);
  BOOST_TEST(n->recipients[0].status == "5.1.1");
  BOOST_TEST(n->recipients[0].diagnostic.ends_with("550 5.1.1 gone"));
  BOOST_TEST(n->recipients[1].diagnostic == "Unrouteable address");
  BOOST_TEST(original.message_id == "<m2@here.example>");
}

BOOST_AUTO_TEST_CASE(what_only_resembles_them_is_no_notice) {
  Original original;
  BOOST_TEST(!read_qmail("Hello.\n\n<jo@there.example>:\nSorry\n", original));
  BOOST_TEST(!read_qmail("Hi. This is the qmail-send program.\n\nno address\n", original));
  BOOST_TEST(!read_exim(kExim, "", original));
  BOOST_TEST(!read_exim("> " + std::string(300, 'x') + kExim, "jo@there.example", original));
  BOOST_TEST(!read_exim("", "jo@there.example", original));
  BOOST_TEST(original.message_id.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::returned
