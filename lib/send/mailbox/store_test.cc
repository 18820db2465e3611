#include "lib/send/mailbox/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/base/fd.h"
#include "lib/send/mailbox/content.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::mailbox;
namespace fs = std::filesystem;

namespace {
std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
std::vector<fs::path> files(const fs::path& dir) {
  std::vector<fs::path> out;
  for (const auto& e : fs::directory_iterator(dir)) out.push_back(e.path());
  return out;
}

struct Box {
  Box() {
    maildir.base = mbox.base = scratch.path().string();
    maildir.path = "box/";
    mbox.form = Form::mbox;
    mbox.path = "mail";
    mbox.lock.attempts = 1;
    mbox.lock.delay = seconds(0);
  }
  mail::DeliveryStatus put(const Target& target, std::string content, std::uint64_t claimed = 0) {
    Message m;
    m.from_line = mbox_from_line("a@example.org", WallTime(seconds(1'700'000'000)));
    m.fields = "Return-Path: <a@example.org>\n";
    m.size = claimed != 0 ? claimed : content.size();
    m.hostname = "host";
    m.now = WallTime(seconds(1'700'000'000));
    m.unique = ++count;
    bool given = content.empty();
    return store(target, m, [&]() -> Result<std::string_view> {
      if (given) return std::string_view{};
      given = true;
      return std::string_view(content);
    });
  }
  testing::ScratchDir scratch;
  Target maildir, mbox;
  unsigned long long count = 0;
};

/// Another process that holds a lock on a file until the test releases it.
class Holder {
 public:
  /// lock: takes the lock on the file's descriptor.
  Holder(const std::string& path, bool (*lock)(int fd)) {
    int held[2], until[2];
    BOOST_REQUIRE(::pipe2(held, O_CLOEXEC) == 0);
    BOOST_REQUIRE(::pipe2(until, O_CLOEXEC) == 0);
    pid_ = ::fork();
    BOOST_REQUIRE(pid_ >= 0);
    char c = '1';
    if (pid_ == 0) {
      (void)::close(until[1]);
      const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
      const bool ok = fd >= 0 && lock(fd) && ::write(held[1], &c, 1) == 1;
      ::_exit(ok && ::read(until[0], &c, 1) == 0 ? 0 : 1);
    }
    (void)::close(held[1]);
    (void)::close(until[0]);
    until_ = Fd(until[1]);
    const Fd begun(held[0]);
    BOOST_REQUIRE(::read(begun.get(), &c, 1) == 1);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() { release(); }
  void release() {
    if (pid_ < 0) return;
    until_.reset();
    int status = -1;
    BOOST_TEST(::waitpid(pid_, &status, 0) == pid_);
    BOOST_TEST(status == 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  Fd until_;
};
bool lock_by_fcntl(int fd) {
  struct flock all{};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  return ::fcntl(fd, F_SETLK, &all) == 0;
}
bool lock_by_flock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0; }

const std::string kMail = "Subject: x\r\n\r\nhello\r\nFrom here\r\n";
}  // namespace

BOOST_FIXTURE_TEST_SUITE(mailbox_store, Box)

BOOST_AUTO_TEST_CASE(a_maildir_is_made_and_the_message_lands_in_new_with_lf_line_ends) {
  const auto status = put(maildir, kMail);
  BOOST_TEST(status.text == "delivered to maildir");
  BOOST_TEST(status.dsn == "2.0.0");
  const auto found = files(scratch.path() / "box/new");
  BOOST_REQUIRE_EQUAL(found.size(), 1U);
  BOOST_TEST(read_file(found[0]) == "Return-Path: <a@example.org>\nSubject: x\n\nhello\nFrom here\n");
  BOOST_TEST(files(scratch.path() / "box/tmp").empty());
  BOOST_TEST(fs::is_directory(scratch.path() / "box/cur"));
  BOOST_TEST(
      ((fs::status(found[0]).permissions() & fs::perms::all) == (fs::perms::owner_read | fs::perms::owner_write)));
}

BOOST_AUTO_TEST_CASE(messages_of_the_same_moment_do_not_replace_each_other) {
  for (int i = 0; i < 20; ++i) BOOST_TEST(put(maildir, kMail).dsn == "2.0.0");
  BOOST_TEST(files(scratch.path() / "box/new").size() == 20U);
}

BOOST_AUTO_TEST_CASE(content_that_ends_early_leaves_nothing_behind) {
  const auto status = put(maildir, kMail, kMail.size() + 10);
  BOOST_TEST((status.action == mail::Action::deferred));
  BOOST_TEST(files(scratch.path() / "box/new").empty());
  BOOST_TEST(files(scratch.path() / "box/tmp").empty());
  BOOST_TEST(put(mbox, kMail).dsn == "2.0.0");
  const auto before = read_file(scratch.path() / "mail");
  BOOST_TEST((put(mbox, kMail, kMail.size() + 10).action == mail::Action::deferred));
  BOOST_TEST(read_file(scratch.path() / "mail") == before);
}

BOOST_AUTO_TEST_CASE(an_mbox_grows_by_one_framed_and_quoted_message_at_a_time) {
  BOOST_TEST(put(mbox, kMail).text == "delivered to mailbox");
  BOOST_TEST(put(mbox, kMail).dsn == "2.0.0");
  const auto text = read_file(scratch.path() / "mail");
  const auto line = mbox_from_line("a@example.org", WallTime(seconds(1'700'000'000)));
  const auto one = line + "Return-Path: <a@example.org>\nSubject: x\n\nhello\n>From here\n\n";
  BOOST_TEST(text == one + one);
  BOOST_TEST(!fs::exists(scratch.path() / "mail.lock"));
}

BOOST_AUTO_TEST_CASE(a_former_message_without_end_is_ended_first) {
  scratch.write("mail", "From x  y\nSubject: torn\n\nhalf a li");
  BOOST_TEST(put(mbox, kMail).dsn == "2.0.0");
  BOOST_TEST(read_file(scratch.path() / "mail").find("half a li\n\nFrom a@example.org  ") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_mailbox_over_its_limit_is_a_permanent_failure_and_stays_as_it_was) {
  mbox.size_limit = 400;
  std::string last;
  for (;;) {
    const auto status = put(mbox, kMail);
    if (status.action == mail::Action::failed) {
      BOOST_TEST(status.dsn == "5.2.2");
      break;
    }
    last = read_file(scratch.path() / "mail");
    BOOST_REQUIRE(last.size() <= 400U);
  }
  BOOST_TEST(read_file(scratch.path() / "mail") == last);
}

BOOST_AUTO_TEST_CASE(a_held_dotlock_defers_and_a_stale_one_is_removed) {
  const auto lock = scratch.write("mail.lock", "1");
  BOOST_TEST((put(mbox, kMail).action == mail::Action::deferred));
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  BOOST_REQUIRE(::utimensat(AT_FDCWD, lock.c_str(), old, 0) == 0);
  mbox.lock.attempts = 2;
  BOOST_TEST(put(mbox, kMail).dsn == "2.0.0");
}

BOOST_AUTO_TEST_CASE(a_lock_of_the_kernel_that_another_process_holds_defers_until_it_is_released) {
  struct Case {
    const char *method, *other;
    bool (*lock)(int fd);
  };
  for (const auto& [method, other, lock] :
       {Case{"fcntl", "flock", lock_by_fcntl}, Case{"flock", "fcntl", lock_by_flock}}) {
    const auto path = scratch.write(method, "");
    mbox.path = method;
    const auto with = [&](const std::string& methods) {
      auto rules = parse_lock_rules(methods);
      BOOST_REQUIRE(rules);
      mbox.lock = *rules;
      mbox.lock.attempts = 3;
      mbox.lock.delay = seconds(0);
      return put(mbox, kMail);
    };
    Holder holder(path, lock);
    for (const auto& methods : {std::string(method), std::string("fcntl, flock, dotlock")}) {
      const auto s = with(methods);
      BOOST_TEST((s.action == mail::Action::deferred), methods + ": " + s.text);
      BOOST_TEST(s.dsn == "4.2.0");
      BOOST_TEST(s.text.contains("unable to lock for exclusive access"), s.text);
    }
    BOOST_TEST(read_file(path) == "");
    BOOST_TEST(!fs::exists(path + ".lock"));
    BOOST_TEST(with(other).dsn == "2.0.0");  // this lock is not asked for
    holder.release();
    BOOST_TEST(with(method).dsn == "2.0.0");
    BOOST_TEST(with("fcntl, flock, dotlock").dsn == "2.0.0");
  }
}

BOOST_AUTO_TEST_CASE(links_planted_as_mailbox_have_no_effect) {
  const auto victim = scratch.write("victim", "precious\n");
  fs::create_symlink(victim, scratch.path() / "mail");
  BOOST_TEST((put(mbox, kMail).action == mail::Action::deferred));
  fs::remove(scratch.path() / "mail");
  fs::create_hard_link(victim, scratch.path() / "mail");
  BOOST_TEST((put(mbox, kMail).action == mail::Action::deferred));
  BOOST_TEST(read_file(victim) == "precious\n");
  fs::create_directory(scratch.path() / "elsewhere");
  fs::create_directory_symlink(scratch.path() / "elsewhere", scratch.path() / "box");
  BOOST_TEST((put(maildir, kMail).action == mail::Action::deferred));
  BOOST_TEST(files(scratch.path() / "elsewhere").empty());
}

BOOST_AUTO_TEST_CASE(a_fifo_as_mailbox_does_not_hang_the_delivery) {
  BOOST_REQUIRE(::mkfifo((scratch.path() / "mail").c_str(), 0600) == 0);
  BOOST_TEST((put(mbox, kMail).action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(a_path_cannot_climb_out_of_its_base) {
  maildir.path = "../outside/";
  BOOST_TEST((put(maildir, kMail).action == mail::Action::deferred));
  mbox.path = "..";
  BOOST_TEST((put(mbox, kMail).action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(lock_methods_are_parsed_and_unknown_ones_refused) {
  const auto rules = parse_lock_rules("fcntl, dotlock");
  BOOST_REQUIRE(rules);
  BOOST_TEST(rules->fcntl);
  BOOST_TEST(rules->dotlock);
  BOOST_TEST(!rules->flock);
  BOOST_TEST(!parse_lock_rules("fcntl hope"));
  BOOST_TEST(!parse_lock_rules(""));
}

BOOST_AUTO_TEST_SUITE_END()
