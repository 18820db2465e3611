#include "penapi/routes.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "lib/base/text.h"
#include "lib/suite/events/event.h"
#include "penapi/page.h"

using namespace pen;
using namespace pen::api;

namespace {

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  BOOST_REQUIRE_MESSAGE(in, path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::set<std::string> own_routes() {
  std::set<std::string> out;
  for (const Route& r : routes()) out.insert(std::string(r.method) + " " + std::string(r.pattern));
  return out;
}

Match find(std::string method, std::vector<std::string> path) {
  Request request;
  request.method = std::move(method);
  request.path = std::move(path);
  return find_route(request);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(api_routes)

BOOST_AUTO_TEST_CASE(the_page_has_every_type_of_events_to_choose_from) {
  const auto at = page::kScript.find("const eventTypes = [");
  BOOST_REQUIRE(at != std::string_view::npos);
  const std::string_view list = page::kScript.substr(at, page::kScript.find(']', at) - at);
  std::size_t names = 0;
  for (unsigned i = 0; i < static_cast<unsigned>(events::Type::kEnd); ++i, ++names) {
    const std::string name(events::name_of(static_cast<events::Type>(i)));
    BOOST_TEST(list.contains('"' + name + '"'), name);
  }
  BOOST_TEST(static_cast<std::size_t>(std::ranges::count(list, '"')) == 2 * names);
}

BOOST_AUTO_TEST_CASE(a_request_finds_its_route) {
  BOOST_CHECK_EQUAL(find("GET", {"metrics"}).route->pattern, "/metrics");
  BOOST_CHECK_EQUAL(find("HEAD", {"metrics"}).route->pattern, "/metrics");
  const auto message = find("DELETE", {"api", "v1", "queue", "ABC"});
  BOOST_CHECK_EQUAL(message.route->pattern, "/api/v1/queue/{id}");
  BOOST_CHECK_EQUAL(message.argument, "ABC");
  BOOST_CHECK_EQUAL(find("POST", {"api", "v1", "queue", "hold"}).route->pattern, "/api/v1/queue/hold");
  const auto suspend = find("POST", {"api", "v1", "destinations", "mx.example", "suspend"});
  BOOST_CHECK_EQUAL(suspend.argument, "mx.example");
  BOOST_CHECK(suspend.route->access == Access::order);
}

BOOST_AUTO_TEST_CASE(another_method_is_told_which_there_are_and_other_paths_are_not_found) {
  BOOST_CHECK_EQUAL(find("POST", {"metrics"}).allow, "GET");
  BOOST_CHECK(find("POST", {"metrics"}).route == nullptr);
  BOOST_CHECK_EQUAL(find("PUT", {"api", "v1", "queue", "ABC"}).allow, "GET, DELETE");
  BOOST_CHECK(find("GET", {}).route != nullptr);  // the page
  for (const auto& path :
       {std::vector<std::string>{"api"}, {"page"}, {"metrics", "x"}, {"api", "v1", "queue", "a", "b"}}) {
    BOOST_CHECK(find("GET", path).route == nullptr);
    BOOST_CHECK_EQUAL(find("GET", path).allow, "");
  }
}

BOOST_AUTO_TEST_CASE(whatever_changes_something_needs_a_token) {
  for (const Route& r : routes())
    BOOST_CHECK_MESSAGE((r.method == "GET") == (r.access == Access::open || r.access == Access::read), r.pattern);
}

BOOST_AUTO_TEST_CASE(the_openapi_description_has_each_route_and_no_other) {
  const auto j = nlohmann::json::parse(content_of("conf/penapi-openapi.json"), nullptr, false);
  BOOST_REQUIRE(j.is_object());
  std::set<std::string> described;
  for (const auto& [path, methods] : j.at("paths").items()) {
    for (const auto& [method, operation] : methods.items()) {
      std::string name = method;
      for (char& c : name) c = static_cast<char>(c - 'a' + 'A');
      described.insert(name + " " + path);
      BOOST_CHECK_MESSAGE(operation.contains("summary") && operation.contains("responses"), path);
      const bool by_token = operation.contains("security") && !operation.at("security").empty();
      const auto* row =
          std::ranges::find_if(routes(), [&](const Route& r) { return r.method == name && r.pattern == path; }).base();
      if (row != routes().data() + routes().size())
        BOOST_CHECK_MESSAGE(by_token == (row->access == Access::order || row->access == Access::submit),
                            name << " " << path);
    }
  }
  BOOST_TEST(described == own_routes(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_page_has_each_route_and_no_other) {
  std::set<std::string> described;
  std::istringstream page(content_of("docs/api.md"));
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    const auto end = line.find('`', 3);
    const std::string name = line.substr(3, end - 3);
    if (name.contains(" /")) described.insert(name);
  }
  BOOST_TEST(described == own_routes(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
