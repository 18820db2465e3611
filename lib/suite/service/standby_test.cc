#include "lib/suite/service/standby.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/suite/service/listening_names.h"
#include "lib/testing/scratch.h"

namespace pen::service {

namespace {

/// A master that answers at its door until it is destroyed.
class Master {
 public:
  explicit Master(Fd door, std::string answer = "{}") : door_(std::move(door)), answer_(std::move(answer)) {
    BOOST_REQUIRE(::pipe(end_) == 0);
    thread_ = std::thread([this] {
      for (;;) {
        pollfd look[2] = {{door_.get(), POLLIN, 0}, {end_[0], POLLHUP, 0}};
        (void)::poll(look, 2, -1);
        if (look[1].revents != 0) return;
        answer_at_door(door_.get(), answer_);
      }
    });
  }
  ~Master() {
    ::close(end_[1]);
    thread_.join();
    ::close(end_[0]);
  }
  Master(const Master&) = delete;
  Master& operator=(const Master&) = delete;

 private:
  Fd door_;
  std::string answer_;
  int end_[2] = {-1, -1};
  std::thread thread_;
};

std::string name_of(const Fd& door) {
  sockaddr_un address{};
  socklen_t size = sizeof address;
  BOOST_REQUIRE(::getsockname(door.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return {address.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1};
}

/// Another user who listens at that name and takes no connection, until the object ends.
class Stranger {
 public:
  explicit Stranger(const std::string& name) {
    int ready[2];
    BOOST_REQUIRE(::pipe(ready) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::memcpy(address.sun_path + 1, name.data(), name.size());
      const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
      constexpr uid_t kNobody = 65534;
      const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
      const bool taken = ::setuid(kNobody) == 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                         ::listen(fd, 0) == 0;
      // The queue of connections is full from now on.
      const int own = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
      const bool full = ::connect(own, reinterpret_cast<sockaddr*>(&address), size) == 0;
      const char word = taken && full ? 'y' : 'n';
      (void)!::write(ready[1], &word, 1);
      for (;;) ::pause();
    }
    char word = 0;
    BOOST_REQUIRE(::read(ready[0], &word, 1) == 1);
    ::close(ready[0]);
    ::close(ready[1]);
    listens = word == 'y';
  }
  ~Stranger() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  bool listens = false;

 private:
  pid_t pid_ = -1;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(standby_door)

BOOST_AUTO_TEST_CASE(tools_find_the_master_of_their_instance) {
  const testing::ScratchDir dir, other;
  BOOST_TEST(!running_standby(dir.path().string()).value());
  auto door = open_standby_door(dir.path().string());
  BOOST_REQUIRE(door.has_value());
  const Master master(*std::move(door));
  const auto found = running_standby(dir.path().string()).value();
  BOOST_REQUIRE(found.has_value());
  BOOST_TEST(found->process.pid() == ::getpid());
  BOOST_TEST(found->text == "{}");
  BOOST_TEST(!running_standby(other.path().string()).value());
}

BOOST_AUTO_TEST_CASE(a_keeper_and_a_master_have_doors_of_their_own) {
  const testing::ScratchDir dir;
  auto door = open_keeper_door(dir.path().string());
  BOOST_REQUIRE(door.has_value());
  const Master keeper(*std::move(door));
  BOOST_TEST(running_keeper(dir.path().string()).value().has_value());
  BOOST_TEST(!running_standby(dir.path().string()).value());
}

BOOST_AUTO_TEST_CASE(a_keeper_says_what_it_waits_for_and_how_long) {
  const testing::ScratchDir dir;
  using Says = std::pair<std::string, std::optional<milliseconds>>;
  const auto heard = [&](const std::string& answer) {
    auto door = open_keeper_door(dir.path().string());
    BOOST_REQUIRE(door.has_value());
    const Master keeper(*std::move(door), answer);
    auto found = running_keeper(dir.path().string()).value();
    BOOST_REQUIRE(found.has_value());
    return Says(found->text, found->due);
  };
  BOOST_TEST((heard(keeper_answer("master ended", milliseconds(1500))) == Says("master ended", milliseconds(1500))));
  BOOST_TEST((heard(keeper_answer("master ended", milliseconds(-5))) == Says("master ended", milliseconds(0))));
  BOOST_TEST((heard("") == Says("", std::nullopt)));
  BOOST_TEST((heard("of an older one") == Says("of an older one", std::nullopt)));
}

BOOST_AUTO_TEST_CASE(doors_are_found_without_the_table_in_proc) {
  const testing::ScratchDir dir;
  auto door = open_keeper_door(dir.path().string());
  BOOST_REQUIRE(door.has_value());
  const std::string name = name_of(*door);
  const std::string prefix = name.substr(0, name.rfind('-'));
  const std::set<std::string> wanted = {name};
  BOOST_TEST((listening_names(prefix).value() == wanted));
  BOOST_TEST((listening_names(prefix, "/proc/none").value() == wanted));
  door->reset();
  BOOST_TEST(listening_names(prefix, "/proc/none").value().empty());
}

BOOST_AUTO_TEST_CASE(whoever_comes_again_and_again_holds_up_nobody) {
  const testing::ScratchDir dir;
  auto door = open_standby_door(dir.path().string());
  BOOST_REQUIRE(door.has_value());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = name_of(*door);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  std::vector<Fd> callers;  // as many as may wait at once
  for (;;) {
    Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) break;
    callers.push_back(std::move(fd));
  }
  BOOST_REQUIRE_EQUAL(callers.size(), 17U);
  const auto answered = [&] {
    char text[10];
    return std::ranges::count_if(callers,
                                 [&](const Fd& fd) { return ::recv(fd.get(), text, sizeof text, MSG_PEEK) == 2; });
  };
  answer_at_door(door->get(), "{}");
  BOOST_TEST(answered() == 16);
  pollfd look{door->get(), POLLIN, 0};
  BOOST_TEST(::poll(&look, 1, 0) == 1);  // its owner comes back for the others
  answer_at_door(door->get(), "{}");
  BOOST_TEST(answered() == 17);
}

BOOST_AUTO_TEST_CASE(nobody_can_hide_a_master_by_its_name_or_hold_up_its_tools) {
  if (::geteuid() != 0) return;  // nobody else can be played
  const testing::ScratchDir dir;
  auto first = open_standby_door(dir.path().string());
  BOOST_REQUIRE(first.has_value());
  const std::string name = name_of(*first);
  first->reset();
  // What anybody knows of the name: that of this life, and what it begins with.
  const auto dash = name.rfind('-');
  const Stranger same(name), known(dash == std::string::npos ? name + "-0" : name.substr(0, dash) + "-0");
  BOOST_TEST((same.listens && known.listens));
  auto door = open_standby_door(dir.path().string());
  BOOST_REQUIRE(door.has_value());
  const Master master(*std::move(door));
  const auto found = running_standby(dir.path().string()).value();
  BOOST_REQUIRE(found.has_value());
  BOOST_TEST(found->process.pid() == ::getpid());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::service
