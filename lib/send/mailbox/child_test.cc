#include "lib/send/mailbox/child.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::mailbox;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(mailbox_child)

namespace {
struct Home {
  Home() {
    if (::geteuid() == 0) {
      work.become = Identity{65534, 65534, {65534}};
      BOOST_REQUIRE(::chown(scratch.path().c_str(), 65534, 65534) == 0);
    }
    work.target.base = scratch.path().string();
    work.target.path = "Maildir/";
    work.message.hostname = "host";
    work.message.fields = "Return-Path: <a@b>\n";
  }
  std::vector<std::string> mails() {
    std::vector<std::string> out;
    if (!fs::exists(scratch.path() / "Maildir/new")) return out;
    for (const auto& e : fs::directory_iterator(scratch.path() / "Maildir/new")) {
      std::ifstream in(e.path(), std::ios::binary);
      std::ostringstream text;
      text << in.rdbuf();
      out.push_back(text.str());
    }
    return out;
  }
  void own(const std::string& path) {
    if (::geteuid() == 0) BOOST_REQUIRE(::chown(path.c_str(), 65534, 65534) == 0);
  }
  testing::ScratchDir scratch;
  Work work;
};
const std::string kMail = "Subject: x\r\n\r\nhello\r\n";
}  // namespace

PEN_FIXTURE(Home)

BOOST_AUTO_TEST_CASE(a_child_delivers_as_the_recipient) {
  const auto answer = deliver_in_child(work, ipc::Content::in_memory(kMail), seconds(30));
  BOOST_TEST(answer.status.text == "delivered to maildir");
  const auto found = mails();
  BOOST_REQUIRE_EQUAL(found.size(), 1U);
  BOOST_TEST(found[0] == "Return-Path: <a@b>\nSubject: x\n\nhello\n");
  struct stat st{};
  BOOST_REQUIRE(::stat((scratch.path() / "Maildir").c_str(), &st) == 0);
  if (work.become) BOOST_TEST(st.st_uid == 65534U);
}

BOOST_AUTO_TEST_CASE(a_large_body_comes_through_from_a_file_at_an_offset) {
  std::string content = "Subject: big\r\n\r\n";
  for (int i = 0; i < 200'000; ++i) content += "0123456789\r\n";
  const auto path = scratch.write("spool", "HEADER" + content + "rubbish of an older message");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  BOOST_REQUIRE(fd >= 0);
  const auto answer = deliver_in_child(work, ipc::Content::in_file(Fd(fd), 6, content.size()), seconds(60));
  BOOST_TEST(answer.status.dsn == "2.0.0");
  std::string expected = "Return-Path: <a@b>\n" + content;
  std::erase(expected, '\r');
  const auto found = mails();
  BOOST_REQUIRE_EQUAL(found.size(), 1U);
  BOOST_TEST((found[0] == expected));
}

BOOST_AUTO_TEST_CASE(a_spool_file_that_is_too_short_is_deferred_without_a_delivery) {
  const auto path = scratch.write("spool", "short");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto answer = deliver_in_child(work, ipc::Content::in_file(Fd(fd), 0, 5000), seconds(30));
  BOOST_TEST((answer.status.action == mail::Action::deferred));
  BOOST_TEST(mails().empty());
}

BOOST_AUTO_TEST_CASE(a_forward_file_is_reported_instead_of_a_delivery) {
  const auto path = scratch.write(".forward", "bob@example.org\n");
  own(path);
  work.forward_files = {scratch.file(".forward+ext"), path};
  const auto answer = deliver_in_child(work, ipc::Content::in_memory(kMail), seconds(30));
  BOOST_TEST(answer.file_found);
  BOOST_TEST(answer.file_text == "bob@example.org\n");
  BOOST_TEST(mails().empty());
}

BOOST_AUTO_TEST_CASE(a_forward_file_that_others_may_write_is_not_obeyed) {
  const auto path = scratch.write(".forward", "eve@example.org\n");
  own(path);
  BOOST_REQUIRE(::chmod(path.c_str(), 0666) == 0);
  work.forward_files = {path};
  const auto answer = deliver_in_child(work, ipc::Content::in_memory(kMail), seconds(30));
  BOOST_TEST(!answer.file_found);
  BOOST_TEST(mails().size() == 1U);
}

BOOST_AUTO_TEST_CASE(nothing_is_delivered_as_root) {
  if (::geteuid() != 0) return;
  work.become = Identity{0, 0, {}};
  const auto answer = deliver_in_child(work, ipc::Content::in_memory(kMail), seconds(30));
  BOOST_TEST((answer.status.action == mail::Action::deferred));
  BOOST_TEST(mails().empty());
}

BOOST_AUTO_TEST_CASE(a_delivery_that_hangs_is_stopped_at_its_limit) {
  // The delivery waits for a lock that is never released, much longer than the limit.
  work.target.form = Form::mbox;
  work.target.path = "mail";
  work.target.lock.delay = seconds(1000);
  own(scratch.write("mail.lock", "1"));
  const auto answer = deliver_in_child(work, ipc::Content::in_memory(kMail), seconds(1));
  BOOST_TEST((answer.status.action == mail::Action::deferred));
  BOOST_TEST(answer.status.text.find("longer than 1 seconds") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_delivery_that_waits_for_a_lock_stores_nothing_after_its_conversation) {
  work.target.form = Form::mbox;
  work.target.path = "mail";
  work.target.lock.delay = seconds(1);
  work.target.lock.attempts = 1000;
  const auto lock = scratch.write("mail.lock", "1");
  own(lock);
  const auto ending = delivery::Ending::make();
  BOOST_REQUIRE(ending);
  Work look = work;
  look.only_look = true;
  (void)deliver_in_child(look, ipc::Content::in_memory(kMail),
                         seconds(900));  // the account has a worker now
  Answer answer;
  std::thread delivery(
      [&] { answer = deliver_in_child(work, ipc::Content::in_memory(kMail), seconds(900), ending->get()); });
  (*ending)->come();
  delivery.join();
  BOOST_TEST((answer.status.action == mail::Action::deferred));
  fs::remove(lock);
  // This delivery waits in line behind the first.
  BOOST_TEST(deliver_in_child(work, ipc::Content::in_memory("Subject: second\r\n\r\n"), seconds(900)).status.dsn ==
             "2.0.0");
  std::ifstream in(scratch.file("mail"));
  std::ostringstream text;
  text << in.rdbuf();
  BOOST_TEST(text.str().contains("Subject: second"));
  BOOST_TEST(!text.str().contains("Subject: x"));
}

BOOST_AUTO_TEST_CASE(one_process_serves_the_deliveries_of_an_account_and_none_of_another) {
  // Accounts that no other test uses. Without root there is only one account, and it may have a worker already.
  const auto run = [&](gid_t gid, const std::string& line) {
    Work mine = work;
    if (mine.become) mine.become = Identity{65534, gid, {gid}};
    mine.command.emplace();
    mine.command->line = line;
    mine.command->directory = scratch.path();
    mine.command->environment = {"PATH=/usr/bin:/bin"};
    return deliver_in_child(mine, ipc::Content::in_memory(kMail), seconds(900)).status;
  };
  const auto waits = [&](const char* name) {
    const auto fifo = scratch.file(name);
    BOOST_REQUIRE(::mkfifo(fifo.c_str(), 0666) == 0);
    BOOST_REQUIRE(::chmod(fifo.c_str(), 0666) == 0);
    return std::thread([&run, name = std::string(name)] {
      BOOST_TEST(run(65530, "echo $PPID > " + name + "; read x < " + name).dsn == "2.0.0");
    });
  };
  const auto said = [&](const char* name) {
    std::ifstream in(scratch.file(name));
    std::string pid;
    std::getline(in, pid);
    return "x-unix; " + pid;
  };
  // The first delivery has a process to itself while it runs; the others share one.
  auto first = waits("first");
  const auto alone = said("first");
  auto second = waits("second");
  const auto shared = said("second");
  if (work.become) BOOST_TEST(shared != alone);
  BOOST_TEST(run(65530, "echo $PPID; exit 75").diagnostic == shared);
  if (work.become) BOOST_TEST(run(65531, "echo $PPID; exit 75").diagnostic != shared);
  for (const char* name : {"first", "second"}) std::ofstream(scratch.file(name)) << "go\n";
  first.join();
  second.join();
}

BOOST_AUTO_TEST_CASE(a_mailbox_that_hangs_holds_up_no_other_of_its_account) {
  Work hanging = work;
  hanging.target.form = Form::mbox;
  hanging.target.path = "mail";
  hanging.target.lock.delay = seconds(1);
  hanging.target.lock.attempts = 1000;
  const auto lock = scratch.write("mail.lock", "1");
  own(lock);
  std::vector<Answer> waiting(3);
  std::vector<std::thread> threads;
  for (auto& answer : waiting)
    threads.emplace_back([&] { answer = deliver_in_child(hanging, ipc::Content::in_memory(kMail), seconds(900)); });
  for (std::size_t n = 1; n <= 5; ++n) {
    const auto answer = deliver_in_child(work, ipc::Content::in_memory(kMail), seconds(900));
    BOOST_TEST(answer.status.dsn == "2.0.0");
  }
  BOOST_TEST(!fs::exists(scratch.path() / "mail"));
  fs::remove(lock);
  for (auto& thread : threads) thread.join();
  for (const auto& answer : waiting) BOOST_TEST(answer.status.dsn == "2.0.0");
}

BOOST_AUTO_TEST_CASE(nothing_is_stored_by_a_process_that_is_root) {
  if (::geteuid() != 0) return;
  work.become.reset();
  const auto answer = deliver_in_child(work, ipc::Content::in_memory(kMail), seconds(30));
  BOOST_TEST(answer.status.text.contains("nothing is done as root"));
  BOOST_TEST(mails().empty());
}

BOOST_AUTO_TEST_CASE(a_worker_that_was_killed_costs_its_deliveries_and_no_later_one) {
  const auto run = [&](const std::string& line) {
    work.command.emplace();
    work.command->line = line;
    work.command->environment = {"PATH=/usr/bin:/bin"};
    return deliver_in_child(work, ipc::Content::in_memory(kMail), seconds(60)).status;
  };
  const auto killed = run("kill -9 $PPID; sleep 1000");
  BOOST_TEST((killed.action == mail::Action::deferred));
  BOOST_TEST(run("exit 0").dsn == "2.0.0");
  // A stopped worker takes no more jobs: the next job waits for its limit, and later ones go to another worker.
  const auto stopped = run("kill -STOP $PPID; kill -9 $PPID");
  BOOST_TEST((stopped.action == mail::Action::deferred));
  BOOST_TEST(run("exit 0").dsn == "2.0.0");
}

BOOST_AUTO_TEST_CASE(content_that_is_another_messages_after_a_read_is_not_delivered) {
  std::string content = "Subject: big\r\n\r\n";
  while (content.size() < 300'000) content += "0123456789\r\n";
  const auto path = scratch.write("spool", content);
  auto body = ipc::Content::in_file(Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), 0, content.size());
  int reads = 0;
  body.check_reads([&reads](int) -> Result<void> {
    if (++reads < 3) return {};
    return fail_errno("used again", ESTALE);
  });
  for (const auto form : {Form::maildir, Form::mbox}) {
    work.target.form = form;
    work.target.path = form == Form::mbox ? "mail" : "Maildir/";
    reads = 0;
    const auto answer = deliver_in_child(work, body, seconds(60));
    BOOST_TEST((answer.status.action == mail::Action::deferred));
    BOOST_TEST(answer.status.text.contains("used again"));
  }
  BOOST_TEST(mails().empty());
  BOOST_TEST(!fs::exists(scratch.path() / "mail"));
}

BOOST_AUTO_TEST_CASE(a_forward_file_that_cannot_be_opened_is_none) {
  const auto closed = scratch.write("closed", "eve@example.org\n");
  own(closed);
  BOOST_REQUIRE(::chmod(closed.c_str(), 0) == 0);
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  scratch.file("socket").copy(at.sun_path, sizeof at.sun_path - 1);
  BOOST_REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  own(scratch.file("socket"));
  std::size_t delivered = 0;
  for (const auto& path : {closed, scratch.file(std::string(300, 'x')), scratch.file("socket")}) {
    work.forward_files = {path};
    const auto answer = deliver_in_child(work, ipc::Content::in_memory(kMail), seconds(30));
    BOOST_TEST(!answer.file_found, path);
    BOOST_TEST(answer.status.text == "delivered to maildir", path);
    BOOST_TEST(mails().size() == ++delivered);
  }
}

BOOST_AUTO_TEST_SUITE_END()
