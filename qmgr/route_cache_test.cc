#include "qmgr/route_cache.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::qmgr;

namespace {
ipc::route::Resolved answer(seconds valid_for, bool for_domain = true,
                            const std::string& recipient = "first@a.example") {
  ipc::route::Resolved r;
  r.transport = "smtp";
  r.nexthop = "a.example";
  r.recipient = recipient;
  r.valid_for = valid_for;
  r.for_domain = for_domain;
  return r;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(route_cache)

BOOST_AUTO_TEST_CASE(a_route_serves_the_plain_addresses_of_its_domain_for_its_time) {
  RouteCache cache;
  const SteadyTime start{seconds(1000)};
  cache.add("first@a.example", answer(seconds(30)), start);
  const auto* known = cache.find("second.user+ext@A.Example", start + milliseconds(10'100));
  BOOST_REQUIRE(known != nullptr);
  BOOST_TEST(known->transport == "smtp");
  BOOST_TEST(known->recipient == "second.user+ext@A.Example");
  BOOST_TEST(known->valid_for.count() == 19);
  BOOST_TEST(cache.find("first@b.example", start) == nullptr);
  BOOST_TEST(cache.find("first@sub.a.example", start) == nullptr);
  BOOST_TEST(cache.find("first@a.example", start + milliseconds(29'500)) == nullptr);
  cache.add("first@a.example", answer(seconds(3600)), start);
  BOOST_TEST(cache.find("first@a.example", start + seconds(58)) != nullptr);
  BOOST_TEST(cache.find("first@a.example", start + seconds(60)) == nullptr);
}

BOOST_AUTO_TEST_CASE(what_may_hide_another_host_is_asked_for) {
  RouteCache cache;
  const SteadyTime now{};
  cache.add("first@a.example", answer(seconds(60)), now);
  for (const char* recipient : {"user%host@a.example", "host!user@a.example", "\"user@host\"@a.example", "@a.example",
                                "a.example", "user@", "\"a b\"@a.example", "us\xc3\xa9r@a.example"})
    BOOST_TEST(cache.find(recipient, now) == nullptr, recipient);
  BOOST_TEST(cache.find("user@a.example", now) != nullptr);
  cache.clear();
  BOOST_TEST(cache.find("user@a.example", now) == nullptr);
}

BOOST_AUTO_TEST_CASE(only_answers_for_a_domain_are_kept_and_so_many) {
  RouteCache cache;
  const SteadyTime now{};
  cache.add("first@a.example", answer(seconds(60), false), now);
  BOOST_TEST(cache.size() == 0U);
  cache.add("first@a", answer(seconds(60)), now);  // was completed
  BOOST_TEST(cache.size() == 0U);
  for (std::size_t i = 0; i < 3 * RouteCache::kMost; ++i) {
    const std::string recipient = "u@d" + std::to_string(i) + ".example";
    cache.add(recipient, answer(seconds(60), true, recipient), now);
  }
  BOOST_TEST(cache.size() <= RouteCache::kMost);
  BOOST_TEST(cache.find("u@d" + std::to_string(3 * RouteCache::kMost - 1) + ".example", now) != nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
