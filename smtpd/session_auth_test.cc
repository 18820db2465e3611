// AUTH in a session, decided by a scripted authenticator.
#include <boost/test/unit_test.hpp>
#include <deque>

#include "smtpd/limits_fixture.h"
#include "smtpd/session_fixture.h"

namespace pen::smtpd {
namespace {

using sasl::Answer;
using Kind = sasl::Answer::Kind;

/// Gives its answers in order, and records the questions.
struct Script final : sasl::Authenticator {
  std::vector<sasl::Mechanism> offers = {{"PLAIN", sasl::property::kPlaintext},
                                         {"LOGIN", sasl::property::kPlaintext},
                                         {"SCRAM-SHA-256", sasl::property::kMutualAuth},
                                         {"ANONYMOUS", sasl::property::kAnonymous},
                                         {"EXTERNAL", 0}};
  std::deque<Answer> answers;
  std::vector<std::string> asked;
  std::string client = "nobody asked", service;
  std::size_t live = 0;

  struct One final : Exchange {
    explicit One(Script& s) : script(s) { ++script.live; }
    ~One() override { --script.live; }
    async::Task<Answer> start(Request request, async::Until) override {
      script.client = request.remote_address;
      script.service = request.service;
      script.asked.push_back(std::string(request.mechanism) + " " +
                             (request.initial ? "<" + std::string(*request.initial) + ">" : "none"));
      co_return next();
    }
    async::Task<Answer> respond(std::string text, async::Until) override {
      script.asked.push_back(std::move(text));
      co_return next();
    }
    Answer next() {
      Answer answer = script.answers.front();
      script.answers.pop_front();
      return answer;
    }
    Script& script;
  };
  const std::vector<sasl::Mechanism>& mechanisms() const override { return offers; }
  async::Task<void> settled(async::Until) override { co_return; }
  std::unique_ptr<Exchange> begin() override { return std::make_unique<One>(*this); }
};

struct AuthRig : testing::Rig {
  std::shared_ptr<Script> script = std::make_shared<Script>();
  explicit AuthRig(const std::string& more = {})
      : Rig("smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\n" + more) {
    server.authenticator = script;
  }
  /// A new session after EHLO; returns the reply to EHLO.
  std::string greet(std::string address = "192.0.2.7") {
    connect(std::move(address));
    return say("EHLO client.example\r\n");
  }
  std::string auth_line() {
    const std::string reply = greet();
    const auto at = reply.find("AUTH ");
    return at == std::string::npos ? "" : reply.substr(at, reply.find('\r', at) - at);
  }
  void log_in(std::string user = "anna") {
    script->answers = {{.kind = Kind::ok, .text = {}, .user = std::move(user)}};
    BOOST_TEST(say("AUTH PLAIN QQ==\r\n").starts_with("235"));
  }
};
Answer challenge(std::string text) { return {.kind = Kind::challenge, .text = std::move(text), .user = {}}; }

BOOST_AUTO_TEST_SUITE(session_auth)

BOOST_AUTO_TEST_CASE(ehlo_offers_what_the_settings_leave) {
  BOOST_TEST(AuthRig().auth_line() == "AUTH PLAIN LOGIN SCRAM-SHA-256");
  BOOST_TEST(AuthRig("smtpd_sasl_security_options = noanonymous, noplaintext\n").auth_line() == "AUTH SCRAM-SHA-256");
  BOOST_TEST(AuthRig("smtpd_sasl_security_options =\nsmtpd_sasl_mechanism_filter = plain, anonymous\n").auth_line() ==
             "AUTH PLAIN ANONYMOUS");
  BOOST_TEST(AuthRig("smtpd_sasl_mechanism_filter =\n").auth_line() == "AUTH PLAIN LOGIN SCRAM-SHA-256 EXTERNAL");
  BOOST_TEST(AuthRig("smtpd_tls_auth_only = yes\n").auth_line() == "");
  BOOST_TEST(AuthRig("smtpd_tls_security_level = encrypt\n").auth_line() == "");
  BOOST_TEST(AuthRig("smtpd_tls_security_level = may\n").auth_line() != "");
  BOOST_TEST(AuthRig("smtpd_discard_ehlo_keywords = auth\n").auth_line() == "");
  BOOST_TEST(AuthRig("smtpd_sasl_exceptions_networks = 192.0.2.0/24\n").auth_line() == "");
  BOOST_TEST(AuthRig("smtpd_sasl_exceptions_networks = !192.0.2.7, 192.0.2.0/24\n").auth_line() != "");
  BOOST_TEST(AuthRig("broken_sasl_auth_clients = yes\n").greet().find("AUTH=PLAIN LOGIN") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(settings_that_make_no_sense_are_refused_at_start) {
  BOOST_TEST(AuthRig("smtpd_sasl_security_options = noplain\n").problem.find("noplain") != std::string::npos);
  BOOST_TEST(testing::Rig("smtpd_sasl_type = cyrus\n").problem == "");
}

BOOST_AUTO_TEST_CASE(a_server_whose_type_of_sasl_is_not_there_serves_without_auth) {
  AuthRig rig("smtpd_sasl_type = other\n");
  BOOST_TEST(rig.problem == "");
  BOOST_TEST(rig.auth_line() == "");
  BOOST_TEST(AuthRig("smtpd_sasl_type = Cyrus\n").auth_line() != "");
}

BOOST_AUTO_TEST_CASE(where_a_service_is_reached_and_what_it_is_told_follows_from_its_settings) {
  const auto peer = [](const std::string& main_cf, const std::string& master_cf) {
    const auto config =
        config::Config::parse({.directory = "/etc/x",
                               .main_cf = "queue_directory = /q\nsmtpd_sasl_auth_enable = yes\n" + main_cf,
                               .master_cf = master_cf,
                               .overrides = {}},
                              {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
    return AuthPolicy::service(config).value();
  };
  BOOST_TEST(!peer("", ""));
  const auto cyrus = peer(
      "smtpd_sasl_path = mta\nsmtpd_sasl_local_domain = example.org\nmyhostname = a.example\n"
      "smtpd_sasl_response_limit = 20000\n",
      "c unix - - n - - cyrus\n");
  BOOST_TEST(cyrus->address.text() == "unix:/q/private/c");
  BOOST_TEST((cyrus->application == sasl::dovecot::Application{"mta", "example.org", "a.example"}));
  BOOST_TEST(cyrus->max_line > 20000U);
  const auto dovecot = peer("smtpd_sasl_type = dovecot\nsmtpd_sasl_path = private/auth\n", "");
  BOOST_TEST(dovecot->address.text() == "unix:/q/private/auth");
  BOOST_TEST((!dovecot->application && dovecot->max_line == sasl::dovecot::kMaxLine));
}

BOOST_AUTO_TEST_CASE(the_service_is_named_and_responses_are_bounded) {
  AuthRig named("smtpd_sasl_service = submission\n");
  named.greet();
  named.log_in();
  BOOST_TEST(named.script->service == "submission");
  for (const auto& [limit, code] : std::vector<std::pair<std::string, std::string>>{{"12288", "235"}, {"512", "5"}}) {
    AuthRig rig("smtpd_sasl_response_limit = " + limit + "\n");
    rig.greet();
    rig.script->answers = {challenge(""), {.kind = Kind::ok, .text = {}, .user = "anna"}};
    rig.say("AUTH PLAIN\r\n");
    BOOST_TEST(rig.say(std::string(1000, 'Q') + "\r\n").starts_with(code), limit);
  }
}

BOOST_AUTO_TEST_CASE(initial_responses_come_through_as_they_were_meant) {
  AuthRig rig;
  for (const auto& [command, asked] : std::vector<std::pair<std::string, std::string>>{
           {"AUTH PLAIN", "PLAIN none"}, {"AUTH plain =", "PLAIN <>"}, {"AUTH PLAIN QQ==", "PLAIN <QQ==>"}}) {
    rig.greet();
    rig.script->answers = {{.kind = Kind::failed, .text = "no", .user = {}}};
    BOOST_TEST(rig.say(command + "\r\n") == "535 5.7.8 Error: authentication failed: no\r\n");
    BOOST_TEST(rig.script->asked.back() == asked);
  }
}

BOOST_AUTO_TEST_CASE(the_authenticator_hears_the_clients_address_where_it_is_known) {
  AuthRig rig("smtpd_authorized_xclient_hosts = 192.0.2.7\n");
  rig.greet();
  rig.log_in();
  BOOST_TEST(rig.script->client == "192.0.2.7");
  rig.greet();
  BOOST_TEST(rig.say("XCLIENT ADDR=[UNAVAILABLE]\r\n").starts_with("220"));
  rig.say("EHLO client.example\r\n");
  rig.log_in();
  BOOST_TEST(rig.script->client == "");
}

BOOST_AUTO_TEST_CASE(a_dialogue_goes_on_until_it_is_decided) {
  AuthRig rig;
  rig.greet();
  rig.script->answers = {
      challenge("VXNlcm5hbWU6"), challenge(std::string(4000, 'Q')), {.kind = Kind::ok, .text = {}, .user = "anna"}};
  BOOST_TEST(rig.say("AUTH LOGIN\r\n") == "334 VXNlcm5hbWU6\r\n");
  BOOST_TEST(rig.say("YW5uYQ==\r\n") == "334 " + std::string(4000, 'Q') + "\r\n");  // a long line is not cut
  BOOST_TEST(rig.say("\r\n") == "235 2.7.0 Authentication successful\r\n");
  BOOST_TEST(rig.script->asked.back() == "");
  BOOST_TEST(rig.script->live == 0u);
  BOOST_TEST(rig.say("AUTH PLAIN\r\n").starts_with("503"));
  BOOST_TEST(rig.say("MAIL FROM:<a@x.example>\r\nAUTH PLAIN\r\n") ==
             "250 2.1.0 Ok\r\n503 5.5.1 Error: MAIL transaction in progress\r\n");
}

BOOST_AUTO_TEST_CASE(what_ends_a_dialogue_early_ends_it_at_the_service_too) {
  const std::pair<std::string, std::string> rows[] = {{"*\r\n", "501 5.7.0 "},
                                                      {"no base64\r\n", "501 5.5.2 "},
                                                      {"QQ=\r\n", "501 5.5.2 "},
                                                      {std::string(12289, 'A') + "\r\n", "500 5.5.6 "}};
  AuthRig rig("smtpd_hard_error_limit = 100\n");
  for (const auto& [line, code] : rows) {
    rig.greet();
    rig.script->answers = {challenge("")};
    BOOST_TEST(rig.say("AUTH PLAIN\r\n") == "334 \r\n");
    BOOST_TEST(rig.script->live == 1u);
    BOOST_TEST(rig.say(line).starts_with(code), line.substr(0, 20));
    BOOST_TEST(rig.script->live == 0u);
    BOOST_TEST(rig.say("NOOP\r\n") == "250 2.0.0 Ok\r\n");
  }
  rig.greet();
  rig.script->answers = {challenge(""), {.kind = Kind::failed, .text = {}, .user = {}}};
  rig.say("AUTH PLAIN\r\n");
  BOOST_TEST(rig.say(std::string(12288, 'A') + "\r\n").starts_with("535"));
  rig.script->answers = {challenge("")};
  rig.say("AUTH PLAIN\r\n");
  rig.hang_up();
  BOOST_TEST(rig.script->live == 0u);
}

BOOST_AUTO_TEST_CASE(trouble_of_the_service_is_temporary_and_reasons_cannot_break_a_reply) {
  AuthRig rig;
  rig.greet();
  rig.script->answers = {{.kind = Kind::temporary, .text = "down", .user = {}},
                         {.kind = Kind::failed, .text = "a\r\n250 b\xc3", .user = {}}};
  BOOST_TEST(rig.say("AUTH PLAIN QQ==\r\n").starts_with("454 4.7.0 "));
  BOOST_TEST(rig.say("AUTH PLAIN QQ==\r\n") == "535 5.7.8 Error: authentication failed: a??250 b?\r\n");
  // a mechanism that is not offered does not reach the service
  BOOST_TEST(rig.say("AUTH ANONYMOUS QQ==\r\n").starts_with("535 5.7.8 "));
  BOOST_TEST(rig.script->asked.size() == 2u);
  rig.script->offers.clear();  // the service has never been reached
  rig.script->answers = {{.kind = Kind::temporary, .text = "down", .user = {}}};
  BOOST_TEST(rig.say("AUTH PLAIN QQ==\r\n").starts_with("454 4.7.0 "));
}

BOOST_AUTO_TEST_CASE(auth_in_mail_is_understood_where_nobody_can_log_in) {
  testing::Rig rig;
  rig.connect();
  rig.say("EHLO client.example\r\n");
  BOOST_TEST(rig.say("MAIL FROM:<a@x.example> AUTH=<>\r\n") == "250 2.1.0 Ok\r\n");
}

BOOST_AUTO_TEST_CASE(a_login_permits_and_is_kept_with_the_message) {
  AuthRig rig(
      "smtpd_recipient_restrictions =\n"
      "smtpd_relay_restrictions = permit_sasl_authenticated, reject_unauth_destination\n");
  rig.greet();
  const std::string rcpt = "RCPT TO:<user@elsewhere.example>\r\n";
  BOOST_TEST(rig.say("MAIL FROM:<a@x.example>\r\n" + rcpt).find("554 5.7.1") != std::string::npos);
  rig.say("RSET\r\n");
  rig.log_in();
  BOOST_TEST(rig.say("MAIL FROM:<a@x.example> AUTH=b+2Bc@x.example\r\n" + rcpt) == "250 2.1.0 Ok\r\n250 2.1.5 Ok\r\n");
  rig.say("DATA\r\n");
  rig.say("Subject: x\r\n\r\nx\r\n.\r\n");
  BOOST_REQUIRE(rig.queue.stored.size() == 1u);
  const auto& client = rig.queue.stored[0].envelope.client;
  BOOST_TEST(client.protocol == "ESMTPA");
  BOOST_TEST(client.sasl_method == "PLAIN");
  BOOST_TEST(client.sasl_username == "anna");
  BOOST_TEST(client.sasl_sender == "b+c@x.example");
}

BOOST_AUTO_TEST_CASE(sender_addresses_belong_to_logins) {
  struct Row {
    const char* restriction;
    const char* login;  // "": none
    const char* sender;
    const char* code;
  };
  const Row rows[] = {
      {"reject_sender_login_mismatch", "", "a@x.example", "553"},
      {"reject_sender_login_mismatch", "", "a%x.example@example.org", "553"},
      {"reject_sender_login_mismatch", "", "free@x.example", "250"},
      {"reject_sender_login_mismatch", "", "", "250"},
      {"reject_sender_login_mismatch", "ANNA", "a@x.example", "250"},
      {"reject_sender_login_mismatch", "berta", "a@x.example", "553"},
      {"reject_sender_login_mismatch", "anna", "free@x.example", "553"},
      {"reject_sender_login_mismatch", "berta", "any@y.example", "250"},
      {"reject_authenticated_sender_login_mismatch", "", "a@x.example", "250"},
      {"reject_authenticated_sender_login_mismatch", "berta", "a@x.example", "553"},
      {"reject_authenticated_sender_login_mismatch", "berta", "free@x.example", "553"},
      {"reject_unauthenticated_sender_login_mismatch", "", "a@x.example", "553"},
      {"reject_unauthenticated_sender_login_mismatch", "berta", "a@x.example", "250"},
      {"reject_known_sender_login_mismatch", "", "a@x.example", "553"},
      {"reject_known_sender_login_mismatch", "berta", "a@x.example", "553"},
      {"reject_known_sender_login_mismatch", "berta", "free@x.example", "250"},
      {"check_sasl_access inline:{{anna=reject}}", "", "a@x.example", "250"},
      {"check_sasl_access inline:{{anna=reject}}", "anna", "a@x.example", "554"},
      {"check_sasl_access inline:{{anna=reject}}", "berta", "a@x.example", "250"},
  };
  for (const auto& row : rows) {
    AuthRig rig(
        "smtpd_sender_login_maps = inline:{{a@x.example = anna, clara} {@y.example = berta}}\n"
        "smtpd_sender_restrictions = " +
        std::string(row.restriction) + "\n");
    BOOST_REQUIRE(rig.problem == "");
    rig.greet();
    if (*row.login != '\0') rig.log_in(row.login);
    rig.say("MAIL FROM:<" + std::string(row.sender) + ">\r\n");
    BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n").substr(0, 3) == row.code,
               row.restriction << " " << row.login << " " << row.sender);
  }
}

BOOST_AUTO_TEST_CASE(a_client_has_so_many_attempts_over_all_its_sessions) {
  AuthRig rig("smtpd_client_auth_rate_limit = 2\n");
  rig.server.clients = std::make_shared<testing::CountsHere>(rig.loop);
  rig.script->answers = {{.kind = Kind::failed, .text = {}, .user = {}},
                         {.kind = Kind::failed, .text = {}, .user = {}}};
  for (const char* code : {"535", "535", "450"}) {
    rig.greet();
    BOOST_TEST(rig.say("AUTH PLAIN QQ==\r\n").starts_with(code));
  }
  BOOST_TEST(rig.script->asked.size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_login_with_senders_may_use_those_and_no_others) {
  AuthRig rig;
  rig.greet();
  rig.script->answers = {{.kind = Kind::ok,
                          .text = {},
                          .user = "shop",
                          .senders = std::make_shared<const sasl::Senders>(sasl::Senders{"info@shop.example",
                                                                                         "@b\xc3\xbc"
                                                                                         "cher.example"})}};
  BOOST_TEST(rig.say("AUTH PLAIN QQ==\r\n").starts_with("235"));
  for (const char* no :
       {"boss@shop.example", "", "info@shop.example.evil.example", "x@sub.xn--bcher-kva.example", "info"})
    BOOST_TEST(rig.say("MAIL FROM:<" + std::string(no) + ">\r\n").starts_with("553 5.7.1"), no);
  for (const char* yes : {"info@shop.example", "Info@SHOP.example", "any@xn--bcher-kva.example"}) {
    BOOST_TEST(rig.say("MAIL FROM:<" + std::string(yes) + ">\r\n").starts_with("250"), yes);
    rig.say("RSET\r\n");
  }
  BOOST_TEST(Login().may_send_as("anybody@example.org"));
  BOOST_TEST(
      Login({.method = {}, .username = {}, .senders = std::make_shared<const sasl::Senders>(sasl::Senders{"<>"})})
          .may_send_as(""));
}

BOOST_AUTO_TEST_CASE(refused_recipients_are_no_errors_of_a_client_with_a_token) {
  const std::string limits = "smtpd_hard_error_limit = 20\n";
  std::string said = "MAIL FROM:<a@x.example>\r\n";
  for (int i = 0; i < 25; ++i) said += "RCPT TO:<" + std::to_string(i) + "@elsewhere.example>\r\n";
  const std::string refused =
      "smtpd_recipient_restrictions = check_recipient_access inline:{elsewhere.example=reject}\n";
  AuthRig rig(limits + refused + "smtpd_sasl_type = token\n");
  rig.greet();
  rig.log_in();
  BOOST_TEST(!rig.say(said).contains("421 "));
  BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n").starts_with("250"));
  // Other errors are.
  std::string odd;
  for (int i = 0; i < 20; ++i) odd += "FROB\r\n";
  BOOST_TEST(rig.say(odd).contains("421 4.7.0 "));
  AuthRig other(limits + refused);
  other.greet();
  other.log_in();
  BOOST_TEST(other.say(said).contains("421 4.7.0 "));
}

BOOST_AUTO_TEST_CASE(the_postmaster_is_told_of_auth_without_its_secrets) {
  std::vector<ipc::session_errors::Session> told;
  const auto tell = [&](ipc::session_errors::Session s) { told.push_back(std::move(s)); };
  AuthRig rig("notify_classes = protocol, policy\n");
  rig.server.tell_postmaster = tell;
  rig.greet();
  rig.script->answers = {{.kind = Kind::challenge, .text = "VXNlcm5hbWU6", .user = {}},
                         {.kind = Kind::challenge, .text = "UGFzc3dvcmQ6", .user = {}},
                         {.kind = Kind::ok, .text = {}, .user = "anna"}};
  rig.say("AUTH LOGIN\r\n");
  rig.say("RSET\r\n");  // within AUTH it is base 64
  BOOST_TEST(rig.say("UVVJVA==\r\n").starts_with("235"));
  rig.say("FROB\r\n");
  rig.hang_up();
  BOOST_REQUIRE(told.size() == 1u);
  BOOST_TEST(told[0].transcript.find("In:  AUTH LOGIN\nOut: 334 ***\nIn:  ***\nOut: 334 ***\n"
                                     "In:  ***\nOut: 235 ") != std::string::npos,
             told[0].transcript);
  BOOST_TEST(told[0].transcript.find("In:  FROB\n") != std::string::npos);

  AuthRig bare("notify_classes = protocol, policy\nsmtpd_tls_auth_only = yes\n");
  bare.server.tell_postmaster = tell;
  bare.greet();
  bare.say("AUTH PLAIN QQ==\r\n");
  bare.hang_up();
  BOOST_REQUIRE(told.size() == 2u);
  BOOST_TEST(told[1].classes == mail::ErrorClasses(mail::ErrorClass::protocol).bits());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::smtpd
