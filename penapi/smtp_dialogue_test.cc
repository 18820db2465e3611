// The dialogue with smtpd, which a scripted server takes the place of.
#include "penapi/smtp_dialogue.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/base/base64.h"
#include "lib/testing/suite.h"
#include "penapi/service_fixture.h"

using namespace pen;
using namespace pen::api;

BOOST_AUTO_TEST_SUITE(smtp_dialogue)

namespace {

struct OwnLoop {
  async::Loop own;
};
struct Service : OwnLoop, ScriptedService {
  Service() : ScriptedService(own) {}
  template <class Task>
  auto run(Task task) {
    return async::testing::run(own, std::move(task));
  }
};

const std::string kToken = "0123456789abcdef0123456789abcdef";

}  // namespace

BOOST_AUTO_TEST_CASE(the_client_is_told_in_the_form_that_smtpd_reads) {
  const auto at = [](const char* host, std::uint16_t port) { return async::SocketAddress::inet(host, port); };
  BOOST_TEST(proxy_line({at("192.0.2.7", 4000), at("192.0.2.1", 443)}) ==
             "PROXY TCP4 192.0.2.7 192.0.2.1 4000 443\r\n");
  BOOST_TEST(proxy_line({at("2001:db8::7", 1), at("2001:db8::1", 2)}) == "PROXY TCP6 2001:db8::7 2001:db8::1 1 2\r\n");
  BOOST_TEST(proxy_line({at("::ffff:192.0.2.7", 1), at("::ffff:192.0.2.1", 2)}) ==
             "PROXY TCP4 192.0.2.7 192.0.2.1 1 2\r\n");
  const std::string local("\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", 16);  // version 2, LOCAL
  BOOST_TEST(proxy_line({}) == local);
  BOOST_TEST(proxy_line({at("192.0.2.7", 1), at("2001:db8::1", 2)}) == local);
}

BOOST_AUTO_TEST_CASE(a_message_goes_as_it_is_with_the_reply_for_each_recipient) {
  Service service;
  service.replies["RCPT"] = {"250 2.1.5 Ok", "550 5.1.1 no such user"};
  service.replies["BDAT"] = {"250 2.0.0 Ok: 3 bytes for ID"};
  service.replies["BDAT LAST"] = {"250 2.0.0 Ok: queued as ID"};
  SmtpDialogue smtp(service.own, {.path = service.path, .host = "mx.example"});
  BOOST_TEST(service.run(smtp.open({}, kToken)).value().positive());
  HandedEnvelope envelope{
      .sender = "a@x.example", .recipients = {"b@y.example", "c@y.example"}, .needs_smtputf8 = true};
  const auto sent = service.run(smtp.envelope(envelope, 3)).value();
  BOOST_TEST(sent.any());
  BOOST_TEST(sent.recipients[0].dsn == "2.1.5");
  BOOST_TEST(sent.recipients[1].code == 550);
  const std::string content = ".\r\n";  // BDAT needs no dots doubled
  BOOST_TEST(service.run(smtp.content(content)).value().text == "250 2.0.0 Ok: 3 bytes for ID");
  BOOST_TEST(service.run(smtp.finish()).value().text == "250 2.0.0 Ok: queued as ID");
  BOOST_TEST(service.content == content);
  BOOST_TEST(service.heard ==
                 (std::vector<std::string>{"EHLO mx.example",
                                           "AUTH OAUTHBEARER " + base64_encode("n,,\x01"
                                                                               "auth=Bearer " +
                                                                               kToken + "\x01\x01"),
                                           "MAIL FROM:<a@x.example> SIZE=3 BODY=8BITMIME SMTPUTF8",
                                           "RCPT TO:<b@y.example>", "RCPT TO:<c@y.example>", "BDAT 3", "BDAT 0 LAST"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_wrong_token_is_a_refusal_behind_a_challenge) {
  Service service;
  service.replies["AUTH"] = {"334 e30="};
  service.replies["AQ=="] = {"535 5.7.8 Error: authentication failed"};
  SmtpDialogue smtp(service.own, {.path = service.path, .host = "mx.example"});
  BOOST_TEST(service.run(smtp.open({}, kToken)).value().code == 535);
}

BOOST_AUTO_TEST_CASE(more_recipients_than_fit_into_a_batch_are_all_asked) {
  Service service;
  SmtpDialogue smtp(service.own, {.path = service.path, .host = "mx.example"});
  BOOST_TEST(service.run(smtp.open({}, kToken)).value().positive());
  HandedEnvelope envelope;
  for (std::size_t i = 0; i < 2 * SmtpDialogue::kBatch + 1; ++i)
    envelope.recipients.push_back(std::to_string(i) + "@y.example");
  BOOST_TEST(service.run(smtp.envelope(envelope, 1)).value().recipients.size() == envelope.recipients.size());
  BOOST_TEST(service.heard[2] == "MAIL FROM:<> SIZE=1 BODY=8BITMIME");
}

BOOST_AUTO_TEST_CASE(what_the_service_does_not_offer_is_not_used_and_no_message_goes_without_chunks_and_login) {
  for (const auto& [offers, error] :
       {std::pair{"250 AUTH OAUTHBEARER", DialogueError::no_chunks}, std::pair{"250 CHUNKING", DialogueError::no_login},
        std::pair{"250-AUTH PLAIN\r\n250 CHUNKING", DialogueError::no_login}}) {
    Service service;
    service.offers = offers;
    SmtpDialogue smtp(service.own, {.path = service.path, .host = "mx.example"});
    BOOST_TEST(service.run(smtp.open({}, kToken)).error().is(error));
    BOOST_TEST(service.heard.size() == 1u);  // the token was not said
  }
  Service plain;
  plain.offers = "250-AUTH PLAIN OAUTHBEARER\r\n250 CHUNKING";
  SmtpDialogue smtp(plain.own, {.path = plain.path, .host = "mx.example"});
  BOOST_TEST(plain.run(smtp.open({}, kToken)).value().positive());
  HandedEnvelope envelope{.sender = "a@x.example", .recipients = {"b@y.example"}, .needs_smtputf8 = false};
  BOOST_TEST(plain.run(smtp.envelope(envelope, 3)).value().any());
  BOOST_TEST(plain.heard[2] == "MAIL FROM:<a@x.example>");
  envelope.needs_smtputf8 = true;
  const auto sent = plain.run(smtp.envelope(envelope, 3)).value();
  BOOST_TEST(sent.sender.code == 553);
  BOOST_TEST(sent.sender.dsn_or_default() == "5.6.7");
  BOOST_TEST(plain.heard.size() == 4u);  // nothing was said
}

BOOST_AUTO_TEST_CASE(a_service_that_hangs_up_or_talks_nonsense_is_an_error) {
  Service gone;
  gone.replies["hang up"] = {"MAIL"};
  SmtpDialogue smtp(gone.own, {.path = gone.path, .host = "mx.example"});
  BOOST_TEST(gone.run(smtp.open({}, kToken)).value().positive());
  BOOST_TEST(!gone.run(smtp.envelope({.sender = "", .recipients = {"b@y.example"}, .needs_smtputf8 = false}, 1)));
  Service odd;
  odd.replies["EHLO"] = {"hello"};
  SmtpDialogue other(odd.own, {.path = odd.path, .host = "mx.example"});
  BOOST_TEST(odd.run(other.open({}, kToken)).error().is_errno(EPROTO));
  SmtpDialogue nobody(odd.own, {.path = odd.path + "-missing", .host = "mx.example"});
  BOOST_TEST(!odd.run(nobody.open({}, kToken)));
}

BOOST_AUTO_TEST_SUITE_END()
