#include "lib/suite/service/lease_place.h"

#include <boost/test/unit_test.hpp>

namespace pen::service {

BOOST_AUTO_TEST_SUITE(lease_place)

constexpr long kNfs = 0x6969, kExt4 = 0xEF53, kCifs = 0xFF534D42, kFuse = 0x65735546;

BOOST_AUTO_TEST_CASE(a_lock_on_nfs_is_good_for_times_below_the_server_s) {
  BOOST_TEST(doubt_of_lock_on(kNfs, seconds(10)) == "");
  BOOST_TEST(doubt_of_lock_on(kNfs, seconds(75)) == "");
  BOOST_TEST(doubt_of_lock_on(kNfs, seconds(76)).starts_with("standby_lease_time: 76 s are not shorter"));
}

BOOST_AUTO_TEST_CASE(a_disk_of_this_host_is_no_doubt_whatever_the_time) {
  BOOST_TEST(doubt_of_lock_on(kExt4, seconds(3600)) == "");
  BOOST_TEST(doubt_of_lock("/nonexistent", seconds(10)) == "");
}

BOOST_AUTO_TEST_CASE(file_systems_with_locks_of_one_host_are_named) {
  BOOST_TEST(doubt_of_lock_on(kCifs, seconds(1)).contains("(SMB)"));
  BOOST_TEST(doubt_of_lock_on(kFuse, seconds(1)).contains("(FUSE)"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::service
