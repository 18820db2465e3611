#include "lib/service/lock.h"

#include <sys/file.h>

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"

namespace pen::service {
namespace {

struct Directory {
  testing::ScratchDir scratch;
  std::string path = scratch.path().string();
  Result<Locks> take(Fd former = Fd()) { return take_locks(path, seconds(0), std::move(former)); }
};

BOOST_FIXTURE_TEST_SUITE(locks, Directory)

BOOST_AUTO_TEST_CASE(the_programs_of_a_master_that_is_gone_hold_its_successor_up_each_by_itself) {
  Locks first = take().value();
  Fd one = share_programs_lock(first.programs.get()).value();
  Fd other = share_programs_lock(first.programs.get()).value();
  first = Locks();
  BOOST_TEST(take().error().is(LockError::former_programs));
  // As a program that was taken over may do.
  for (const int word : {LOCK_UN, LOCK_EX | LOCK_NB}) {
    (void)::flock(one.get(), word);
    BOOST_TEST(take().error().is(LockError::former_programs));
  }
  one.reset();
  BOOST_TEST(take().error().is(LockError::former_programs));
  other.reset();
  BOOST_TEST(take().has_value());
}

BOOST_AUTO_TEST_CASE(who_is_left_the_lock_goes_on_with_the_programs_that_share_it) {
  Locks first = take().value();
  const Fd one = share_programs_lock(first.programs.get()).value();
  Fd left = std::move(first.programs);
  first = Locks();
  Locks second = take(std::move(left)).value();
  const Fd two = share_programs_lock(second.programs.get()).value();
  second = Locks();
  BOOST_TEST(take().error().is(LockError::former_programs));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::service
