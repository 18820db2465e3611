/// Notices from before a restart are found, once, and by the recipients that they are about.
#include "qmgr/discharges.h"

#include "qmgr/parts_fixture.h"

namespace pen::qmgr {
namespace {

struct Notices : PartsFixture {
  Discharges discharges{around};
  mail::Envelope notice(const std::string& id, const std::string& about, const std::string& from = "") {
    mail::Envelope e = envelope(id, {"s@x.example"}, from);
    e.discharges.push_back({about, {0}, static_cast<std::uint8_t>(ipc::bounce::Kind::failure)});
    return e;
  }
  void look_through() {
    for (int i = 0; i < 1000 && !discharges.look(); ++i) BOOST_TEST(discharges.looking());
    BOOST_TEST(discharges.known());
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(discharges, Notices)

BOOST_AUTO_TEST_CASE(a_notice_in_the_queue_is_found_and_taken_once) {
  stored(notice("N1", "A1"));
  stored(envelope("A2"));
  BOOST_TEST(!discharges.known());
  look_through();
  const auto found = discharges.take("A1");
  BOOST_REQUIRE(found.size() == 1U);
  BOOST_TEST(found[0].queue_id == "A1");
  BOOST_TEST(discharges.take("A1").empty());
  BOOST_TEST(discharges.take("A2").empty());
}

BOOST_AUTO_TEST_CASE(mail_of_others_discharges_nothing) {
  stored(notice("N1", "A1", "s@x.example"));
  look_through();
  BOOST_TEST(discharges.take("A1").empty());
}

BOOST_AUTO_TEST_CASE(a_notice_about_a_notice_is_known_by_its_sender) {
  around.options.double_bounce_sender = "double-bounce@mx.example";
  stored(notice("N1", "A1", "Double-Bounce@mx.example"));
  look_through();
  BOOST_TEST(discharges.take("A1").size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_notice_that_was_delivered_meanwhile_is_remembered) {
  discharges.add(notice("N1", "A1"));
  BOOST_TEST(discharges.take("A1").size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
