/// AUTH: when it is sent, and what each reply means for connection and mail.
#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"
#include "smtp/engine.h"
#include "smtp/login.h"
#include "smtp/testing/engine_ledger.h"

using namespace pen;
using namespace pen::smtp;
using namespace pen::smtp::testing;

namespace {

/// An engine after the greeting, driven line by line.
struct Talk {
  explicit Talk(std::string ehlo, Login login = usual(), int bits = 1 | 2, bool dummy = false)
      : job(mail_job()), engine(with(login, bits, dummy), {"peer.example", "peer.example[192.0.2.1]"}) {
    say("220 peer ESMTP");
    said.clear();
    say("250-peer.example");
    say(std::move(ehlo));
  }
  static Login usual() {
    Login login;
    login.credentials = {"user", "pencil"};
    login.nonce = "rOprNGfwEbeRWgbNEkqO";
    return login;
  }
  static Settings with(const Login& login, int bits, bool dummy) {
    Settings s = settings(bits);
    s.send_dummy_auth = dummy;
    s.login = std::make_shared<const Login>(login);
    return s;
  }
  static Job mail_job() {
    Job j;
    j.sender = "a@x.example";
    ipc::delivery::JobRecipient r;
    r.recipient.address = "b@y.example";
    j.recipients.push_back(r);
    return j;
  }
  /// The peer sends `line`; returns what the engine writes then.
  std::string say(std::string line) {
    engine.on_line(line, {});
    return output();
  }
  std::string output() {
    std::string out;
    while (auto send = engine.next_send({})) {
      out += send->text;
      if (send->response) responses += send->text;
      if (send->job) engine.content_written();
    }
    said += out;
    for (auto& event : engine.take_events()) {
      if (std::get_if<Opened>(&event)) opened = true;
      if (auto* d = std::get_if<JobDone>(&event)) done = *d;
      if (auto* e = std::get_if<Ended>(&event)) ended = *e;
    }
    return out;
  }
  /// The end that the engine reached by itself.
  const Ended& end() {
    BOOST_REQUIRE(engine.ended());
    engine.finish(End::by_engine, {});
    output();
    BOOST_REQUIRE(ended.has_value());
    BOOST_TEST(said.find("MAIL") == std::string::npos);
    BOOST_TEST(ended->status.text.find("pencil") == std::string::npos);
    return *ended;
  }
  Job job;
  Engine engine;
  std::string said, responses;  // responses: those marked as responses to challenges
  bool opened = false;
  std::optional<JobDone> done;
  std::optional<Ended> ended;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(smtp_engine_auth)

BOOST_AUTO_TEST_CASE(auth_comes_after_ehlo_and_mail_after_auth) {
  for (const char* ehlo : {"250 AUTH GSSAPI LOGIN PLAIN", "250 AUTH=PLAIN LOGIN", "250 auth plain"}) {
    Talk talk(ehlo);
    talk.engine.submit(&talk.job, {});
    BOOST_TEST(talk.said.ends_with("AUTH PLAIN AHVzZXIAcGVuY2ls\r\n"), talk.said);
    BOOST_TEST((talk.engine.awaiting() == Step::auth));
    BOOST_TEST(talk.output() == "");  // nothing is sent ahead
    BOOST_TEST(!talk.opened);
    BOOST_TEST(talk.say("235 2.7.0 ok").starts_with("MAIL FROM:<a@x.example>"));
    BOOST_TEST(talk.opened);
  }
}

BOOST_AUTO_TEST_CASE(smtp_send_dummy_mail_auth_follows_a_login) {
  for (const bool dummy : {false, true}) {
    Talk talk("250 AUTH PLAIN", Talk::usual(), 1 | 2, dummy);
    talk.engine.submit(&talk.job, {});
    BOOST_TEST(talk.say("235 2.7.0 ok").contains("MAIL FROM:<a@x.example> AUTH=<>\r\n") == dummy);
  }
  Talk alone("250 SIZE", Talk::usual(), 1 | 2, true);  // the peer offers no login
  alone.engine.submit(&alone.job, {});
  BOOST_TEST(!(alone.said + alone.output()).contains("AUTH"));
}

BOOST_AUTO_TEST_CASE(without_an_offer_or_credentials_nobody_logs_in) {
  Talk talk("250 SIZE");
  BOOST_TEST(talk.opened);
  BOOST_TEST(talk.said == "");
  Engine none(settings(1), {"peer.example", "peer.example[192.0.2.1]"});
  none.on_line("220 peer ESMTP", {});
  none.on_line("250-peer", {});
  none.on_line("250 AUTH PLAIN", {});
  BOOST_TEST(none.ready());
}

BOOST_AUTO_TEST_CASE(a_scram_exchange_runs_to_the_server_s_proof) {
  Talk talk("250 AUTH SCRAM-SHA-256 PLAIN");
  BOOST_TEST(talk.said.ends_with("AUTH SCRAM-SHA-256 " + base64_encode("n,,n=user,r=rOprNGfwEbeRWgbNEkqO") + "\r\n"));
  BOOST_TEST(talk.say("334 " + base64_encode("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
                                             "s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")) ==
             base64_encode("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
                           "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=") +
                 "\r\n");
  BOOST_TEST(talk.say("334 " + base64_encode("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")) == "\r\n");
  talk.say("235 ok");
  BOOST_TEST(talk.opened);
}

BOOST_AUTO_TEST_CASE(what_answers_a_challenge_is_marked_whatever_the_challenge_s_code) {
  for (const char* code : {"334", "300"}) {
    Talk talk("250 AUTH LOGIN");
    talk.engine.submit(&talk.job, {});
    BOOST_TEST(talk.said.ends_with("AUTH LOGIN\r\n"));
    BOOST_TEST(talk.say(code + std::string(" VXNlcm5hbWU6")) == "dXNlcg==\r\n");
    BOOST_TEST(talk.say(code + std::string(" UGFzc3dvcmQ6")) == "cGVuY2ls\r\n");
    BOOST_TEST(talk.say("235 ok").starts_with("MAIL"));
    BOOST_TEST(talk.responses == "dXNlcg==\r\ncGVuY2ls\r\n");
  }
}

BOOST_AUTO_TEST_CASE(a_server_that_agrees_without_its_proof_is_not_believed) {
  Talk talk("250 AUTH SCRAM-SHA-256");
  talk.say("235 ok");
  BOOST_TEST(talk.end().status.text.find("proved") != std::string::npos);
  BOOST_TEST(!talk.opened);
}

BOOST_AUTO_TEST_CASE(a_refusal_defers_the_mail_unless_it_is_to_bounce) {
  struct Row {
    const char* reply;
    const char* dsn;
    Trouble trouble;
  };
  for (const auto& row :
       {Row{"535 5.7.8 no", "4.7.8", Trouble::greeting_4xx}, Row{"454 4.7.0 later", "4.7.0", Trouble::greeting_4xx},
        Row{"500 what", "4.0.0", Trouble::greeting_4xx}, Row{"421 4.3.2 bye", "4.3.2", Trouble::peer_421}}) {
    Talk talk("250 AUTH PLAIN");
    talk.say(row.reply);
    const Ended& end = talk.end();
    BOOST_TEST(end.status.dsn == row.dsn);
    BOOST_TEST((end.status.action == mail::Action::deferred));
    BOOST_TEST((end.trouble == row.trouble));
    BOOST_TEST(end.status.text ==
               "SASL authentication failed; server peer.example[192.0.2.1] said: " + std::string(row.reply));
  }
  Login hard = Talk::usual();
  hard.defer_refused = false;
  Talk talk("250 AUTH PLAIN", hard);
  talk.say("535 5.7.8 no");
  BOOST_TEST(talk.opened);
  talk.engine.submit(&talk.job, {});
  BOOST_TEST(talk.output() == "");  // AUTH is not sent
  BOOST_REQUIRE(talk.done.has_value());
  BOOST_TEST((talk.done->results.at(0).action == mail::Action::failed));
  BOOST_TEST(talk.done->results.at(0).dsn == "5.7.8");
  Talk later("250 AUTH PLAIN", hard);
  later.say("454 4.7.0 later");
  BOOST_TEST((later.end().status.action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_answered_ends_the_connection) {
  const auto ends = [](Talk& talk, const std::string& why) {
    BOOST_TEST(talk.end().status.text.find(why) != std::string::npos, talk.ended->status.text);
    BOOST_TEST(talk.ended->status.dsn == "4.7.0");
  };
  Talk no_base64("250 AUTH PLAIN");
  no_base64.say("334 ***");
  ends(no_base64, "malformed challenge");
  Talk unexpected("250 AUTH PLAIN");
  unexpected.say("334 ");
  ends(unexpected, "PLAIN has no challenges");
  Talk impostor("250 AUTH SCRAM-SHA-1");
  impostor.say("334 " + base64_encode("r=another,s=QSXCR+Q6sek8bf92,i=4096"));
  ends(impostor, "nonce");
  Login strict = Talk::usual();
  strict.clear.forbidden = sasl::property::kPlaintext;
  Talk none("250 AUTH PLAIN LOGIN", strict);
  ends(none, "no mechanism available");
  BOOST_TEST(none.said.find("AUTH") == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
