#include "penapi/selection.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::api;
using ipc::queue::Verb;

namespace {
constexpr const char* kId = "4jYBDz5JQyzy2qdhL";
std::string wrong(std::string_view body) {
  const auto act = order_of(body, Verb::hold);
  return act ? "" : act.error();
}
}  // namespace

BOOST_AUTO_TEST_SUITE(selection)

BOOST_AUTO_TEST_CASE(messages_are_chosen_by_id_by_filter_or_all) {
  const auto by_id = order_of(std::string("{\"ids\": [\"") + kId + "\"], \"dry_run\": true}", Verb::remove).value();
  BOOST_CHECK((by_id.queue_ids == std::vector<std::string>{kId}));
  BOOST_CHECK(by_id.dry_run && !by_id.all && by_id.verb == Verb::remove);
  const auto by_filter =
      order_of(R"({"filter": {"sender": "a@b", "older": 3600, "state": "deferred,hold"}})", Verb::hold).value();
  BOOST_CHECK_EQUAL(by_filter.filter.sender, "a@b");
  BOOST_CHECK(by_filter.filter.older == seconds(3600));
  BOOST_CHECK(by_filter.all && !by_filter.dry_run);
  BOOST_CHECK_EQUAL(by_filter.filter.places,
                    ipc::queue::bit_of(ipc::queue::Place::deferred) | ipc::queue::bit_of(ipc::queue::Place::hold));
  BOOST_CHECK(order_of(R"({"all": true})", Verb::flush).value().all);
}

BOOST_AUTO_TEST_CASE(an_order_that_could_mean_everything_by_mistake_is_refused) {
  for (const char* body :
       {"", "{}", "[]", "null", R"({"all": false})", R"({"filter": {}})", R"({"ids": []})", R"({"ids": ["../x"]})",
        R"({"ids": [1]})", R"({"id": "x"})", R"({"all": "yes"})", R"({"filter": {"sendr": "a@b"}})",
        R"({"filter": {"older": -1}})", R"({"filter": {"state": "gone"}})", R"({"filter": {"sender": ""}})",
        "{\"all\": true", R"({"all": true, "dry_run": "no"})", R"({"all": true, "ids": ["4jYBDz5JQyzy2qdhL"]})"})
    BOOST_CHECK_MESSAGE(!wrong(body).empty(), body);
}

BOOST_AUTO_TEST_CASE(a_query_is_used_up) {
  std::map<std::string, std::string> query{{"recipient", "@b"}, {"limit", "7"}, {"other", "x"}};
  ipc::queue::Filter filter;
  BOOST_CHECK_EQUAL(take_filter(query, filter), "");
  BOOST_CHECK_EQUAL(filter.recipient, "@b");
  BOOST_CHECK_EQUAL(take_number(query, "limit", 1, 10).value(), 7U);
  BOOST_CHECK_EQUAL(take_number(query, "limit", 1, 10).value(), 1U);
  BOOST_CHECK_EQUAL(query.size(), 1U);
  for (const char* bad : {"", "-1", "11", "1x", "99999999999999999999999"}) {
    query["n"] = bad;
    BOOST_CHECK_MESSAGE(!take_number(query, "n", 1, 10), bad);
  }
}

BOOST_AUTO_TEST_SUITE_END()
