#include "lib/map/status_filter.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using mail::Action;

namespace {

map::StatusFilter filter(const std::string& table) {
  auto opened = map::StatusFilter::open({table}, {});
  BOOST_REQUIRE(opened);
  return *std::move(opened);
}
mail::DeliveryStatus status(Action action, std::string dsn, std::string text) {
  return {action, std::move(dsn), std::move(text), "smtp; 450 as it was", "mx.example"};
}
/// The status after the filter, as "action dsn text".
std::string after(const std::string& table, mail::DeliveryStatus s) {
  const auto warning = filter(table).apply(s);
  BOOST_TEST(s.diagnostic == "smtp; 450 as it was");
  BOOST_TEST(s.remote_mta == "mx.example");
  return std::to_string(static_cast<int>(s.action)) + " " + s.dsn + " " + s.text + (warning.empty() ? "" : " !");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(status_filter)

BOOST_AUTO_TEST_CASE(a_status_that_a_table_has_is_replaced) {
  const std::string table = "inline:{ { 4.2.2 full = 5.2.2 no room } { 5.1.1 unknown = 4.1.1  wait } }";
  BOOST_TEST(after(table, status(Action::deferred, "4.2.2", "full")) == "2 5.2.2 no room");
  BOOST_TEST(after(table, status(Action::failed, "5.1.1", "unknown")) == "1 4.1.1 wait");
  BOOST_TEST(after(table, status(Action::failed, "5.1.1", "other")) == "2 5.1.1 other");
}

BOOST_AUTO_TEST_CASE(nothing_is_given_up_while_others_may_be_asked) {
  const auto full = status(Action::deferred, "4.2.2", "full");
  for (const auto& [answer, after] : {std::pair("5.2.2 no room", "4.2.2 full"), {"4.3.1 wait", "4.3.1 wait"}}) {
    auto s = full;
    BOOST_TEST(filter(std::string("static:{") + answer + "}").apply(s, false) == "");
    BOOST_TEST((s.action == Action::deferred));
    BOOST_TEST(s.dsn + " " + s.text == after);
  }
  auto gone = status(Action::failed, "5.1.1", "unknown");
  BOOST_TEST(filter("static:{5.2.1 off}").apply(gone, false) == "");
  BOOST_TEST(gone.dsn == "5.2.1");
}

BOOST_AUTO_TEST_CASE(success_keeps_its_kind_and_stays_success) {
  for (const auto action : {Action::delivered, Action::relayed, Action::transferred})
    BOOST_TEST(after("static:{2.6.0 done}", status(action, "2.0.0", "to |secret")) ==
               std::to_string(static_cast<int>(action)) + " 2.6.0 done");
  BOOST_TEST(after("static:{5.0.0 no}", status(Action::delivered, "2.0.0", "sent")) == "0 2.0.0 sent !");
  BOOST_TEST(after("static:{2.0.0 yes}", status(Action::failed, "5.0.0", "no")) == "2 5.0.0 no !");
  BOOST_TEST(after("static:{2.0.0 yes}", status(Action::deferred, "4.0.0", "no")) == "1 4.0.0 no !");
}

BOOST_AUTO_TEST_CASE(an_answer_that_is_none_changes_nothing_and_is_told) {
  for (const char* bad :
       {"5.1.1", "no code", "5.1 text", "6.1.1 text", "5.1.1111 text", "5..1 x", "5.1.x text", "3.0.0 text"})
    BOOST_TEST(after(std::string("static:{") + bad + "}", status(Action::failed, "5.0.0", "no")) == "2 5.0.0 no !",
               bad);
  BOOST_TEST(after("fail:away", status(Action::failed, "5.0.0", "no")) == "2 5.0.0 no !");
  BOOST_TEST(map::StatusFilter().empty());
  BOOST_TEST(after("nokind:x", status(Action::failed, "5.0.0", "no")) == "2 5.0.0 no !");
  BOOST_TEST(!filter("nokind:x").problems().empty());
}

BOOST_AUTO_TEST_SUITE_END()
