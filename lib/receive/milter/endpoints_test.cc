#include "lib/receive/milter/endpoints.h"

#include <boost/test/unit_test.hpp>

namespace pen::milter {
namespace {

const SteadyTime kStart{std::chrono::hours(1)};

}  // namespace

BOOST_AUTO_TEST_SUITE(milter_endpoints)

BOOST_AUTO_TEST_CASE(one_session_tries_again_when_the_pause_is_over) {
  Endpoint at;
  BOOST_TEST(at.may_try(kStart));
  BOOST_TEST(at.failed(kStart));
  BOOST_TEST(!at.may_try(kStart + milliseconds(499)));
  BOOST_TEST(at.may_try(kStart + milliseconds(500)));
  BOOST_TEST(!at.may_try(kStart + milliseconds(500)));  // another session
  BOOST_TEST(!at.failed(kStart + milliseconds(600)));
  BOOST_TEST(!at.may_try(kStart + milliseconds(1599)));
  BOOST_TEST(at.may_try(kStart + milliseconds(1600)));
  at.opened({});
  BOOST_TEST(!at.down());
  BOOST_TEST(at.may_try(kStart));
}

BOOST_AUTO_TEST_CASE(a_try_that_its_client_gives_up_leaves_room_for_another) {
  Endpoint at;
  (void)at.failed(kStart);
  BOOST_TEST(at.may_try(kStart + seconds(1)));
  at.given_up();
  BOOST_TEST(at.may_try(kStart + seconds(1)));
}

BOOST_AUTO_TEST_CASE(sessions_that_began_before_the_first_failure_do_not_prolong_the_pause) {
  Endpoint at;
  (void)at.failed(kStart);
  for (int i = 0; i < 100; ++i) (void)at.failed(kStart + milliseconds(400));
  BOOST_TEST(at.may_try(kStart + milliseconds(500)));
}

BOOST_AUTO_TEST_CASE(a_filter_that_is_silent_before_mail_is_only_for_mail) {
  Endpoint at;
  BOOST_TEST(!at.only_mail());  // nobody knows
  Negotiation agreed;
  agreed.version = 6;
  at.opened(agreed);
  BOOST_TEST(!at.only_mail());
  agreed.protocol = 0x1 | 0x2000;  // no CONNECT, no answer to HELO
  at.opened(agreed);
  BOOST_TEST(at.only_mail());
}

BOOST_AUTO_TEST_CASE(pieces_are_small_while_many_are_under_way) {
  Endpoints all;
  std::vector<std::unique_ptr<Endpoints::Flight>> pieces;
  for (int i = 0; i < 256; ++i) pieces.push_back(std::make_unique<Endpoints::Flight>(all));
  BOOST_TEST(pieces.back()->size() == kMaxData);
  BOOST_TEST(Endpoints::Flight(all).size() == 4096U);
  pieces.pop_back();
  BOOST_TEST(Endpoints::Flight(all).size() == kMaxData);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::milter
