// Files as the queue log uses them: which process has which description, and how many there are.
#include "lib/queue/queue_log/posix_storage.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <thread>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::queue_log;

namespace {

struct Files {
  testing::ScratchDir scratch;
  std::string directory = scratch.file("log");
  std::unique_ptr<PosixStorage> storage = *PosixStorage::open(directory);

  /// Descriptors of this process that lead to a segment.
  std::size_t open_segments() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
      count += target.starts_with(directory + "/segment-") ? 1 : 0;
    }
    return count;
  }
  bool write_and_sync(Slot slot) {
    const std::string text(16, 'x');
    return storage->write(slot, 0, as_bytes(text)).has_value() && storage->sync(slot).has_value();
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_log)

#ifndef PEN_SANITIZED  // UBSan needs a descriptor to look at the type of an object
BOOST_FIXTURE_TEST_CASE(a_process_that_has_no_descriptor_left_goes_on_to_its_next_segments, Files) {
  BOOST_REQUIRE(storage->allocate(1, 4096).has_value());
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit few = before;
  few.rlim_cur = std::min<rlim_t>(before.rlim_cur, 256);
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  std::vector<int> taken;
  for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(fd);
  for (Slot slot = 2; slot < 6; ++slot) {
    BOOST_TEST(storage->allocate(slot, 4096).has_value());
    BOOST_TEST(write_and_sync(slot));
    std::thread other([&] { BOOST_TEST(write_and_sync(slot)); });
    other.join();
  }
  for (const int fd : taken) ::close(fd);
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}
#endif

BOOST_FIXTURE_TEST_CASE(each_thread_that_writes_has_a_description_of_its_own_to_sync_by, Files) {
  BOOST_REQUIRE(storage->allocate(1, 4096).has_value());
  BOOST_TEST(write_and_sync(1));
  BOOST_TEST(open_segments() == 1u);
  // Both are there at once: a thread that ends may leave its number to the next one.
  std::thread one([&] {
    BOOST_TEST(storage->write(1, 16, as_bytes(std::string_view("one"))).has_value());
    std::thread two([&] { BOOST_TEST(write_and_sync(1)); });
    two.join();
    BOOST_TEST(storage->sync(1).has_value());
  });
  one.join();
  BOOST_TEST(open_segments() == 3u);
  std::byte read[3];
  BOOST_TEST(storage->read(1, 16, read).has_value());
  BOOST_TEST(as_text(read) == "one");
  BOOST_TEST(open_segments() == 3u);
}

BOOST_AUTO_TEST_CASE(whatever_the_umask_nobody_else_may_look_into_the_log) {
  const mode_t before = ::umask(0);
  Files files;
  const bool allocated = files.storage->allocate(1, 4096).has_value();
  ::umask(before);
  BOOST_REQUIRE(allocated);
  constexpr auto kOthers = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
  const auto open_to_others = [&](const std::filesystem::path& path) {
    return (std::filesystem::status(path).permissions() & kOthers) != std::filesystem::perms::none;
  };
  BOOST_TEST(!open_to_others(files.directory));
  std::size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(files.directory)) {
    BOOST_TEST(!open_to_others(entry.path()), entry.path());
    ++seen;
  }
  BOOST_TEST(seen > 0u);
}

BOOST_FIXTURE_TEST_CASE(files_used_long_ago_are_closed_when_there_are_too_many_descriptors, Files) {
  constexpr Slot kFiles = 200;
  for (Slot slot = 1; slot <= kFiles; ++slot) BOOST_REQUIRE(storage->allocate(slot, 4096).has_value());
  std::thread one([&] {
    std::thread two([&] {
      std::thread three([&] {
        for (Slot slot = 1; slot <= kFiles; ++slot) BOOST_TEST(write_and_sync(slot));
      });
      for (Slot slot = 1; slot <= kFiles; ++slot) BOOST_TEST(write_and_sync(slot));
      three.join();
    });
    for (Slot slot = 1; slot <= kFiles; ++slot) BOOST_TEST(write_and_sync(slot));
    two.join();
  });
  one.join();
  BOOST_TEST(open_segments() <= PosixStorage::kMaxOpen);
  BOOST_TEST(open_segments() > PosixStorage::kMaxOpen / 2);
  for (Slot slot = 1; slot <= kFiles; ++slot) BOOST_TEST(write_and_sync(slot));
}

BOOST_AUTO_TEST_SUITE_END()
