#include "lib/send/mailbox/confine.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <functional>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::mailbox;

namespace {
constexpr uid_t kLowest = 1000, kUid = 54321;
constexpr gid_t kGid = 54322;

struct Confined {
  Confined() { BOOST_REQUIRE(::chmod(scratch.path().c_str(), 0777) == 0); }
  /// What a process that has confined itself could still do of these tries. Without root: nothing to test.
  std::string could(const std::vector<std::pair<std::string, std::function<bool()>>>& tries) {
    if (::geteuid() != 0) return {};
    int ends[2];
    BOOST_REQUIRE(::pipe(ends) == 0);
    const pid_t pid = ::fork();
    BOOST_REQUIRE(pid >= 0);
    if (pid == 0) {
      std::string out;
      if (const auto done = confine({scratch.path(), kLowest}); !done)
        out = "was not confined: " + done.error().message();
      else
        for (const auto& [name, attempt] : tries)
          if (attempt()) out += name + "\n";
      const bool told = ::write(ends[1], out.data(), out.size()) >= 0;
      ::_exit(told ? 0 : 1);
    }
    ::close(ends[1]);
    std::string said;
    char chunk[512];
    for (ssize_t n = 0; (n = ::read(ends[0], chunk, sizeof chunk)) > 0;)
      said.append(chunk, static_cast<std::size_t>(n));
    ::close(ends[0]);
    int status = 0;
    BOOST_REQUIRE(::waitpid(pid, &status, 0) == pid);
    BOOST_TEST(status == 0);
    return said;
  }
  testing::ScratchDir scratch;
};
constexpr uid_t kSame = static_cast<uid_t>(-1);
}  // namespace

BOOST_FIXTURE_TEST_SUITE(mailbox_confine, Confined)

BOOST_AUTO_TEST_CASE(no_way_leads_back_to_root_or_to_an_account_of_the_system) {
  const gid_t roots = 0;
  BOOST_TEST(could({
                 {"setuid(0)", [] { return ::setuid(0) == 0; }},
                 {"effective root", [] { return ::setresuid(kSame, 0, kSame) == 0; }},
                 {"below the lowest", [] { return ::setresuid(kSame, kLowest - 1, kSame) == 0; }},
                 {"real uid", [] { return ::setresuid(kUid, kUid, kSame) == 0; }},
                 {"saved uid", [] { return ::setresuid(kSame, kUid, kUid) == 0; }},
                 {"seteuid", [] { return ::syscall(SYS_setreuid, kSame, 0) == 0; }},
                 {"setfsuid", [] { return ::syscall(SYS_setfsuid, 0) >= 0; }},
                 {"root's group", [] { return ::setresgid(kSame, 0, kSame) == 0; }},
                 {"real gid", [] { return ::setresgid(kUid, kUid, kSame) == 0; }},
                 {"groups", [&] { return ::setgroups(1, &roots) == 0; }},
             }) == "");
}

BOOST_AUTO_TEST_CASE(nothing_is_run_reached_or_looked_into) {
  BOOST_TEST(could({
                 {"fork", [] { return ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) >= 0; }},
                 {"execve",
                  [] {
                    char name[] = "/bin/true";
                    char* const words[] = {name, nullptr};
                    return ::execv(name, words) == 0;
                  }},
                 {"socket", [] { return ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }},
                 {"ptrace", [] { return ::ptrace(PTRACE_SEIZE, ::getppid(), 0, 0) == 0; }},
                 {"kill", [] { return ::syscall(SYS_kill, ::getpid(), 0) == 0; }},
                 {"chroot", [] { return ::chroot("/") == 0; }},
                 {"chown", [] { return ::syscall(SYS_fchownat, AT_FDCWD, "/", 0, 0, 0) == 0; }},
                 {"signals by a descriptor", [] { return ::fcntl(0, F_SETOWN, 1) == 0; }},
                 {"executable memory",
                  [] {
                    return ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                                  0) != MAP_FAILED;
                  }},
             }) == "");
}

BOOST_AUTO_TEST_CASE(files_are_the_accounts_and_only_those_below_the_directory) {
  if (::geteuid() != 0) return;
  const auto roots = scratch.write("roots", "secret");
  BOOST_REQUIRE(::chmod(roots.c_str(), 0600) == 0);
  testing::ScratchDir other;
  BOOST_REQUIRE(::chmod(other.path().c_str(), 0777) == 0);
  const auto opens = [](const std::string& path, int flags) {
    return [=] { return ::open(path.c_str(), flags | O_CLOEXEC, 0600) >= 0; };
  };
  std::vector<std::pair<std::string, std::function<bool()>>> tries = {
      {"root's file, before it is an account", opens(roots, O_RDONLY)},
      {"a failure to become the account",
       [] {
         act_as({kUid, kGid, {}});
         return ::geteuid() != kUid || ::getegid() != kGid;
       }},
      {"root's file", opens(roots, O_RDONLY)},
      {"a failure to make a file of its own", [&] { return !opens(scratch.file("mine"), O_WRONLY | O_CREAT)(); }}};
  // Only if the kernel supports it.
  if (::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 2) {
    tries.push_back({"a file elsewhere", opens(other.file("x"), O_WRONLY | O_CREAT)});
    tries.push_back({"a file of the system", opens("/etc/passwd", O_RDONLY)});
  }
  BOOST_TEST(could(tries) == "");
  struct stat st{};
  BOOST_REQUIRE(::stat(scratch.file("mine").c_str(), &st) == 0);
  BOOST_TEST(st.st_uid == kUid);
  BOOST_TEST(st.st_gid == kGid);
}

BOOST_AUTO_TEST_SUITE_END()
