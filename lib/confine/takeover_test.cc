// A process that was taken over: it has the plan of a program in force, runs as the account of the mail system, and
// tries what an attacker would. Each attempt is made without a plan as well, where it must succeed.
#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "lib/base/fd.h"
#include "lib/confine/apply.h"
#include "lib/testing/scratch.h"

namespace pen::confine {
namespace {

#ifdef PEN_SANITIZED
constexpr bool kSanitized = true;  // it makes system calls of its own
#else
constexpr bool kSanitized = false;
#endif
constexpr uid_t kOwner = 20000;  // the mail system's account where the test runs as root

using Attempt = std::function<bool()>;

struct Outcome {
  bool succeeded = false;
  std::string report;  // of the refused system call
};

char memory_of_the_victim[] = "the other process's secret";

struct Host {
  Host() : base(scratch.path().string()) {
    for (const auto* name :
         {"etc", "queue", "queue/log", "queue/spool", "queue/maildrop", "queue/corrupt", "data", "other"})
      std::filesystem::create_directory(base + "/" + name);
    for (const auto* name :
         {"queue/log/segment", "queue/spool/1", "queue/maildrop/x", "data/tls_ticket_keys", "other/file"})
      std::ofstream(base + "/" + name) << "secret";
    if (::geteuid() == 0) {
      ::chmod(base.c_str(), 0755);
      for (const auto& entry : std::filesystem::recursive_directory_iterator(base))
        BOOST_REQUIRE(::chown(entry.path().c_str(), kOwner, kOwner) == 0);
    }
    listen();
    start_victim();
  }
  ~Host() {
    ::kill(victim, SIGKILL);
    ::waitpid(victim, nullptr, 0);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void listen() {
    listener = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    BOOST_REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    BOOST_REQUIRE(::listen(listener.get(), 1024) == 0);
    BOOST_REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  }
  static void become_owner() {
    if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setgid(kOwner) != 0 || ::setuid(kOwner) != 0))
      ::_exit(99);
  }
  /// Another process of the account that lets itself be looked at, as far as the kernel's defaults allow.
  void start_victim() {
    int ready[2];
    BOOST_REQUIRE(::pipe(ready) == 0);
    victim = ::fork();
    if (victim == 0) {
      become_owner();
      ::prctl(PR_SET_DUMPABLE, 1);
      ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
      if (::write(ready[1], "x", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char byte = 0;
    BOOST_REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  Plan plan(std::string_view program) const {
    const auto config =
        config::Config::parse({.directory = base + "/etc",
                               .main_cf = "queue_directory = " + base + "/queue\ndata_directory = " + base + "/data\n",
                               .master_cf = "",
                               .overrides = {}},
                              {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
    return make_plan(row_of(program), config, {.machine = real_machine(), .own_directory = own_directory()});
  }

  /// program: "" for the control.
  Outcome run(std::string_view program, const Attempt& attempt) const {
    int pair[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    const Fd ours(pair[0]);
    Fd theirs(pair[1]);
    const pid_t child = ::fork();
    BOOST_REQUIRE(child >= 0);
    if (child == 0) {
      if (program.empty()) {
        become_owner();
        ::prctl(PR_SET_DUMPABLE, 1);
      } else {
        Confinement own(plan(program));
        own.shed_bounding_set();
        become_owner();
        own.close();
        own.filter_calls(theirs.get());
        if (!own.take_problems().empty()) ::_exit(98);
      }
      ::_exit(attempt() ? 0 : 1);
    }
    theirs.reset();
    int status = 0;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    BOOST_REQUIRE_MESSAGE(code == 0 || code == 1 || code == 77, "the attempt ended with " << code);
    Outcome out{.succeeded = code == 0, .report = {}};
    char text[256];
    const ssize_t n = ::recv(ours.get(), text, sizeof text, MSG_DONTWAIT);
    if (n > 0) out.report.assign(text, static_cast<std::size_t>(n));
    return out;
  }

  testing::ScratchDir scratch;
  std::string base;
  Fd listener;
  sockaddr_in address{};
  pid_t victim = -1;
};

bool can_read(const std::string& path) {
  char byte = 0;
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd && ::read(fd.get(), &byte, 1) == 1;
}
bool can_make(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return fd && ::write(fd.get(), "x", 1) == 1;
}

bool has_landlock() { return kernel_offers().scopes; }  // all of it: ports and signals

std::vector<std::string> confined_programs() {
  std::vector<std::string> out;
  for (const Program& row : programs())
    if (row.kind == Kind::confined) out.emplace_back(row.name);
  return out;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(takeover, Host, *boost::unit_test::enable_if<!kSanitized>())

BOOST_AUTO_TEST_CASE(no_program_starts_another_or_forks) {
  const Attempt exec = [] {
    ::execl("/bin/true", "true", nullptr);
    return false;
  };
  const Attempt forks = [] {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(0);
    return pid > 0;
  };
  BOOST_TEST(run("", exec).succeeded);
  BOOST_TEST(run("", forks).succeeded);
  for (const auto& program : confined_programs()) {
    BOOST_TEST_CONTEXT(program) {
      const Outcome tried = run(program, exec);
      BOOST_TEST(!tried.succeeded);
      BOOST_TEST(tried.report.starts_with("violation execve ("));
      BOOST_TEST(tried.report.ends_with(": the process ends"));
      BOOST_TEST(!run(program, forks).succeeded);
    }
  }
}

BOOST_AUTO_TEST_CASE(no_program_looks_into_another_or_signals_it) {
  const Attempt traces = [this] { return ::ptrace(PTRACE_SEIZE, victim, nullptr, nullptr) == 0; };
  const Attempt looks = [this] {
    char copy[sizeof memory_of_the_victim];
    iovec here{copy, sizeof copy}, there{memory_of_the_victim, sizeof copy};
    return ::process_vm_readv(victim, &here, 1, &there, 1, 0) == static_cast<ssize_t>(sizeof copy);
  };
  const Attempt opens = [this] { return can_read("/proc/" + std::to_string(victim) + "/environ"); };
  const Attempt signals = [this] { return ::kill(victim, 0) == 0; };
  for (const Attempt* attempt : {&traces, &looks, &opens, &signals}) BOOST_TEST(run("", *attempt).succeeded);
  for (const auto& program : confined_programs()) {
    BOOST_TEST_CONTEXT(program) {
      for (const Attempt* attempt : {&traces, &looks, &signals}) BOOST_TEST(!run(program, *attempt).succeeded);
      if (has_landlock()) BOOST_TEST(!run(program, opens).succeeded);
    }
  }
}

BOOST_AUTO_TEST_CASE(only_the_queue_manager_opens_the_queue) {
  if (!has_landlock()) return;
  const std::string segment = base + "/queue/log/segment", spool = base + "/queue/spool/1",
                    drop = base + "/queue/maildrop/x";
  for (const std::string& file : {segment, spool, drop}) {
    BOOST_TEST_CONTEXT(file) {
      BOOST_TEST(run("", [&] { return can_read(file); }).succeeded);
      for (const auto& program : confined_programs()) {
        BOOST_TEST_CONTEXT(program) {
          const bool may = program == "qmgr" || (file == drop && program == "pickup");
          BOOST_TEST(run(program, [&] { return can_read(file); }).succeeded == may);
          BOOST_TEST(run(program, [&] { return can_make(file); }).succeeded == may);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(no_program_reads_or_writes_elsewhere) {
  if (!has_landlock()) return;
  const Attempt reads = [this] { return can_read(base + "/other/file"); };
  const Attempt makes = [this] { return can_make(base + "/other/new"); };
  const Attempt makes_in_tmp = [] {
    const std::string name = "/tmp/confine-test-" + std::to_string(::getpid());
    const bool made = can_make(name);
    if (made) ::unlink(name.c_str());
    return made;
  };
  for (const Attempt* attempt : {&reads, &makes, &makes_in_tmp}) {
    BOOST_TEST(run("", *attempt).succeeded);
    for (const auto& program : confined_programs())
      BOOST_TEST_CONTEXT(program) BOOST_TEST(!run(program, *attempt).succeeded);
  }
}

BOOST_AUTO_TEST_CASE(without_landlock_a_program_that_writes_nothing_still_opens_nothing_for_writing) {
  const Attempt makes = [this] { return can_make(base + "/other/new2"); };
  BOOST_TEST(run("", makes).succeeded);
  for (const auto* program : {"smtp", "bounce", "error"}) {
    BOOST_TEST_CONTEXT(program) {
      const Outcome tried = run(program, makes);
      BOOST_TEST(!tried.succeeded);
      BOOST_TEST(tried.report.starts_with("violation openat ("));
    }
  }
}

BOOST_AUTO_TEST_CASE(programs_connect_where_the_table_says) {
  const Attempt connects = [this] {
    const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  };
  const Attempt asks = [] { return ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) >= 0; };
  const Attempt raw = [] { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 262) >= 0; };  // IPPROTO_MPTCP
  BOOST_TEST(run("", connects).succeeded);
  for (const Program& row : programs()) {
    if (row.kind != Kind::confined) continue;
    BOOST_TEST_CONTEXT(row.name) {
      const bool any = row.network == Network::any;
      if (any || has_landlock() || row.network != Network::dns) BOOST_TEST(run(row.name, connects).succeeded == any);
      BOOST_TEST(run(row.name, asks).succeeded == (any || row.network == Network::dns));
      BOOST_TEST(!run(row.name, raw).succeeded);
    }
  }
}

BOOST_AUTO_TEST_CASE(no_abstract_socket_of_others_can_be_reached) {
  if (!has_landlock()) return;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = "confine-test-" + std::to_string(::getpid());
  std::memcpy(name.sun_path + 1, text.data(), text.size());
  const Fd server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  BOOST_REQUIRE(::bind(server.get(), reinterpret_cast<const sockaddr*>(&name), size) == 0);
  BOOST_REQUIRE(::listen(server.get(), 5) == 0);
  const Attempt connects = [&] {
    const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), size) == 0;
  };
  BOOST_TEST(run("", connects).succeeded);
  for (const auto& program : confined_programs())
    BOOST_TEST_CONTEXT(program) BOOST_TEST(!run(program, connects).succeeded);
}

BOOST_AUTO_TEST_CASE(what_programs_need_they_can_do) {
  const Attempt works = [this] {
    bool ran = false;
    std::thread([&ran] { ran = true; }).join();
    return ran && can_read("/etc/passwd") && ::kill(::getpid(), 0) == 0 && !can_read(base + "/missing");
  };
  for (const auto& program : confined_programs()) {
    BOOST_TEST_CONTEXT(program) {
      const Outcome done = run(program, works);
      BOOST_TEST(done.succeeded);
      BOOST_TEST(done.report == "");
    }
  }
  BOOST_TEST(run("anvil", [this] { return can_make(base + "/data/senders"); }).succeeded);
  BOOST_TEST(run("smtpd", [this] { return can_make(base + "/data/tls_ticket_keys"); }).succeeded);
  BOOST_TEST(run("pickup", [this] {
               return ::rename((base + "/queue/maildrop/x").c_str(), (base + "/queue/corrupt/x").c_str()) == 0;
             }).succeeded);
}

BOOST_AUTO_TEST_CASE(a_call_that_is_only_unusual_fails_and_the_program_goes_on) {
  const Outcome tried = run("smtpd", [] { return ::nice(1) == -1 && errno == EPERM && ::nice(1) == -1; });
  BOOST_TEST(tried.succeeded);
  BOOST_TEST(tried.report.starts_with("violation "));
  BOOST_TEST(!tried.report.contains("ends"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::confine
