#include "lib/suite/service/lock.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <fstream>
#include <string>

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"

namespace pen::service {
namespace {

struct Directory {
  testing::ScratchDir scratch;
  std::string path = scratch.path().string();
  Result<Locks> take(Fd former = Fd()) { return take_locks(path, seconds(0), std::move(former)); }
};

/// Somebody waits for the lock on the file, says the kernel.
bool waited_for(const std::string& file) {
  struct stat st{};
  BOOST_REQUIRE(::stat(file.c_str(), &st) == 0);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);)
    if (line.contains("->") && line.contains(fmt::format(":{} ", st.st_ino))) return true;
  return false;
}

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

BOOST_AUTO_TEST_CASE(programs_without_a_master_are_seen) {
  BOOST_TEST(!programs_run(path + "/nowhere").value());
  BOOST_TEST(!programs_run(path).value());
  Locks first = take().value();
  Fd one = share_programs_lock(first.programs.get()).value();
  first = Locks();
  BOOST_TEST(programs_run(path).value());
  one.reset();
  BOOST_TEST(!programs_run(path).value());
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

BOOST_AUTO_TEST_CASE(what_a_master_that_was_killed_had_not_started_yet_is_waited_for) {
  Locks killed = take().value();
  const pid_t child = ::fork();
  if (child == 0) {  // between fork and exec, until somebody waits for the lock
    const std::string file = path + "/master.lock";
    for (int i = 0; i < 10'000 && !waited_for(file); ++i) ::usleep(1000);
    ::_exit(0);
  }
  const std::string gone = std::to_string(INT_MAX);
  BOOST_REQUIRE(::pwrite(killed.master.get(), gone.data(), gone.size(), 0) == static_cast<ssize_t>(gone.size()));
  ::flock(killed.programs.get(), LOCK_UN);
  killed = Locks();
  BOOST_TEST(take().error().is(LockError::held));
  BOOST_TEST(take_locks(path, seconds(60)).has_value());
  BOOST_TEST(::waitpid(child, nullptr, 0) == child);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::service
