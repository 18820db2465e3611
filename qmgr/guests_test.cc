#include "qmgr/guests.h"

#include <boost/test/unit_test.hpp>

#include <vector>

#include "lib/base/async/testing/run.h"

namespace pen::qmgr {
namespace {

BOOST_AUTO_TEST_SUITE(guests)

BOOST_AUTO_TEST_CASE(a_user_has_so_many_places_and_others_have_theirs) {
  async::Loop loop;
  Guests guests(loop);
  std::vector<std::unique_ptr<Guests::Guest>> held;
  for (std::size_t i = 0; i < Guests::kEach; ++i) held.push_back(guests.enter(1000));
  BOOST_TEST(held.back() != nullptr);
  BOOST_TEST(guests.enter(1000) == nullptr);
  BOOST_TEST(guests.enter(1001) != nullptr);
  held.pop_back();
  BOOST_TEST(guests.enter(1000) != nullptr);
}

BOOST_AUTO_TEST_CASE(all_users_together_leave_places_for_the_mail_system) {
  async::Loop loop;
  Guests guests(loop);
  std::vector<std::unique_ptr<Guests::Guest>> held;
  for (uid_t uid = 1000; auto guest = guests.enter(uid); ++uid) held.push_back(std::move(guest));
  BOOST_TEST(held.size() == Guests::kAll);
  held.clear();
  BOOST_TEST(guests.connections() == 0U);
  BOOST_TEST(guests.enter(1000) != nullptr);
}

async::Task<void> ask(Guests* guests, uid_t uid, async::Event* may_end, std::string* order) {
  auto guest = guests->enter(uid);
  co_await guest->begin();
  *order += "b";
  (void)co_await may_end->wait();
  guest->end();
  *order += "e";
}

async::Task<void> end_after_turns(async::Loop* loop, async::Event* may_end) {
  for (int i = 0; i < 10; ++i) co_await loop->yield();
  may_end->set();
}

BOOST_AUTO_TEST_CASE(a_user_has_one_request_at_a_time) {
  async::Loop loop;
  Guests guests(loop);
  async::Event may_end(loop);
  std::string order;
  for (int i = 0; i < 3; ++i) loop.spawn("ask", ask(&guests, 1000, &may_end, &order));
  loop.spawn("end", end_after_turns(&loop, &may_end));
  loop.run();
  BOOST_TEST(order == "bebebe");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::qmgr
