// The dialogue with smtpd, which a scripted server takes the place of.
#include "penapi/smtp_dialogue.h"

#include <boost/test/unit_test.hpp>
#include <map>

#include "lib/async/listener.h"
#include "lib/async/sync.h"
#include "lib/async/testing/run.h"
#include "lib/sasl/base64.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::api;

BOOST_AUTO_TEST_SUITE(smtp_dialogue)

namespace {

/// Answers each line by its first word; takes chunks.
struct Service {
  async::Loop loop;
  pen::testing::ScratchDir scratch;
  std::string path = scratch.file("handin");
  std::map<std::string, std::vector<std::string>> replies;  // of a word, in order; none: 250
  std::vector<std::string> heard;
  std::string offers =
      "250-PIPELINING\r\n250-SIZE\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-AUTH OAUTHBEARER\r\n"
      "250 CHUNKING";
  std::string content, proxy;
  async::Listener listener{loop, async::listen_on(async::SocketAddress::unix(path)).value(), 10};
  async::Gate gate{loop};

  Service() { gate.spawn("service", serve(this)); }
  std::string reply_to(const std::string& word) {
    auto& list = replies[word];
    if (list.empty()) return word == "EHLO" ? "250-mx\r\n" + offers : "250 2.0.0 Ok";
    std::string next = list.front();
    if (list.size() > 1) list.erase(list.begin());
    return next;
  }
  static async::Task<void> serve(Service* self) {
    auto accepted = co_await self->listener.accept();
    if (!accepted) co_return;
    async::Stream stream = std::move(accepted->stream);
    auto proxy = co_await stream.read_exact(16);
    if (!proxy) co_return;
    self->proxy = *proxy;
    stream.write("220 mx\r\n");
    for (;;) {
      auto line = co_await stream.read_line(8192);
      if (!line) co_return;
      const std::string text(*line);
      self->heard.push_back(text);
      const std::string word = text.substr(0, text.find(' '));
      if (word == "BDAT") {
        const auto size = static_cast<std::size_t>(std::stoul(text.substr(5)));
        auto chunk = co_await stream.read_exact(size);
        if (!chunk) co_return;
        self->content += *chunk;
      }
      if (word == "QUIT") co_return;
      if (self->reply_to("hang up") == word) co_return;
      stream.write(self->reply_to(word) + "\r\n");
    }
  }
  template <class Task>
  auto run(Task task) {
    return async::testing::run(loop, std::move(task));
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
  service.replies["BDAT"] = {"250 2.0.0 Ok: 3 bytes for ID", "250 2.0.0 Ok: queued as ID"};
  SmtpDialogue smtp(service.loop, {.path = service.path, .host = "mx.example"});
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
                                           "AUTH OAUTHBEARER " + sasl::base64_encode("n,,\x01"
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
  SmtpDialogue smtp(service.loop, {.path = service.path, .host = "mx.example"});
  BOOST_TEST(service.run(smtp.open({}, kToken)).value().code == 535);
}

BOOST_AUTO_TEST_CASE(more_recipients_than_fit_into_a_batch_are_all_asked) {
  Service service;
  SmtpDialogue smtp(service.loop, {.path = service.path, .host = "mx.example"});
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
    SmtpDialogue smtp(service.loop, {.path = service.path, .host = "mx.example"});
    BOOST_TEST(service.run(smtp.open({}, kToken)).error().is(error));
    BOOST_TEST(service.heard.size() == 1u);  // the token was not said
  }
  Service plain;
  plain.offers = "250-AUTH PLAIN OAUTHBEARER\r\n250 CHUNKING";
  SmtpDialogue smtp(plain.loop, {.path = plain.path, .host = "mx.example"});
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
  SmtpDialogue smtp(gone.loop, {.path = gone.path, .host = "mx.example"});
  BOOST_TEST(gone.run(smtp.open({}, kToken)).value().positive());
  BOOST_TEST(!gone.run(smtp.envelope({.sender = "", .recipients = {"b@y.example"}, .needs_smtputf8 = false}, 1)));
  Service odd;
  odd.replies["EHLO"] = {"hello"};
  SmtpDialogue other(odd.loop, {.path = odd.path, .host = "mx.example"});
  BOOST_TEST(odd.run(other.open({}, kToken)).error().is_errno(EPROTO));
  SmtpDialogue nobody(odd.loop, {.path = odd.path + "-missing", .host = "mx.example"});
  BOOST_TEST(!odd.run(nobody.open({}, kToken)));
}

BOOST_AUTO_TEST_SUITE_END()
