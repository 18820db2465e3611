#include "master/ownership.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "lib/testing/scratch.h"

namespace pen::master {
namespace {

constexpr service::Account kMail{.uid = 20000, .gid = 20000}, kQueue{.uid = 20001, .gid = 20001};
const bool is_root = ::geteuid() == 0;
boost::test_tools::assertion_result as_root(boost::unit_test::test_unit_id) { return is_root; }

struct Fixture {
  testing::ScratchDir scratch;
  const std::string directory = scratch.file("log");

  Fixture() {
    BOOST_REQUIRE(::mkdir(directory.c_str(), 0700) == 0);
    give(directory, kMail);
  }
  static void give(const std::string& path, const service::Account& to) {
    BOOST_REQUIRE(::lchown(path.c_str(), to.uid, to.gid) == 0);
  }
  std::string file(const std::string& name, const service::Account& owner = kMail) const {
    const Fd fd(::open((directory + "/" + name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    BOOST_REQUIRE(fd.get() >= 0);
    BOOST_REQUIRE(::fchown(fd.get(), owner.uid, owner.gid) == 0);
    return directory + "/" + name;
  }
  void files(int count) const {
    for (int i = 0; i < count; ++i) file("body-" + std::to_string(i));
  }
  Result<Moved> move(const service::Account& to) const {
    const Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return change_owner(fd, directory, to, [](std::uint64_t) {});
  }
  static uid_t owner(const std::string& path) {
    struct stat st{};
    BOOST_REQUIRE(::lstat(path.c_str(), &st) == 0);
    return st.st_uid;
  }
  std::size_t belonging_to(uid_t uid) const {
    std::size_t n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) n += owner(entry.path().string()) == uid;
    return n;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(ownership, Fixture, *boost::unit_test::precondition(as_root))

BOOST_AUTO_TEST_CASE(a_directory_and_its_files_change_hands_once_and_back) {
  files(20);
  for (const auto& to : {kQueue, kMail}) {
    const auto done = move(to).value();
    BOOST_TEST(done.moved);
    BOOST_TEST(done.files == 20U);
    BOOST_TEST(done.left.empty());
    BOOST_TEST(owner(directory) == to.uid);
    BOOST_TEST(belonging_to(to.uid) == 20U);
    BOOST_TEST(!move(to).value().moved);
  }
}

BOOST_AUTO_TEST_CASE(wherever_it_is_killed_the_next_one_goes_on) {
  files(400);
  // Each round is killed a little later than the one before, until one is done before it is killed.
  for (unsigned pause = 0;; pause += 200) {
    const pid_t child = ::fork();
    BOOST_REQUIRE(child >= 0);
    if (child == 0) ::_exit(move(kQueue) ? 0 : 1);
    ::usleep(pause);
    ::kill(child, SIGKILL);
    int status = 0;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    // An owner that is right means that all is done.
    if (owner(directory) == kQueue.uid) break;
    BOOST_REQUIRE((owner(directory) == kMail.uid || owner(directory) == 0));
  }
  BOOST_TEST(belonging_to(kQueue.uid) == 400U);
  BOOST_TEST(!move(kQueue).value().moved);
}

BOOST_AUTO_TEST_CASE(what_a_killed_one_left_is_gone_on_with) {
  files(10);
  give(directory + "/body-3", kQueue);
  give(directory, {.uid = 0, .gid = 0});
  BOOST_TEST(move(kQueue).value().files == 9U);
  BOOST_TEST(belonging_to(kQueue.uid) == 10U);
}

BOOST_AUTO_TEST_CASE(links_second_names_and_files_of_root_stay) {
  const std::string secret = scratch.file("secret");
  {
    const Fd fd(::open(secret.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  BOOST_REQUIRE(::symlink(secret.c_str(), (directory + "/link").c_str()) == 0);
  BOOST_REQUIRE(::link(secret.c_str(), (directory + "/name").c_str()) == 0);
  BOOST_REQUIRE(::mkdir((directory + "/inner").c_str(), 0700) == 0);
  file("of-root", {.uid = 0, .gid = 0});
  file("segment");
  const auto done = move(kQueue).value();
  BOOST_TEST(done.files == 1U);
  BOOST_TEST(done.left.size() == 4U);
  BOOST_TEST(owner(secret) == 0U);
  BOOST_TEST(owner(directory + "/segment") == kQueue.uid);
  for (const char* name : {"/link", "/inner", "/of-root"}) BOOST_TEST(owner(directory + name) == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::master
