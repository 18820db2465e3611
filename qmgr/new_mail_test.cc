/// What receivers are answered, and when.
#include "qmgr/new_mail.h"

#include "qmgr/parts_fixture.h"

namespace pen::qmgr {
namespace {

using ipc::enqueue::Outcome;

struct Receiver : AdmissionFixture {
  NewMail new_mail{around, active, acknowledgements, reports, admission, runners};
  std::vector<Outcome> answers;

  std::string why;  // of the last answer

  void send(mail::Envelope e, const std::string& body = "body\r\n", std::uint64_t spool_file = 0,
            const ipc::Carrier& carrier = ipc::kAnyField) {
    e.body.size = body.size();
    new_mail.enqueue(std::move(e), 0, spool_file == 0 ? body : "", spool_file, 0,
                     [this](Outcome o, const std::string& text) {
                       answers.push_back(o);
                       why = text;
                     },
                     {.carrier = carrier});
  }
  bool answered(std::vector<Outcome> with) const { return answers == with; }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(new_mail, Receiver)

BOOST_AUTO_TEST_CASE(the_answer_comes_when_the_message_is_durable_and_before_the_work) {
  send(envelope("A1"));
  BOOST_TEST(answers.empty());
  BOOST_TEST(!new_mail.any_to_admit());
  settle_results();
  BOOST_TEST(answered({Outcome::ok}));
  BOOST_TEST(active.size() == 0U);
  BOOST_TEST(new_mail.any_to_admit());
  new_mail.admit();
  BOOST_TEST(in_work() == "A1 ");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_delivered_is_refused_at_once_and_its_file_is_free) {
  send(envelope("A1", {}), "body\r\n", 3);
  BOOST_TEST(answered({Outcome::refused}));
  BOOST_TEST((ports.released == std::vector<std::uint64_t>{3}));
  BOOST_TEST(!stored_anywhere("A1"));
}

BOOST_AUTO_TEST_CASE(the_same_message_again_is_ok_and_taken_once) {
  send(envelope("A1"));
  send(envelope("A1"), "body\r\n", 3);
  BOOST_TEST((ports.released == std::vector<std::uint64_t>{3}));
  settle_results();
  BOOST_TEST(answered({Outcome::ok, Outcome::ok}));
  new_mail.admit();
  BOOST_TEST(active.size() == 1U);
  BOOST_TEST(new_mail.accepted() == 1U);
}

BOOST_AUTO_TEST_CASE(a_discharge_without_a_permit_is_refused) {
  mail::Envelope e = envelope("A1");
  e.discharges.push_back({"B1", {0}, 0});
  send(std::move(e));
  BOOST_TEST(answered({Outcome::refused}));
}

BOOST_AUTO_TEST_CASE(what_its_program_may_not_set_is_refused_and_its_file_is_free) {
  struct Row {
    const char *program, *field;
    void (*set)(mail::Envelope&);
  };
  const Row rows[] = {
      {"smtpd", "transport", [](mail::Envelope& e) { e.transport = "piped:"; }},
      {"smtpd", "transport error:", [](mail::Envelope& e) { e.transport = "error:5.0.0 no"; }},
      {"smtpd", "purpose probe", [](mail::Envelope& e) { e.purpose = mail::Purpose::probe; }},
      {"smtpd", "discharges", [](mail::Envelope& e) { e.discharges = {{"B1", {0}, 0}}; }},
      {"tlsrpt", "hold", [](mail::Envelope& e) { e.hold = true; }},
      {"tlsrpt", "filter", [](mail::Envelope& e) { e.filter = "piped:"; }},
      {"qmqpd", "verp", [](mail::Envelope& e) { e.verp = "+="; }},
      {"verify", "tenant", [](mail::Envelope& e) { e.tenant = "acme"; }},
  };
  for (const Row& row : rows) {
    mail::Envelope e = envelope("A1");
    row.set(e);
    answers.clear();
    ports.released.clear();
    send(std::move(e), "body\r\n", 3, ipc::carrier_of(row.program));
    BOOST_TEST(answered({Outcome::refused}), row.field);
    BOOST_TEST(why == std::string("an envelope of ") + row.program + " may not have this: " + row.field);
    BOOST_TEST((ports.released == std::vector<std::uint64_t>{3}));
    BOOST_TEST(!stored_anywhere("A1"));
  }
  mail::Envelope e = envelope("A2");
  e.hold = true;
  e.tenant = "acme";
  answers.clear();
  send(std::move(e), "body\r\n", 0, ipc::carrier_of("smtpd"));
  settle_results();
  BOOST_TEST(answered({Outcome::ok}));
}

BOOST_AUTO_TEST_CASE(a_program_names_what_settings_let_it_name) {
  around.options.filters = {{"smtpd", {.named = {"smtp:[127.0.0.1]:10025"}}}, {"qmqpd", {.any = true}}};
  around.options.transports = {{"local", {.named = {"lmtp:unix:private/box"}}}};
  struct Row {
    const char *program, *filter, *transport;
    const char* refused;  // the field; "": taken
  };
  const Row rows[] = {
      {"smtpd", "smtp:[127.0.0.1]:10025", "", ""}, {"smtpd", "smtp:[127.0.0.1]:10026", "", "filter"},
      {"smtpd", "piped:", "", "filter"},           {"qmqpd", "piped:", "", ""},
      {"local", "", "lmtp:unix:private/box", ""},  {"local", "", "error:5.1.1 nobody", ""},
      {"local", "", "piped:", "transport"},
  };
  int number = 0;
  for (const Row& row : rows) {
    mail::Envelope e = envelope("A" + std::to_string(++number));
    e.filter = row.filter;
    e.transport = row.transport;
    answers.clear();
    why.clear();
    send(std::move(e), "body\r\n", 0, ipc::carrier_of(row.program));
    settle_results();
    const std::string field = row.refused;
    BOOST_TEST(answered({field.empty() ? Outcome::ok : Outcome::refused}), number);
    if (!field.empty())
      BOOST_TEST(why == std::string("an envelope of ") + row.program + " may not have this: " + field +
                            ", which no setting names");
  }
  mail::Envelope e = envelope("B1");  // root's
  e.filter = "piped:";
  e.transport = "piped:";
  answers.clear();
  send(std::move(e));
  settle_results();
  BOOST_TEST(answered({Outcome::ok}));
}

BOOST_AUTO_TEST_CASE(what_finds_no_room_is_left_to_the_journals_runner) {
  run();
  around.options.active_messages = 1;
  send(envelope("A1"));
  send(envelope("A2"));
  settle_results();
  BOOST_TEST(answered({Outcome::ok, Outcome::ok}));
  new_mail.admit();
  BOOST_TEST(in_work() == "A1 ");
  BOOST_TEST(runners.any_due());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
