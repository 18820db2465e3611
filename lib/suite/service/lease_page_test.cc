#include "lib/suite/service/lease_page.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

namespace pen::service {

BOOST_AUTO_TEST_SUITE(lease_page)

BOOST_AUTO_TEST_CASE(who_has_the_memory_sees_until_when_the_lease_holds) {
  const auto master = LeasePage::create();
  BOOST_REQUIRE(master.has_value());
  const auto qmgr = LeasePage::open(Fd(::dup(master->fd())));
  BOOST_REQUIRE(qmgr.has_value());
  BOOST_TEST(!qmgr->holds());
  master->hold_until(boot_now() + seconds(60));
  BOOST_TEST(qmgr->holds());
  BOOST_TEST((qmgr->until() == master->until()));
  master->hold_until(boot_now());
  BOOST_TEST(!qmgr->holds());
}

BOOST_AUTO_TEST_CASE(who_has_the_memory_cannot_take_it_from_others) {
  const auto master = LeasePage::create();
  BOOST_REQUIRE(master.has_value());
  BOOST_TEST(::ftruncate(master->fd(), 0) != 0);
  BOOST_TEST(::ftruncate(master->fd(), 4096) != 0);
  BOOST_TEST(::fcntl(master->fd(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
}

BOOST_AUTO_TEST_CASE(what_is_too_short_is_no_page) {
  BOOST_TEST(!LeasePage::open(Fd(::open("/dev/null", O_RDWR | O_CLOEXEC))).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::service
