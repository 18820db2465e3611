/// What receivers are answered, and when.
#include "qmgr/new_mail.h"

#include "qmgr/parts_fixture.h"

namespace pen::qmgr {
namespace {

using ipc::enqueue::Outcome;

struct Receiver : AdmissionFixture {
  NewMail new_mail{around, active, acknowledgements, reports, admission, runners};
  std::vector<Outcome> answers;

  void send(mail::Envelope e, const std::string& body = "body\r\n", std::uint64_t spool_file = 0) {
    e.body.size = body.size();
    new_mail.enqueue(std::move(e), 0, spool_file == 0 ? body : "", spool_file, 0,
                     [this](Outcome o, const std::string&) { answers.push_back(o); });
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
