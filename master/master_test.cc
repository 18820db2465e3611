#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "lib/base/async/socket.h"
#include "lib/base/async/stream.h"
#include "lib/suite/service/lock.h"
#include "lib/testing/scratch.h"

namespace pen::master {
namespace {

constexpr int kPatience = 20'000;  // ms; only a failing test waits so long

/// True: the process ends in time.
bool ends(pid_t pid) {
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return true;
  pollfd wait{process.get(), POLLIN, 0};
  return ::poll(&wait, 1, kPatience) == 1;
}

/// A blocking client of a test program.
class Client {
 public:
  explicit Client(const std::string& path) {
    async::Loop loop;
    std::optional<Fd> fd;
    loop.spawn("connect", connect(&loop, path, &fd));
    loop.run();
    if (fd) fd_ = std::move(*fd);
  }
  /// Sends a word; returns the answer; empty: the connection ended.
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
  static async::Task<void> connect(async::Loop* loop, std::string path, std::optional<Fd>* out) {
    auto stream = co_await async::connect(*loop, async::SocketAddress::unix(std::move(path)));
    if (stream) *out = Fd(::dup(stream->fd()));
  }
  Fd fd_;
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
                  "\nmail_owner = nobody\nqueue_owner = nobody\nsetgid_group = nogroup\nstop_drain_time = 1s\n");
    dir.write("etc/master.cf", master_cf);
  }
  ~Instance() {
    if (master > 0) {
      ::kill(master, SIGKILL);
      ::waitpid(master, nullptr, 0);
    }
  }
  /// Starts the instance; returns master's report: "ok", or what failed.
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
    for (ssize_t n = 0; (n = ::read(report[0], part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(n));
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
  /// Use it only if nothing else shows that master has looked at a file.
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
  /// The service's part of the status file, once it has the property. The file is replaced by rename, so the function
  /// reads until the next one comes.
  template <class F>
  bool status_becomes(const std::string& service, F property) {
    for (int i = 0; i < kPatience / 10; ++i) {
      std::ifstream file(dir.file("spool/pid/master.status"));
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
  const pid_t child = ::fork();  // master reports only after it gave up waiting: ask in another process
  if (child == 0) {
    const std::string etc = i.dir.file("etc");
    ::execl(PEN_MASTER, "master", "-c", etc.c_str(), "-f", nullptr);
    ::_exit(127);
  }
  i.master = child;
  BOOST_TEST(i.status_becomes("bad/unix", [](const auto& s) { return s["state"] == "waiting to restart"; }));
  BOOST_TEST(i.client("one").pid() > 0);
}

BOOST_AUTO_TEST_CASE(a_reason_with_ready_in_it_is_no_readiness) {
  Instance i("bad unix - n n 60 - testd fails already\n");
  BOOST_TEST(i.start() ==
             "started, but service bad/unix is waiting to restart: already: Input/output error: see the log");
}

BOOST_AUTO_TEST_CASE(a_reload_keeps_open_sessions_and_serves_new_ones_from_a_new_process) {
  Instance i(kOne);
  BOOST_TEST(i.start() == "ok");
  Client old_session = i.client("one");
  const pid_t old_pid = old_session.pid();
  i.dir.write("etc/master.cf", "one unix - n n - 8 testd\n");
  ::kill(i.master, SIGHUP);
  BOOST_TEST(i.status_becomes("one/unix",
                              [&](const auto& s) { return s["draining"].size() == 1 && s["draining"][0] == old_pid; }));
  // The old process may accept until it has read the order to drain.
  Client new_session = i.client("one");
  for (int k = 0; k < 1000 && new_session.ask("limit") == "7"; ++k) new_session = i.client("one");
  BOOST_TEST(new_session.ask("limit") == "8");
  BOOST_TEST(new_session.pid() != old_pid);
  BOOST_TEST(old_session.pid() == old_pid);
  old_session = Client("/nowhere");
  BOOST_TEST(ends(old_pid));
}

BOOST_AUTO_TEST_CASE(a_program_that_does_not_start_with_new_settings_leaves_the_old_one_serving) {
  Instance i("one unix - n n 60 7 testd\n");
  BOOST_TEST(i.start() == "ok");
  const pid_t old_pid = i.client("one").pid();
  BOOST_REQUIRE(old_pid > 0);
  i.dir.write("etc/master.cf", "one unix - n n 60 8 testd fails\n");
  ::kill(i.master, SIGHUP);
  BOOST_TEST(i.log_shows("reload: service one/unix: testd goes on with the settings that it has"));
  BOOST_TEST(i.status_becomes("one/unix", [&](const auto& s) {
    return s["state"] == "serving" && s["pid"] == old_pid && s.value("former_settings", false);
  }));
  BOOST_TEST(i.client("one").pid() == old_pid);
  // The next reload, with settings that are right.
  i.dir.write("etc/master.cf", "one unix - n n 60 9 testd\n");
  ::kill(i.master, SIGHUP);
  BOOST_TEST(i.status_becomes("one/unix", [&](const auto& s) {
    return s["state"] == "serving" && s["pid"] != old_pid && !s.contains("former_settings");
  }));
  BOOST_TEST(ends(old_pid));
  BOOST_TEST(i.client("one").ask("limit") == "9");
}

BOOST_AUTO_TEST_CASE(a_reload_that_another_one_overtakes_leaves_one_program) {
  Instance i("one unix - n n 60 7 testd\n");
  BOOST_TEST(i.start() == "ok");
  BOOST_REQUIRE(i.client("one").pid() > 0);
  for (int limit = 10; limit < 20; ++limit) {
    i.dir.write("etc/master.cf", "one unix - n n 60 " + std::to_string(limit) + " testd\n");
    ::kill(i.master, SIGHUP);
  }
  BOOST_TEST(i.status_becomes("one/unix", [&](const auto& s) {
    if (s["state"] != "serving" || !s["draining"].empty()) return false;
    return i.client("one").ask("limit") == "19";
  }));
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

// Sleeps longer than stop_drain_time and the grace together. It waits for nothing: the sleep is the test.
void sleep_longer_than_a_drain() { std::this_thread::sleep_for(milliseconds(2500)); }

BOOST_AUTO_TEST_CASE(after_a_long_sleep_a_replaced_program_has_its_whole_time_to_finish) {
  Instance i("one unix - n n - 1 testd\n");
  BOOST_TEST(i.start() == "ok");
  Client session = i.client("one");
  const pid_t old_pid = session.pid();
  sleep_longer_than_a_drain();
  const auto asked = std::chrono::steady_clock::now();
  ::kill(i.master, SIGHUP);
  BOOST_TEST(ends(old_pid));
  BOOST_TEST((std::chrono::steady_clock::now() - asked >= seconds(1)));
}

BOOST_AUTO_TEST_CASE(after_a_long_sleep_a_stop_leaves_programs_their_whole_time_too) {
  Instance i(kOne);
  BOOST_TEST(i.start() == "ok");
  Client session = i.client("one");
  const pid_t pid = session.pid();
  sleep_longer_than_a_drain();
  const auto asked = std::chrono::steady_clock::now();
  ::kill(i.master, SIGTERM);
  BOOST_TEST(ends(pid));
  BOOST_TEST((std::chrono::steady_clock::now() - asked >= seconds(1)));
  BOOST_TEST(i.wait_status() == 0);
}

BOOST_AUTO_TEST_CASE(what_a_program_says_as_it_ends_is_heard) {
  Instance i(kOne);
  BOOST_TEST(i.start() == "ok");
  Client session = i.client("one");
  const pid_t pid = session.pid();
  // Master wakes up to the word and to the end at once.
  ::kill(i.master, SIGSTOP);
  BOOST_TEST(session.ask("violate") == "");
  BOOST_TEST(ends(pid));
  ::kill(i.master, SIGCONT);
  BOOST_TEST(i.status_becomes("one/unix", [](const auto& s) { return s["restarts"] == 1; }));
  BOOST_TEST(
      i.log_shows("testd pid " + std::to_string(pid) + " made a system call that it must not make: execve (59)"));
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
    (void)i.log_shows("Address already in use: tried again");
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
  BOOST_TEST(service::running_master(i.dir.file("spool/pid")).value()->pid() == first);
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
  BOOST_TEST(!service::running_master(i.dir.file("spool/pid")).value().has_value());
}

BOOST_AUTO_TEST_CASE(services_that_cannot_be_are_told_and_left_out) {
  Instance i(std::string(kOne) + "old fifo n n n - 1 testd\nscache unix - - n - 1 scache\n");
  BOOST_TEST(i.start() == "ok");
  std::ifstream file(i.dir.file("spool/pid/master.status"));
  std::ostringstream text;
  text << file.rdbuf();
  const auto json = nlohmann::json::parse(text.str());
  BOOST_TEST(json["not_started"].size() == 2U);
  BOOST_TEST(json["services"].size() == 1U);
}

/// What mail_owner could prepare before a start to misuse root's rights.
struct Trapped : Instance {
  Trapped() : Instance(kOne) {
    const passwd* entry = ::getpwnam("nobody");
    owner = entry ? entry->pw_uid : 0;
    dir.write("victim", "what root alone may write");
    BOOST_TEST(::chmod(dir.path().c_str(), 0755) == 0);
    BOOST_TEST(::chmod(victim().c_str(), 0600) == 0);
  }
  std::string victim() const { return dir.file("victim"); }
  void directory(const std::string& name) const {
    std::filesystem::create_directories(dir.path() / name);
    BOOST_TEST(::chown(dir.file(name).c_str(), owner, 0) == 0);
  }
  void link(const std::string& name) const {
    std::filesystem::create_symlink(victim(), dir.path() / name);
    BOOST_TEST(::lchown(dir.file(name).c_str(), owner, 0) == 0);
  }
  void victim_is_as_it_was() const {
    std::ifstream file(victim());
    std::ostringstream text;
    text << file.rdbuf();
    BOOST_TEST(text.str() == "what root alone may write");
    struct stat st{};
    BOOST_TEST(::stat(victim().c_str(), &st) == 0);
    BOOST_TEST((st.st_mode & 07777) == 0600U);
    BOOST_TEST(st.st_uid == 0U);
  }
  uid_t owner = 0;
};

const bool is_root = ::geteuid() == 0;
boost::test_tools::assertion_result as_root(boost::unit_test::test_unit_id) { return is_root; }

BOOST_AUTO_TEST_CASE(links_of_mail_owner_lead_root_nowhere, *boost::unit_test::precondition(as_root)) {
  Trapped i;
  for (const char* where : {"data", "spool", "spool/pid"}) i.directory(where);
  for (const char* where : {"data", "spool", "spool/pid"}) {
    for (const char* name : {"master.status", "master.status.new", "master.lock", "programs.lock"})
      i.link(std::string(where) + "/" + name);
  }
  BOOST_TEST(i.start() == "ok");
  Client c = i.client("one");
  ::kill(c.pid(), SIGKILL);  // any change of state writes the status
  BOOST_TEST(i.status_becomes("one/unix", [](const auto& s) { return s["restarts"] == 1; }));
  i.victim_is_as_it_was();
}

BOOST_AUTO_TEST_CASE(a_directory_of_the_queue_that_is_a_link_ends_the_start, *boost::unit_test::precondition(as_root)) {
  for (const char* name : {"spool/pid", "spool/private", "spool/public", "spool/maildrop", "spool/corrupt", "spool/log",
                           "spool/spool", "data"}) {
    Trapped i;
    i.directory("spool");
    i.directory("elsewhere");
    std::filesystem::create_symlink(i.dir.path() / "elsewhere", i.dir.path() / name);
    BOOST_TEST(i.start().contains(name));
    BOOST_TEST(i.wait_status() == EX_CONFIG);
    struct stat st{};
    BOOST_TEST(::stat(i.dir.file("elsewhere").c_str(), &st) == 0);
    BOOST_TEST(st.st_uid == i.owner);
    BOOST_TEST((st.st_mode & 07777) == 0755U);
  }
}

BOOST_AUTO_TEST_CASE(what_lies_in_directories_of_mail_owner_is_its_own_and_the_way_there_is_root_s,
                     *boost::unit_test::precondition(as_root)) {
  Trapped i;
  i.directory("spool");  // as older versions left it
  BOOST_TEST(i.start() == "ok");
  const auto status_of = [&](const char* name) {
    struct stat st{};
    BOOST_TEST(::lstat(i.dir.file(name).c_str(), &st) == 0, name);
    return st;
  };
  for (const char* name : {"spool/private", "spool/public", "spool/maildrop", "spool/corrupt", "spool/log",
                           "spool/spool", "data/senders", "data/tls_ticket_keys", "spool/private/one"})
    BOOST_TEST(status_of(name).st_uid == i.owner, name);
  for (const char* name :
       {"spool", "spool/pid", "spool/pid/master.lock", "spool/pid/programs.lock", "spool/pid/master.status", "data"})
    BOOST_TEST(status_of(name).st_uid == 0U, name);
  BOOST_TEST((status_of("spool").st_mode & 07777) == 0755U);
  BOOST_TEST((status_of("spool/pid").st_mode & 07777) == 0700U);
  BOOST_TEST((status_of("spool/private/one").st_mode & 07777) == 0666U);
}

BOOST_AUTO_TEST_CASE(a_pid_that_is_no_master_s_is_not_taken_for_one) {
  Instance i(kOne);
  BOOST_TEST(i.start() == "ok");
  const std::string state = i.dir.file("spool/pid");
  BOOST_TEST(service::running_master(state).value()->pid() == i.master);
  i.dir.write("spool/pid/master.lock", std::to_string(::getpid()) + "\n");
  BOOST_TEST(service::running_master(state).error().is_errno(EAGAIN));
  BOOST_TEST(::chmod(state.c_str(), 0770) == 0);
  BOOST_TEST(service::running_master(state).error().is(service::LockError::not_ours));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::master
