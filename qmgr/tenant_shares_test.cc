/// How much of the active set a tenant has, and when what waits comes.
#include "qmgr/tenant_shares.h"

#include <boost/test/unit_test.hpp>

namespace pen::qmgr {
namespace {

queue_log::Place place(std::uint64_t n) { return {queue_log::kFirstRetry, {n, 0}}; }
SteadyTime at(int s) { return SteadyTime(seconds(1000 + s)); }

}  // namespace

BOOST_AUTO_TEST_SUITE(tenant_shares)

BOOST_AUTO_TEST_CASE(a_tenant_is_full_at_its_share_and_others_are_not) {
  TenantShares shares(2, seconds(4000));
  shares.enter("acme");
  BOOST_TEST(!shares.full("acme"));
  shares.enter("acme");
  BOOST_TEST(shares.full("acme"));
  BOOST_TEST(!shares.full("other"));
  BOOST_TEST(!shares.full(""));
  shares.leave("acme", at(0));
  BOOST_TEST(!shares.full("acme"));
  TenantShares none(0, seconds(4000));
  for (int i = 0; i < 100; ++i) none.enter("acme");
  BOOST_TEST(!none.full("acme"));
}

BOOST_AUTO_TEST_CASE(a_share_of_its_own_and_one_of_all_together) {
  TenantShares shares(10, seconds(4000), {{"bulk", 2}}, 3);
  shares.enter("bulk");
  shares.enter("bulk");
  BOOST_TEST(shares.full("bulk"));
  BOOST_TEST(!shares.full("normal"));
  shares.enter("normal");
  BOOST_TEST(shares.full("normal"));  // all together have three
  shares.parked("normal", place(1));
  shares.parked("bulk", place(2));
  BOOST_TEST(!shares.any_ready());
  shares.leave("bulk", at(0));  // room for either
  BOOST_TEST(shares.any_ready());
  const auto first = shares.take();
  BOOST_REQUIRE(first);
  shares.enter(first->tenant);
  BOOST_TEST(!shares.take());
  shares.leave("normal", at(1));
  BOOST_REQUIRE(shares.take());
}

BOOST_AUTO_TEST_CASE(what_waits_is_named_in_order_when_there_is_room_and_tenants_take_turns) {
  TenantShares shares(1, seconds(4000));
  for (const char* tenant : {"a", "b"}) {
    shares.enter(tenant);
    for (std::uint64_t i = 1; i <= 2; ++i) shares.parked(tenant, place(i));
  }
  BOOST_TEST(!shares.any_ready());
  shares.leave("a", at(0));
  shares.leave("b", at(0));
  BOOST_TEST(shares.any_ready());
  auto first = shares.take();
  BOOST_REQUIRE(first);
  BOOST_TEST(first->tenant == "a");
  BOOST_TEST((first->place == place(1)));
  shares.enter("a");
  auto second = shares.take();
  BOOST_REQUIRE(second);
  BOOST_TEST(second->tenant == "b");
  shares.put_back(*second);  // it is on its way to another log
  second = shares.take();
  BOOST_REQUIRE(second);
  BOOST_TEST((second->place == place(1)));
  shares.enter("b");
  BOOST_TEST(!shares.take());
  shares.leave("a", at(1));
  BOOST_TEST((shares.take()->place == place(2)));
  BOOST_TEST(shares.places() == 1U);
}

BOOST_AUTO_TEST_CASE(the_time_of_the_log_follows_how_fast_the_tenant_s_mail_leaves) {
  TenantShares shares(10, seconds(4000));
  for (int i = 0; i < 10; ++i) shares.enter("acme");
  // Not known yet: its share within the longest time.
  BOOST_TEST(shares.park_for("acme", at(0)).count() == 0);
  BOOST_TEST(shares.park_for("acme", at(0)).count() == 400);
  for (int i = 0; i < 20; ++i) BOOST_TEST(shares.park_for("acme", at(0)).count() <= 4000);
  BOOST_TEST(shares.park_for("acme", at(0)).count() == 4000);
  // 2 in a second: what is ahead goes, and one of 200 waits 100 s.
  for (int i = 0; i < 40; ++i) {
    shares.leave("acme", at(i / 2));
    shares.enter("acme");
  }
  seconds last{0};
  for (int i = 0; i <= 200; ++i) last = shares.park_for("acme", at(20));
  BOOST_TEST(last.count() > 80);
  BOOST_TEST(last.count() < 120);
  // Nothing has left for long: it is not the next ones' turn soon.
  for (int i = 0; i <= 20; ++i) last = shares.park_for("acme", at(20 + 2000));
  BOOST_TEST(last.count() > 3000);
}

BOOST_AUTO_TEST_CASE(places_are_bounded) {
  TenantShares shares(1, seconds(4000));
  shares.enter("acme");
  for (std::size_t i = 0; i < TenantShares::kPlaces + 10; ++i) shares.parked("acme", place(i));
  BOOST_TEST(shares.places() == TenantShares::kPlaces);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
