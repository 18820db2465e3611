#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "lib/async/socket.h"
#include "lib/async/stream.h"
#include "lib/service/lock.h"
#include "lib/testing/scratch.h"
#include "master/pacing.h"

namespace pen::master {
namespace {

constexpr int kPatience = 20'000;  // ms; only a failing test waits so long

/// Whether the process ends in time.
bool ends(pid_t pid) {
  const async::Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return true;
  pollfd wait{process.get(), POLLIN, 0};
  return ::poll(&wait, 1, kPatience) == 1;
}

/// A blocking client of a test program.
class Client {
 public:
  explicit Client(const std::string& path) {
    async::Loop loop;
    std::optional<async::Fd> fd;
    loop.spawn("connect", connect(&loop, path, &fd));
    loop.run();
    if (fd) fd_ = std::move(*fd);
  }
  bool connected() const { return static_cast<bool>(fd_); }
  /// The answer; empty: the connection ended.
  std::string ask(const std::string& word) {
    const std::string text = word + "\n";
    if (::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return {};
    std::string answer;
    for (;;) {
      pollfd wait{fd_.get(), POLLIN, 0};
      if (::poll(&wait, 1, kPatience) != 1) return "timed out";
      char c = 0;
      if (::recv(fd_.get(), &c, 1, 0) != 1) return {};
      if (c == '\n') return answer;
      answer += c;
    }
  }
  pid_t pid() { return static_cast<pid_t>(std::atoi(ask("pid").c_str())); }

 private:
  static async::Task<void> connect(async::Loop* loop, std::string path,
                                   std::optional<async::Fd>* out) {
    auto stream = co_await async::connect(*loop, async::SocketAddress::unix(std::move(path)));
    if (stream) *out = async::Fd(::dup(stream->fd()));
  }
  async::Fd fd_;
};

/// An instance with test programs.
struct Instance {
  pen::testing::ScratchDir dir;
  pid_t master = -1;

  explicit Instance(const std::string& master_cf) {
    std::filesystem::create_directory(dir.path() / "etc");
    dir.write("etc/main.cf",
              "queue_directory = " + dir.file("spool") + "\ndata_directory = " + dir.file("data") +
                  "\nmaillog_file = " + dir.file("log") + "\nmaillog_file_prefixes = /" +
                  "\ndaemon_directory = " PEN_TEST_PROGRAMS
                  "\nmail_owner = nobody\nsetgid_group = nogroup\nstop_drain_time = 1s\n");
    dir.write("etc/master.cf", master_cf);
  }
  ~Instance() {
    if (master > 0) {
      ::kill(master, SIGKILL);
      ::waitpid(master, nullptr, 0);
    }
  }
  /// What master reported: "ok", or what failed.
  std::string start() {
    int report[2];
    BOOST_REQUIRE(::pipe(report) == 0);
    const std::string etc = dir.file("etc"), number = std::to_string(report[1]);
    master = ::fork();
    if (master == 0) {
      ::close(report[0]);
      ::execl(PEN_MASTER, "master", "-c", etc.c_str(), "-w", number.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(report[1]);
    std::string text;
    char part[200];
    for (ssize_t n = 0; (n = ::read(report[0], part, sizeof part)) > 0;)
      text.append(part, static_cast<std::size_t>(n));
    ::close(report[0]);
    return text;
  }
  int wait_status() {
    int status = -1;
    BOOST_REQUIRE(ends(master));
    ::waitpid(master, &status, 0);
    master = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  Client client(const char* name) { return Client(dir.file("spool/private/") + name); }
  /// Only where nothing else shows that master has looked at a file.
  bool log_shows(const std::string& words) {
    for (int k = 0; k < kPatience / 10; ++k) {
      std::ifstream file(dir.file("log"));
      std::ostringstream text;
      text << file.rdbuf();
      if (text.str().contains(words)) return true;
      ::poll(nullptr, 0, 10);
    }
    return false;
  }
  /// The service's part of the status file once it has the property; the file changes by rename, so
  /// a reader waits for the next one.
  template <class F>
  bool status_becomes(const std::string& service, F property) {
    for (int i = 0; i < kPatience / 10; ++i) {
      std::ifstream file(dir.file("data/master.status"));
      std::ostringstream text;
      text << file.rdbuf();
      const auto json = nlohmann::json::parse(text.str(), nullptr, false);
      if (json.is_object()) {
        for (const auto& s : json["services"]) {
          if (s["service"] == service && property(s)) return true;
        }
      }
      ::poll(nullptr, 0, 10);
    }
    return false;
  }
};

constexpr const char* kOne = "one unix - n n - 7 testd\n";

BOOST_AUTO_TEST_SUITE(master)

BOOST_AUTO_TEST_CASE(a_service_starts_when_somebody_connects_and_gets_its_limit) {
  Instance i(kOne);
  BOOST_TEST(i.start() == "ok");
  BOOST_TEST(i.status_becomes("one/unix", [](const auto& s) { return s["state"] == "asleep"; }));
  Client c = i.client("one");
  BOOST_TEST(c.ask("limit") == "7");
  BOOST_TEST(i.status_becomes("one/unix", [&](const auto& s) { return s["state"] == "serving"; }));
}

BOOST_AUTO_TEST_CASE(a_killed_program_comes_back_at_once) {
  Instance i(kOne);
  BOOST_TEST(i.start() == "ok");
  Client first = i.client("one");
  const pid_t before = first.pid();
  BOOST_REQUIRE(before > 0);
  ::kill(before, SIGKILL);
  BOOST_TEST(first.ask("pid") == "");
  Client second = i.client("one");
  const pid_t after = second.pid();
  BOOST_TEST(after > 0);
  BOOST_TEST(after != before);
}

BOOST_AUTO_TEST_CASE(a_program_that_cannot_start_is_paced_and_harms_no_other) {
  Instance i(std::string("bad unix - n n 60 - testd fails\n") + kOne);
  const pid_t child = ::fork();  // master reports only when it gave up waiting: ask without it
  if (child == 0) {
    const std::string etc = i.dir.file("etc");
    ::execl(PEN_MASTER, "master", "-c", etc.c_str(), "-f", nullptr);
    ::_exit(127);
  }
  i.master = child;
  BOOST_TEST(i.status_becomes("bad/unix",
                              [](const auto& s) { return s["state"] == "waiting to restart"; }));
  BOOST_TEST(i.client("one").pid() > 0);
}

BOOST_AUTO_TEST_CASE(a_reload_keeps_open_sessions_and_serves_new_ones_from_a_new_process) {
  Instance i(kOne);
  BOOST_TEST(i.start() == "ok");
  Client old_session = i.client("one");
  const pid_t old_pid = old_session.pid();
  i.dir.write("etc/master.cf", "one unix - n n - 8 testd\n");
  ::kill(i.master, SIGHUP);
  BOOST_TEST(i.status_becomes("one/unix", [&](const auto& s) {
    return s["draining"].size() == 1 && s["draining"][0] == old_pid;
  }));
  // Until it has read the order to drain the old process may still accept.
  Client new_session = i.client("one");
  for (int k = 0; k < 1000 && new_session.ask("limit") == "7"; ++k) new_session = i.client("one");
  BOOST_TEST(new_session.ask("limit") == "8");
  BOOST_TEST(new_session.pid() != old_pid);
  BOOST_TEST(old_session.pid() == old_pid);
  old_session = Client("/nowhere");
  BOOST_TEST(ends(old_pid));
}

BOOST_AUTO_TEST_CASE(an_exclusive_service_is_replaced_one_after_the_other_even_if_it_hangs) {
  Instance i("one unix - n n - 1 testd\n");
  BOOST_TEST(i.start() == "ok");
  Client session = i.client("one");
  const pid_t old_pid = session.pid();
  BOOST_TEST(session.ask("hang") == "hanging");
  ::kill(i.master, SIGHUP);
  BOOST_TEST(ends(old_pid));
  BOOST_TEST(i.client("one").pid() != old_pid);
}

BOOST_AUTO_TEST_CASE(a_bad_new_configuration_changes_nothing) {
  Instance i(kOne);
  BOOST_TEST(i.start() == "ok");
  Client session = i.client("one");
  const pid_t pid = session.pid();
  i.dir.write("etc/master.cf", "one unix - n n - frog testd\n");
  ::kill(i.master, SIGHUP);
  BOOST_TEST(i.log_shows("going on as before"));
  BOOST_TEST(i.client("one").pid() == pid);
  BOOST_TEST(session.pid() == pid);
}

BOOST_AUTO_TEST_CASE(when_master_is_killed_its_programs_end_and_a_new_master_serves_at_once) {
  Instance i(kOne);
  BOOST_TEST(i.start() == "ok");
  Client session = i.client("one");
  const pid_t program = session.pid();
  ::kill(i.master, SIGKILL);
  BOOST_TEST(i.wait_status() == -SIGKILL);
  BOOST_TEST(ends(program));
  BOOST_TEST(i.start() == "ok");
  const pid_t next = i.client("one").pid();
  BOOST_TEST(next > 0);
  BOOST_TEST(next != program);
}

BOOST_AUTO_TEST_CASE(an_address_that_a_dead_program_is_still_giving_up_is_waited_for) {
  auto other = async::listen_on(async::SocketAddress::inet("127.0.0.1", 0));
  BOOST_REQUIRE(other.has_value());
  const auto at = *async::local_address(other->get());
  Instance i(kOne + (at.text() + " inet n n n - 7 testd\n"));
  std::thread giver([&] {
    static_cast<void>(i.log_shows("Address already in use: tried again"));
    other->reset();
  });
  BOOST_TEST(i.start() == "ok");
  giver.join();
}

BOOST_AUTO_TEST_CASE(an_address_that_stays_in_use_ends_the_start) {
  auto other = async::listen_on(async::SocketAddress::inet("127.0.0.1", 0));
  BOOST_REQUIRE(other.has_value());
  const auto at = *async::local_address(other->get());
  Instance i(kOne + (at.text() + " inet n n n - 7 testd\n"));
  BOOST_TEST(i.start().contains("Address already in use"));
  BOOST_TEST(i.wait_status() == EX_OSERR);
}

BOOST_AUTO_TEST_CASE(a_second_start_is_refused_and_the_first_goes_on) {
  Instance i(kOne);
  BOOST_TEST(i.start() == "ok");
  const pid_t first = std::exchange(i.master, -1);
  BOOST_TEST(i.start().contains("already running"));
  BOOST_TEST(i.wait_status() == EX_UNAVAILABLE);
  BOOST_TEST(service::running_master(i.dir.file("data")).value() == first);
  i.master = first;
  BOOST_TEST(i.client("one").pid() > 0);
}

BOOST_AUTO_TEST_CASE(stop_ends_every_program_even_one_that_hangs) {
  Instance i(std::string(kOne) + "two unix - n n - 7 testd\n");
  BOOST_TEST(i.start() == "ok");
  Client one = i.client("one"), two = i.client("two");
  const pid_t quick = one.pid(), hanging = two.pid();
  BOOST_TEST(two.ask("hang") == "hanging");
  one = Client("/nowhere");
  ::kill(i.master, SIGTERM);
  BOOST_TEST(ends(quick));
  BOOST_TEST(ends(hanging));
  BOOST_TEST(i.wait_status() == 0);
  BOOST_TEST(!service::running_master(i.dir.file("data")).has_value());
}

BOOST_AUTO_TEST_CASE(services_that_cannot_be_are_told_and_left_out) {
  Instance i(std::string(kOne) + "old fifo n n n - 1 testd\nscache unix - - n - 1 scache\n");
  BOOST_TEST(i.start() == "ok");
  std::ifstream file(i.dir.file("data/master.status"));
  std::ostringstream text;
  text << file.rdbuf();
  const auto json = nlohmann::json::parse(text.str());
  BOOST_TEST(json["not_started"].size() == 2U);
  BOOST_TEST(json["services"].size() == 1U);
}

BOOST_AUTO_TEST_CASE(pacing_lets_one_early_death_pass_and_slows_a_row_of_them) {
  Pacing pacing;
  const SteadyTime now{seconds(100)};
  BOOST_TEST((pacing.died(now, now - seconds(50)) == now));
  BOOST_TEST((pacing.died(now, now) == now));
  BOOST_TEST((pacing.died(now, kNever) == now + seconds(1)));
  BOOST_TEST((pacing.died(now, kNever) == now + seconds(2)));
  for (int i = 0; i < 100; ++i) BOOST_TEST((pacing.died(now, kNever) <= now + Pacing::kMost));
  BOOST_TEST((pacing.died(now, kNever) == now + Pacing::kMost));
  BOOST_TEST((pacing.died(now, now - seconds(50)) == now));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::master
