// reject_unverified_sender and reject_unverified_recipient in real sessions: what is asked, and what the client hears.
#include <boost/test/unit_test.hpp>

#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;
using State = Verifier::State;

BOOST_AUTO_TEST_SUITE(checks_verify)

namespace {

class Scripted final : public Verifier {
 public:
  async::Task<std::optional<Answer>> ask(std::string address, milliseconds patience, async::Until) override {
    asked.push_back(address);
    waited = patience;
    co_return answer;
  }
  std::vector<std::string> asked;
  milliseconds waited{0};
  std::optional<Answer> answer = Answer{State::good, "250 ok"};
};

struct Open : Rig {
  explicit Open(const std::string& restrictions, const std::string& more = {})
      : Rig("smtpd_recipient_restrictions = " + restrictions + "\n" + more) {
    BOOST_TEST_REQUIRE(problem == "");
    server.verifier = verifier;
    connect();
    say("EHLO client.example\r\n");
  }
  std::string rcpt(std::string_view from, std::string_view to = "user@example.org") {
    say("RSET\r\n");
    say("MAIL FROM:<" + std::string(from) + ">\r\n");
    return say("RCPT TO:<" + std::string(to) + ">\r\n");
  }
  void found(State state, std::string text) { verifier->answer = Verifier::Answer{state, std::move(text)}; }
  std::shared_ptr<Scripted> verifier = std::make_shared<Scripted>();
};

const std::string kOk = "250 2.1.5 Ok\r\n";

}  // namespace

BOOST_AUTO_TEST_CASE(a_good_address_passes_and_is_asked_about_whole) {
  Open rig("reject_unverified_sender, reject_unverified_recipient");
  BOOST_TEST(rig.rcpt("Ada@x.example") == kOk);
  BOOST_TEST((rig.verifier->asked == std::vector<std::string>{"Ada@x.example", "user@example.org"}));
}

BOOST_AUTO_TEST_CASE(bad_addresses_are_put_off_or_refused_as_the_codes_say) {
  Open soft("reject_unverified_recipient");
  soft.found(State::bad, "host mx said: 550 5.1.1 nobody");
  BOOST_TEST(soft.rcpt("a@x.example") ==
             "450 4.1.1 <user@example.org>: Recipient address rejected: unverified address: host mx said: 550 5.1.1 "
             "nobody\r\n");
  Open hard("reject_unverified_recipient, reject_unverified_sender",
            "unverified_recipient_reject_code = 550\nunverified_sender_reject_code = 553\n");
  hard.found(State::bad, "550 nobody");
  BOOST_TEST(hard.rcpt("a@x.example") ==
             "550 5.1.1 <user@example.org>: Recipient address rejected: undeliverable address: 550 nobody\r\n");
  Open sender("reject_unverified_sender", "unverified_sender_reject_code = 553\n");
  sender.found(State::bad, "550 nobody");
  BOOST_TEST(sender.rcpt("a@x.example") ==
             "553 5.1.7 <a@x.example>: Sender address rejected: undeliverable address: 550 nobody\r\n");
  Open passes("reject_unverified_recipient",
              "unverified_recipient_reject_code = 250\nunverified_recipient_defer_code = 250\n");
  for (const State state : {State::bad, State::deferred, State::probing}) {
    passes.found(state, "no");
    BOOST_TEST(passes.rcpt("a@x.example") == kOk);
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_known_yet_is_put_off_unless_something_refuses_for_good) {
  for (const State state : {State::probing, State::deferred}) {
    Open rig("reject_unverified_sender", "unverified_sender_defer_code = 451\n");
    rig.found(state, "Address verification in progress");
    BOOST_TEST(rig.rcpt("a@x.example") ==
               "451 4.1.7 <a@x.example>: Sender address rejected: unverified address: Address verification in "
               "progress\r\n");
    BOOST_TEST(rig.rcpt("a@x.example", "nobody@example.org").starts_with("550 5.1.1 "));
    Open at_once("reject_unverified_sender",
                 "unverified_sender_tempfail_action = defer\nunverified_recipient_tempfail_action = defer\n");
    at_once.found(state, "later");
    BOOST_TEST(at_once.rcpt("a@x.example", "nobody@example.org").starts_with("450 4.1.7 "));
  }
}

BOOST_AUTO_TEST_CASE(the_wait_is_one_delay_less_than_the_polls) {
  Open rig("reject_unverified_sender", "address_verify_poll_count = 4\naddress_verify_poll_delay = 5\n");
  rig.rcpt("a@x.example");
  BOOST_TEST((rig.verifier->waited == seconds(15)));
  Open once("reject_unverified_sender", "address_verify_poll_count = 1\n");
  once.rcpt("a@x.example");
  BOOST_TEST((once.verifier->waited == seconds(0)));
}

BOOST_AUTO_TEST_CASE(a_reason_of_our_own_takes_the_place_of_the_hosts_words) {
  Open rig("reject_unverified_sender", "unverified_sender_reject_reason = Address lookup failed\n");
  rig.found(State::bad, "550 secret");
  BOOST_TEST(rig.rcpt("a@x.example").ends_with("unverified address: Address lookup failed\r\n"));
  Open other("reject_unverified_recipient",
             "unverified_recipient_reject_code = 550\nunverified_recipient_reject_reason = Unknown\n");
  other.found(State::bad, "550 secret");
  BOOST_TEST(other.rcpt("a@x.example").ends_with("undeliverable address: Unknown\r\n"));
}

BOOST_AUTO_TEST_CASE(texts_of_hosts_are_bounded_and_harmless) {
  Open rig("reject_unverified_sender", "unverified_sender_reject_code = 550\n");
  rig.found(State::bad, "two\r\n250 lines " + std::string(5000, 'x'));
  const auto reply = rig.rcpt("a@x.example");
  BOOST_TEST(reply.find('\n') == reply.size() - 1);
  BOOST_TEST(reply.size() < 400U);
}

BOOST_AUTO_TEST_CASE(without_verify_mail_is_put_off) {
  Open rig("reject_unverified_recipient");
  rig.verifier->answer.reset();
  BOOST_TEST(rig.rcpt("a@x.example") ==
             "450 4.1.1 <user@example.org>: Recipient address rejected: address verification problem\r\n");
  Open none("reject_unverified_sender");
  none.server.verifier.reset();
  BOOST_TEST(none.rcpt("a@x.example") ==
             "450 4.1.7 <a@x.example>: Sender address rejected: address verification problem\r\n");
}

BOOST_AUTO_TEST_CASE(neither_null_senders_nor_our_own_probes_are_verified) {
  Open rig("reject_unverified_sender, reject_unverified_recipient", "myorigin = example.org\n");
  rig.found(State::bad, "no");
  BOOST_TEST(rig.rcpt("", "double-bounce@example.org") == kOk);
  BOOST_TEST(rig.rcpt("double-bounce@far.example", "double-bounce@example.org") == kOk);
  BOOST_TEST(rig.verifier->asked.empty());
  Open null("reject_unverified_sender");
  null.found(State::bad, "no");
  BOOST_TEST(null.rcpt("") == kOk);
  BOOST_TEST(null.rcpt("double-bounce@mx.example.org") == kOk);
  BOOST_TEST(null.verifier->asked.empty());
}

BOOST_AUTO_TEST_CASE(a_warning_refuses_nobody) {
  Open rig("warn_if_reject reject_unverified_sender");
  for (const State state : {State::bad, State::probing}) {
    rig.found(state, "no");
    BOOST_TEST(rig.rcpt("a@x.example") == kOk);
  }
}

BOOST_AUTO_TEST_SUITE_END()
