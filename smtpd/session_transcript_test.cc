#include <boost/test/unit_test.hpp>

#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using ipc::session_errors::Role;
using mail::ErrorClass;

BOOST_AUTO_TEST_SUITE(session_transcripts)

namespace {

/// A server that reports sessions with errors of `classes` to the postmaster.
struct Told : smtpd::testing::Rig {
  explicit Told(std::string classes, std::string main_cf = {}) : Rig("notify_classes = " + classes + "\n" + main_cf) {
    server.tell_postmaster = [this](ipc::session_errors::Session s) { told.push_back(std::move(s)); };
  }
  /// Runs one session line by line; returns the reports to the postmaster.
  std::vector<ipc::session_errors::Session> after(std::string_view commands) {
    told.clear();
    (void)connect();
    while (!commands.empty()) {
      const auto end = commands.find('\n') + 1;
      (void)say(commands.substr(0, end));
      commands.remove_prefix(end);
    }
    hang_up();
    return std::exchange(told, {});
  }
  /// The same, with all lines after EHLO in one group.
  std::vector<ipc::session_errors::Session> after_group(std::string_view commands) {
    told.clear();
    (void)connect();
    (void)say("EHLO there\r\n");
    (void)say(commands);
    hang_up();
    return std::exchange(told, {});
  }
  std::vector<ipc::session_errors::Session> told;
};

bool is(const std::vector<ipc::session_errors::Session>& told, ErrorClass one) {
  return told.size() == 1 && told[0].classes == mail::ErrorClasses(one).bits();
}

std::string mail_to(std::string_view rcpt) {
  return "EHLO there\r\nMAIL FROM:<ada@example.net>\r\nRCPT TO:<" + std::string(rcpt) + ">\r\n";
}
const std::string kAll = "bounce, data, policy, protocol, resource, software";

}  // namespace

BOOST_AUTO_TEST_CASE(each_kind_of_refusal_is_told_as_its_class) {
  Told rig(kAll);
  BOOST_TEST(is(rig.after("EHLO there\r\nFROB\r\nQUIT\r\n"), ErrorClass::protocol));
  BOOST_TEST(is(rig.after(mail_to("x@elsewhere.example") + "QUIT\r\n"), ErrorClass::policy));
  BOOST_TEST(is(rig.after(mail_to("gone@example.org") + "QUIT\r\n"), ErrorClass::bounce));
  rig.queue.is_accepting = false;
  BOOST_TEST(is(rig.after("EHLO there\r\nMAIL FROM:<ada@example.net>\r\n"), ErrorClass::resource));
  rig.queue.is_accepting = true;
  BOOST_TEST(rig.after(mail_to("user@example.org") + "DATA\r\nx\r\n.\r\nQUIT\r\n").empty());
  Told broken(kAll, "smtpd_recipient_restrictions = no_such_restriction, reject\n");
  BOOST_TEST(is(broken.after(mail_to("user@example.org") + "QUIT\r\n"), ErrorClass::software));
  Told unread(kAll,
              "smtpd_recipient_restrictions = check_client_access fail:broken\n"
              "smtpd_relay_restrictions = reject_unauth_destination\n");
  BOOST_TEST(is(unread.after(mail_to("user@example.org") + "QUIT\r\n"), ErrorClass::data));
}

BOOST_AUTO_TEST_CASE(only_what_notify_classes_names_is_told) {
  Told rig("policy");
  BOOST_TEST(rig.after("EHLO there\r\nFROB\r\nQUIT\r\n").empty());
  const auto told = rig.after(mail_to("x@elsewhere.example") + "FROB\r\nQUIT\r\n");
  BOOST_TEST(is(told, ErrorClass::policy));
  BOOST_TEST((told.at(0).role == Role::smtp_server));
  BOOST_TEST(told.at(0).peer == "client.example[192.0.2.7]");
  BOOST_TEST(told.at(0).reason == "");
  BOOST_TEST(told.at(0).transcript.starts_with("Out: 220 mx.example.org"));
  for (const char* line :
       {"In:  EHLO there\nOut: 250-mx.example.org\n", "In:  RCPT TO:<x@elsewhere.example>\nOut: 454 ",
        "In:  FROB\nOut: 500 ", "In:  QUIT\nOut: 221 2.0.0 Bye\n"})
    BOOST_TEST(told.at(0).transcript.find(line) != std::string::npos, line);
}

BOOST_AUTO_TEST_CASE(without_a_class_nothing_is_kept) {
  Told rig("bounce, 2bounce, delay");
  BOOST_TEST(rig.policy->told.has(ErrorClass::bounce));
  Told none("");
  BOOST_TEST(none.after("FROB\r\n").empty());
  Told wrong("protocoll");
  BOOST_TEST(wrong.after("FROB\r\n").empty());
  BOOST_REQUIRE(!wrong.policy->warnings.empty());
  BOOST_TEST(wrong.policy->warnings.back().starts_with("notify_classes: protocoll: "));
}

BOOST_AUTO_TEST_CASE(content_is_not_told_and_pipelined_recipients_are) {
  Told rig("policy", "smtpd_end_of_data_restrictions = reject\n");
  auto told = rig.after(mail_to("user@example.org") + "DATA\r\nSubject: private\r\n\r\nwords\r\n.\r\n");
  BOOST_TEST(is(told, ErrorClass::policy));
  BOOST_TEST(told.at(0).transcript.find("private") == std::string::npos);
  BOOST_TEST(told.at(0).transcript.find("words") == std::string::npos);
  BOOST_TEST(told.at(0).transcript.find("Out: 354 ") != std::string::npos);
  told = rig.after(mail_to("user@example.org") + "BDAT 9 LAST\r\nprivate\r\n");
  BOOST_TEST(is(told, ErrorClass::policy));
  BOOST_TEST(told.at(0).transcript.find("private") == std::string::npos);
  BOOST_TEST(told.at(0).transcript.find("In:  BDAT 9 LAST\nOut: 554 ") != std::string::npos);
  BOOST_TEST(told.at(0).reason == "lost connection");

  Told slow("policy", "smtpd_recipient_restrictions = reject_unknown_recipient_domain\n");
  slow.names.domains["none.example"] = NameState::missing;
  told = slow.after_group(
      "MAIL FROM:<ada@example.net>\r\nRCPT TO:<user@example.org>\r\n"
      "RCPT TO:<b@none.example>\r\nRCPT TO:<root@example.org>\r\nQUIT\r\n");
  BOOST_TEST(is(told, ErrorClass::policy));
  for (const char* rcpt : {"<user@example.org>", "<b@none.example>", "<root@example.org>"})
    BOOST_TEST(told.at(0).transcript.find(std::string("In:  RCPT TO:") + rcpt) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_went_well_is_forgotten) {
  Told rig("protocol");
  const auto told = rig.after(mail_to("user@example.org") + "DATA\r\nx\r\n.\r\nNOOP\r\nFROB\r\nQUIT\r\n");
  BOOST_TEST(is(told, ErrorClass::protocol));
  BOOST_TEST(told.at(0).transcript.find("RCPT") == std::string::npos);
  BOOST_TEST(told.at(0).transcript.find("In:  FROB\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_message_that_is_taken_makes_up_for_what_was_refused_before) {
  Told rig(kAll);
  const std::string list = mail_to("user@example.org") + "RCPT TO:<gone@example.org>\r\n";
  BOOST_TEST(rig.after(list + "DATA\r\nx\r\n.\r\nQUIT\r\n").empty());
  BOOST_TEST(rig.after(list + "BDAT 3 LAST\r\nx\r\nQUIT\r\n").empty());
  BOOST_TEST(is(rig.after(list + "QUIT\r\n"), ErrorClass::bounce));
}

BOOST_AUTO_TEST_CASE(a_long_session_is_told_in_pieces) {
  Told rig("protocol", "smtpd_history_flush_threshold = 10\nsmtpd_hard_error_limit = 1000\n");
  std::string many = "EHLO there\r\n";
  for (int i = 0; i < 12; ++i) many += "FROB " + std::to_string(i) + "\r\n";
  const auto told = rig.after(many + "QUIT\r\n");
  BOOST_TEST(told.size() > 1u);
  for (int i = 0; i < 12; ++i) {
    int seen = 0;
    for (const auto& one : told)
      seen += one.transcript.find("In:  FROB " + std::to_string(i) + "\n") != std::string::npos;
    BOOST_TEST(seen == 1);
  }
  // No error since: nothing is reported.
  Told calm("protocol", "smtpd_history_flush_threshold = 10\n");
  std::string noops = "FROB\r\n";
  for (int i = 0; i < 30; ++i) noops += "NOOP\r\n";
  BOOST_TEST(calm.after(noops).size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
