#include "lib/queue/postfix_queue/directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "lib/queue/postfix_queue/testing/records.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::postfix_queue;
namespace fs = std::filesystem;

namespace {

struct Queues {
  pen::testing::ScratchDir scratch;
  const fs::path path = scratch.path();
  Queues() {
    for (const auto* d : {"incoming", "active", "deferred/1", "deferred/p", "defer/1", "hold", "maildrop", "pid"})
      fs::create_directories(path / d);
  }
  void put(const std::string& name, const std::string& text, mode_t mode = 0700) {
    std::ofstream(path / name) << text;
    ::chmod((path / name).c_str(), mode);
  }
  QueueDirectory open() {
    auto q = QueueDirectory::open(path);
    BOOST_REQUIRE(q);
    return *std::move(q);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(directory, Queues)

BOOST_AUTO_TEST_CASE(messages_are_found_in_every_queue_whether_hashed_or_not) {
  put("deferred/1/1AB", "one");
  put("hold/2CD", "two");
  put("incoming/3EF", "half", 0600);
  put("maildrop/4AA", "four", 0744);
  put("hold/note.txt", "not an id");
  const auto list = open().list();
  BOOST_REQUIRE(list);
  std::string seen;
  for (const auto& f : *list) seen += f.path + (f.whole ? " " : "? ");
  BOOST_CHECK_EQUAL(seen, "maildrop/4AA incoming/3EF? deferred/1/1AB hold/2CD ");
  BOOST_CHECK_EQUAL(open().load(list->at(2)).value(), "one");
}

BOOST_AUTO_TEST_CASE(a_queue_that_postfix_works_on_is_left_alone) {
  put("pid/master.pid", "1");
  const Fd lock(::open((path / "pid/master.pid").c_str(), O_RDWR | O_CLOEXEC));
  BOOST_REQUIRE_EQUAL(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  const auto busy = QueueDirectory::open(path);
  BOOST_REQUIRE(!busy);
  BOOST_CHECK(busy.error().is(DirectoryError::in_use));
}

BOOST_AUTO_TEST_CASE(postfix_cannot_start_while_its_queue_is_being_read) {
  put("pid/master.pid", "1");
  const Fd lock(::open((path / "pid/master.pid").c_str(), O_RDWR | O_CLOEXEC));
  {
    const auto queue = open();
    BOOST_CHECK_EQUAL(::flock(lock.get(), LOCK_EX | LOCK_NB), -1);
  }
  BOOST_CHECK_EQUAL(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
}

BOOST_AUTO_TEST_CASE(another_directory_is_no_queue) {
  fs::create_directories(path / "empty");
  const auto none = QueueDirectory::open(path / "empty");
  BOOST_REQUIRE(!none);
  BOOST_CHECK(none.error().is(DirectoryError::not_a_queue));
}

BOOST_AUTO_TEST_CASE(names_that_lead_elsewhere_are_not_followed) {
  put("secret", "secret");
  fs::create_symlink(path / "secret", path / "hold/5AA");
  BOOST_CHECK(open().list()->empty());
  BOOST_CHECK(!open().load(Found{.queue = Queue::hold, .id = "5AA", .path = "hold/5AA"}));
}

BOOST_AUTO_TEST_CASE(reasons_lie_beside_and_removing_takes_them_along) {
  put("deferred/1/1AB", "one");
  put("defer/1/1AB", "recipient=a@b\nreason=busy\n");
  const auto queue = open();
  const auto found = queue.list()->at(0);
  BOOST_REQUIRE_EQUAL(queue.reasons(found).size(), 1);
  BOOST_CHECK_EQUAL(queue.reasons(found)[0].text, "busy");
  BOOST_CHECK(queue.remove(found));
  BOOST_CHECK(!fs::exists(path / "deferred/1/1AB"));
  BOOST_CHECK(!fs::exists(path / "defer/1/1AB"));
  BOOST_CHECK(queue.remove(found));
}

BOOST_AUTO_TEST_CASE(nothing_is_read_or_removed_where_a_link_in_place_of_a_directory_leads) {
  put("passwd", "recipient=a@b\nreason=secret\n");
  put("deferred/p/passwd", "one");
  fs::create_directory_symlink(path, path / "defer/p");
  fs::create_directory_symlink(path, path / "bounce");
  const auto queue = open();
  const auto found = queue.list()->at(0);
  BOOST_CHECK_EQUAL(found.path, "deferred/p/passwd");
  BOOST_CHECK(queue.reasons(found).empty());
  BOOST_CHECK(queue.remove(found));
  BOOST_CHECK(fs::exists(path / "passwd"));
  // Swapped between the list and what follows it.
  put("deferred/p/passwd", "two");
  const auto again = queue.list()->at(0);
  fs::rename(path / "deferred/p", path / "deferred/q");
  fs::create_directory_symlink(path, path / "deferred/p");
  BOOST_CHECK(!queue.load(again));
  BOOST_CHECK(!queue.remove(again));
  BOOST_CHECK(fs::exists(path / "passwd"));
}

BOOST_AUTO_TEST_SUITE_END()
