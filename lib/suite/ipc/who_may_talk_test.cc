#include "lib/suite/ipc/who_may_talk.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace pen::ipc {
namespace {

std::string content_of(const char* path) {
  const std::ifstream in(path);
  BOOST_REQUIRE(in.is_open());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// "a b" as the page has it.
std::string on_page(std::string_view names) {
  std::string out;
  std::istringstream words{std::string(names)};
  for (std::string word; words >> word;) out += (out.empty() ? "`" : ", `") + word + "`";
  return out;
}

std::string rows_of_partners() {
  std::string out;
  for (const Partners& row : all_partners()) {
    std::string clients = row.clients == "*" ? "all" : row.clients.empty() ? "root alone" : on_page(row.clients);
    if (row.users) clients += "; users";
    out += "| `" + std::string(row.conversation) + "` | " + on_page(row.servers) + " | " + clients + " |\n";
  }
  return out;
}

/// Whether it asks, directly or by others, a program that asks it. qmgr is never replaced beside others: of it there is
/// one at a time.
bool asks_in_a_circle(const std::string& program, std::vector<std::string> way) {
  if (std::ranges::find(way, program) != way.end()) return true;
  way.push_back(program);
  for (const Partners& row : all_partners()) {
    if (!may_hold(program, row.conversation)) continue;
    std::istringstream servers{std::string(row.servers)};
    for (std::string server; servers >> server;)
      if (server != "qmgr" && !may_talk(server, program) && asks_in_a_circle(server, way)) return true;
  }
  return false;
}

std::string rows_of_carriers() {
  std::string out;
  for (const Carrier& row : all_carriers()) {
    std::string fields;
    for (unsigned bit = 1; bit <= static_cast<unsigned>(EnvelopeField::signer); bit *= 2) {
      const auto field = static_cast<EnvelopeField>(bit);
      if (row.may(field)) fields += (fields.empty() ? "" : ", ") + std::string(name_of(field));
    }
    out += "| `" + std::string(row.program) + "` | " + (fields.empty() ? "none" : fields) + " |\n";
  }
  return out;
}

BOOST_AUTO_TEST_SUITE(who_may_talk)

BOOST_AUTO_TEST_CASE(the_page_has_both_tables) {
  const std::string page = content_of("docs/who-may-talk.md");
  for (const std::string& rows : {rows_of_partners(), rows_of_carriers()})
    BOOST_CHECK_MESSAGE(page.contains("| --- |\n" + rows + "\n"), "docs/who-may-talk.md should have\n" << rows);
}

BOOST_AUTO_TEST_CASE(who_hands_in_mail_has_a_row_of_fields_and_nobody_else) {
  for (const Carrier& row : all_carriers()) BOOST_TEST(may_hold(row.program, "enqueue"), row.program);
  for (const char* program : {"smtp", "lmtp", "qmgr", "anvil", "trivial-rewrite", "penapi", "keys", "error", ""})
    BOOST_TEST(!may_hold(program, "enqueue"), program);
}

BOOST_AUTO_TEST_CASE(names_are_compared_whole) {
  BOOST_TEST(may_hold("smtpd", "session_errors"));
  BOOST_TEST(may_hold("smtp", "session_errors"));
  BOOST_TEST(!may_hold("smt", "session_errors"));
  BOOST_TEST(!may_hold("smtpd smtp", "session_errors"));
  BOOST_TEST(!may_hold("", "session_errors"));
  BOOST_TEST(!may_hold("", "trace"));
  BOOST_TEST(!may_hold("", "events"));
  BOOST_TEST(!may_hold("*", "enqueue"));
  BOOST_TEST(may_hold("anvil", "events"));
  BOOST_TEST(!may_hold("smtpd", "no such conversation"));
}

BOOST_AUTO_TEST_CASE(who_may_talk_has_a_conversation_with_the_other) {
  BOOST_TEST(may_talk("smtpd", "anvil"));
  BOOST_TEST(!may_talk("smtp", "anvil"));
  BOOST_TEST(!may_talk("smtpd", "local"));
  BOOST_TEST(may_talk("qmgr", "local"));
  BOOST_TEST(may_talk("error", "penevents"));
}

BOOST_AUTO_TEST_CASE(each_field_is_refused_to_who_may_not_set_it) {
  using enum EnvelopeField;
  struct Row {
    EnvelopeField field;
    void (*set)(mail::Envelope&);
  };
  const Row rows[] = {
      {error_transport, [](mail::Envelope& e) { e.transport = "error:5.1.1 nobody"; }},
      {transport, [](mail::Envelope& e) { e.transport = "piped:"; }},
      {filter, [](mail::Envelope& e) { e.filter = "smtp:[127.0.0.1]:10025"; }},
      {hold, [](mail::Envelope& e) { e.hold = true; }},
      {traced, [](mail::Envelope& e) { e.purpose = mail::Purpose::traced; }},
      {probe, [](mail::Envelope& e) { e.purpose = mail::Purpose::probe; }},
      {verification, [](mail::Envelope& e) { e.purpose = mail::Purpose::verification; }},
      {discharges, [](mail::Envelope& e) { e.discharges = {{"A1", {0}, 0}}; }},
      {verp, [](mail::Envelope& e) { e.verp = "+="; }},
      {tenant, [](mail::Envelope& e) { e.tenant = "acme"; }},
  };
  for (const Row& row : rows) {
    mail::Envelope envelope;
    row.set(envelope);
    BOOST_TEST(forbidden_field(envelope, kAnyField) == "");
    for (const Carrier& carrier : all_carriers())
      BOOST_TEST(forbidden_field(envelope, carrier) == (carrier.may(row.field) ? "" : name_of(row.field)),
                 carrier.program << ", " << name_of(row.field));
    BOOST_TEST(forbidden_field(envelope, carrier_of("somebody")) == name_of(row.field));
  }
  for (const Carrier& carrier : all_carriers()) BOOST_TEST(forbidden_field(mail::Envelope{}, carrier) == "");
  BOOST_TEST(refused_field(carrier_of("smtpd"), "hold").contains("smtpd"));
}

BOOST_AUTO_TEST_CASE(programs_can_be_replaced_with_those_first_that_they_ask) {
  for (const Partners& row : all_partners()) {
    std::istringstream servers{std::string(row.servers)};
    for (std::string server; servers >> server;)
      BOOST_TEST((server == "qmgr" || !asks_in_a_circle(server, {})),
                 server << " asks in a circle: a reload would not know where to begin");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::ipc
