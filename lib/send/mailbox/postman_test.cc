#include "lib/send/mailbox/postman.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "lib/send/mailbox/child.h"
#include "lib/send/mailbox/nursery.h"
#include "lib/send/mailbox/postmen.h"
#include "lib/send/mailbox/worker.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::mailbox;
namespace fs = std::filesystem;

namespace {
const std::string kTwo = "00000000000000c0";  // CAP_SETUID and CAP_SETGID
const std::string kMail = "Subject: x\r\n\r\nhello\r\n";

std::map<std::string, std::string> status_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  std::map<std::string, std::string> out;
  for (std::string line; std::getline(in, line);)
    if (const auto colon = line.find(":\t"); colon != std::string::npos)
      out[line.substr(0, colon)] = line.substr(colon + 2);
  return out;
}

pid_t parent_of(pid_t pid) { return std::atoi(status_of(pid)["PPid"].c_str()); }

std::set<pid_t> children_of(pid_t parent) {
  std::set<pid_t> out;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && parent_of(pid) == parent) out.insert(pid);
  }
  return out;
}

/// The confined processes that this process's nursery has made.
std::set<pid_t> all_postmen() {
  std::set<pid_t> out;
  for (const pid_t nursery : children_of(::getpid()))
    for (const pid_t pid : children_of(nursery))
      if (status_of(pid)["CapBnd"] == kTwo) out.insert(pid);
  return out;
}

/// Accounts that no other test uses: an account that had two simultaneous deliveries has a worker for a while.
struct Street {
  Street() : before(all_postmen()) {
    static uid_t next = 54000;
    first = next += 100;
    BOOST_REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
    Policy policy;
    policy.service = Policy::Service::mailboxes;
    policy.round = {.base = scratch.path().string(), .lowest = first};
    Nursery::instance().use(std::move(policy));
  }
  ~Street() { Nursery::instance().use({}); }
  Street(const Street&) = delete;
  Street& operator=(const Street&) = delete;
  /// A delivery into a mailbox below the house of account n.
  Work work(unsigned n, const std::string& mailbox = "Maildir/") {
    const uid_t uid = first + n;
    const auto house = scratch.file(std::to_string(uid));
    if (fs::create_directory(house)) {
      BOOST_REQUIRE(::chown(house.c_str(), uid, uid + 1000) == 0);
      BOOST_REQUIRE(::chmod(house.c_str(), 0700) == 0);
    }
    Work out;
    out.become = Identity{uid, uid + 1000, {}};
    out.round = Round{scratch.path(), first};
    out.target.base = scratch.path();
    out.target.path = std::to_string(uid) + "/" + mailbox;
    out.target.form = mailbox.ends_with('/') ? Form::maildir : Form::mbox;
    out.message.hostname = "host";
    out.message.fields = "Return-Path: <a@b>\n";
    out.message.unique = ++count;
    return out;
  }
  static mail::DeliveryStatus deliver(Work what, const std::string& content = kMail) {
    return deliver_in_child(std::move(what), ipc::Content::in_memory(content), seconds(900)).status;
  }
  std::vector<fs::path> files(unsigned n) {
    std::vector<fs::path> out;
    const auto box = scratch.path() / std::to_string(first + n) / "Maildir/new";
    if (!fs::exists(box)) return out;
    for (const auto& each : fs::directory_iterator(box)) out.push_back(each.path());
    return out;
  }
  std::set<pid_t> postmen() {
    auto out = all_postmen();
    for (const pid_t old : before) out.erase(old);
    return out;
  }
  testing::ScratchDir scratch;
  std::set<pid_t> before;
  unsigned count = 0;
  uid_t first = 0;
};

/// A delivery that stops before its content is sent, until it is released.
class Stuck {
 public:
  Stuck(Street& street, Work work, seconds limit = seconds(900), const delivery::Ending* ending = nullptr) {
    const auto path = street.scratch.write("content" + std::to_string(street.count), kMail);
    auto body = std::make_shared<ipc::Content>(
        ipc::Content::in_file(Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), 0, kMail.size()));
    body->check_reads([this, first = true](int) mutable -> Result<void> {
      if (std::exchange(first, false)) {
        began_.set_value();
        go_.get_future().wait();
      }
      return {};
    });
    answer_ = std::async(std::launch::async, [=] { return deliver_in_child(work, *body, limit, ending).status; });
    began_.get_future().wait();
  }
  ~Stuck() {
    if (answer_.valid()) let_go();
  }
  mail::DeliveryStatus let_go() {
    go_.set_value();
    return answer_.get();
  }

 private:
  std::promise<void> began_, go_;
  std::future<mail::DeliveryStatus> answer_;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mailbox_postman, Street, *boost::unit_test::precondition([](boost::unit_test::test_unit_id) {
                           return boost::test_tools::assertion_result(::geteuid() == 0);
                         }))

BOOST_AUTO_TEST_CASE(one_process_delivers_for_many_accounts_as_each_of_them) {
  for (unsigned n = 0; n < 20; ++n) BOOST_TEST(deliver(work(n)).text == "delivered to maildir");
  BOOST_TEST(postmen().size() == 1U);
  for (unsigned n = 0; n < 20; ++n) {
    const auto found = files(n);
    BOOST_REQUIRE_EQUAL(found.size(), 1U);
    for (const auto& path : {found[0], found[0].parent_path()}) {
      struct stat st{};
      BOOST_REQUIRE(::stat(path.c_str(), &st) == 0);
      BOOST_TEST(st.st_uid == first + n);
      BOOST_TEST(st.st_gid == first + n + 1000);
      BOOST_TEST((st.st_mode & 0777) == (fs::is_directory(path) ? 0700U : 0600U));
    }
    std::ostringstream text;
    text << std::ifstream(found[0]).rdbuf();
    BOOST_TEST(text.str() == "Return-Path: <a@b>\nSubject: x\n\nhello\n");
  }
}

BOOST_AUTO_TEST_CASE(it_has_two_capabilities_no_group_and_a_filter_and_cannot_be_looked_into) {
  BOOST_TEST(deliver(work(1)).dsn == "2.0.0");
  const auto all = postmen();
  BOOST_REQUIRE_EQUAL(all.size(), 1U);
  auto status = status_of(*all.begin());
  for (const char* set : {"CapPrm", "CapEff", "CapBnd"}) BOOST_TEST(status[set] == kTwo, set);
  BOOST_TEST(status["CapInh"] == "0000000000000000");
  BOOST_TEST(status["NoNewPrivs"] == "1");
  BOOST_TEST(status["Seccomp"] == "2");
  BOOST_TEST(status["Groups"].find_first_of("0123456789") == std::string::npos);
  // Real, effective, saved, file system: no account may signal the process.
  const auto uid = std::to_string(first + 1), gid = std::to_string(first + 1001);
  BOOST_TEST(status["Uid"] == "0\t" + uid + "\t0\t" + uid);
  BOOST_TEST(status["Gid"] == "0\t" + gid + "\t0\t" + gid);
  struct stat st{};
  BOOST_REQUIRE(::stat(("/proc/" + std::to_string(*all.begin()) + "/mem").c_str(), &st) == 0);
  BOOST_TEST(st.st_uid == 0U);
}

BOOST_AUTO_TEST_CASE(an_account_has_no_more_than_its_rights) {
  BOOST_TEST(deliver(work(1)).dsn == "2.0.0");
  // The next mailbox is in another account's house.
  auto strange = work(2);
  strange.target.path = std::to_string(first + 1) + "/Maildir/";
  BOOST_TEST(deliver(strange).text.contains("Permission denied"));
  BOOST_TEST(files(1).size() == 1U);
  BOOST_TEST(deliver(work(2)).dsn == "2.0.0");
}

BOOST_AUTO_TEST_CASE(no_account_of_the_system_is_delivered_for) {
  for (const auto& [uid, gid] : {std::pair(0U, 100U), {first - 1, 100U}, {first + 1, 0U}}) {
    auto low = work(1);
    low.become = Identity{uid, gid, {}};
    BOOST_TEST(deliver(low).text == "refusing to deliver as an account of the system");
  }
  auto grouped = work(1);
  grouped.become->groups = {8};
  BOOST_TEST(deliver(grouped).text == "refusing to deliver as an account of the system");
  BOOST_TEST(files(1).empty());
}

BOOST_AUTO_TEST_CASE(a_delivery_that_hangs_holds_up_neither_other_accounts_nor_its_own) {
  Stuck stuck(*this, work(1));
  while (postmen().empty()) std::this_thread::yield();  // the postman confines itself meanwhile
  BOOST_TEST(deliver(work(1)).dsn == "2.0.0");
  BOOST_TEST(postmen().size() == 1U);  // the second delivery was made by a worker of the account
  for (unsigned n = 1; n < 5; ++n) {
    BOOST_TEST(deliver(work(n)).dsn == "2.0.0");
    BOOST_TEST(deliver(work(n)).dsn == "2.0.0");
  }
  BOOST_TEST(files(1).size() == 3U);
  BOOST_TEST(postmen().size() == 2U);  // the hanging one, and another
  BOOST_TEST(stuck.let_go().dsn == "2.0.0");
  BOOST_TEST(files(1).size() == 4U);
}

BOOST_AUTO_TEST_CASE(one_that_is_killed_costs_its_delivery_and_no_other) {
  for (const auto* mailbox : {"Maildir/", "mail"}) {
    Stuck stuck(*this, work(1, mailbox));
    std::set<pid_t> all;
    while ((all = postmen()).empty()) std::this_thread::yield();  // the postman confines itself meanwhile
    BOOST_REQUIRE_EQUAL(all.size(), 1U);
    BOOST_REQUIRE(::kill(*all.begin(), SIGKILL) == 0);
    const auto status = stuck.let_go();
    BOOST_TEST((status.action == mail::Action::deferred));
    BOOST_TEST(files(1).empty());
    BOOST_TEST(!fs::exists(scratch.path() / std::to_string(first + 1) / "mail"));
    for (unsigned n = 1; n < 3; ++n) BOOST_TEST(deliver(work(n, "other")).dsn == "2.0.0");
    // A postman killed while idle costs no delivery.
    for (const pid_t idle : postmen()) BOOST_REQUIRE(::kill(idle, SIGKILL) == 0);
    while (!postmen().empty()) std::this_thread::yield();
    BOOST_TEST(deliver(work(1, "other")).dsn == "2.0.0");
    for (const pid_t idle : postmen()) BOOST_REQUIRE(::kill(idle, SIGKILL) == 0);
    while (!postmen().empty()) std::this_thread::yield();
  }
}

BOOST_AUTO_TEST_CASE(one_that_does_not_answer_is_given_up_at_the_limit) {
  BOOST_TEST(deliver(work(1)).dsn == "2.0.0");
  const auto all = postmen();
  BOOST_REQUIRE_EQUAL(all.size(), 1U);
  BOOST_REQUIRE(::kill(*all.begin(), SIGSTOP) == 0);
  const auto late = deliver_in_child(work(1), ipc::Content::in_memory(kMail), seconds(1)).status;
  BOOST_TEST(late.text.contains("longer than 1 seconds"));
  BOOST_TEST(deliver(work(1)).dsn == "2.0.0");
  BOOST_REQUIRE(::kill(*all.begin(), SIGKILL) == 0);
}

BOOST_AUTO_TEST_CASE(nothing_is_stored_after_the_end_of_the_conversation) {
  const auto ending = delivery::Ending::make();
  BOOST_REQUIRE(ending);
  auto hanging = work(1, "mail");
  hanging.target.lock.attempts = 1000;
  const auto lock = scratch.write(std::to_string(first + 1) + "/mail.lock", "1");
  BOOST_REQUIRE(::chown(lock.c_str(), first + 1, first + 1) == 0);
  auto answer = std::async(std::launch::async, [&] {
    return deliver_in_child(hanging, ipc::Content::in_memory(kMail), seconds(900), ending->get()).status;
  });
  (*ending)->come();
  BOOST_TEST((answer.get().action == mail::Action::deferred));
  fs::remove(lock);
  // The postman ends after it has noticed that, and not before.
  while (!postmen().empty()) std::this_thread::yield();
  BOOST_TEST(!fs::exists(scratch.path() / std::to_string(first + 1) / "mail"));
}

BOOST_AUTO_TEST_CASE(a_file_that_grows_beyond_the_limit_of_the_process_is_that_messages_failure) {
  BOOST_TEST(deliver(work(1)).dsn == "2.0.0");
  BOOST_REQUIRE(!postmen().empty());
  const pid_t nursery = parent_of(*postmen().begin());
  rlimit before_it{};
  BOOST_REQUIRE(::prlimit(nursery, RLIMIT_FSIZE, nullptr, &before_it) == 0);
  const auto limit = [&](const rlimit& to) {
    // The processes made ahead have no role yet, and still belong to root.
    for (const pid_t pid : children_of(nursery))
      if (status_of(pid)["CapBnd"] != kTwo) (void)::prlimit(pid, RLIMIT_FSIZE, &to, nullptr);
    BOOST_REQUIRE(::prlimit(nursery, RLIMIT_FSIZE, &to, nullptr) == 0);
  };
  for (const pid_t pid : postmen()) BOOST_REQUIRE(::kill(pid, SIGKILL) == 0);
  while (!postmen().empty()) std::this_thread::yield();
  limit({1000, before_it.rlim_max});
  const auto failed = deliver(work(2), "Subject: x\r\n\r\n" + std::string(2000, 'x') + "\r\n");
  const auto small = deliver(work(2));
  limit(before_it);
  BOOST_TEST(failed.dsn == "5.2.2");
  BOOST_TEST(small.dsn == "2.0.0");
  BOOST_TEST(files(2).size() == 1U);
  // These postmen must serve no later test.
  for (const pid_t pid : postmen()) BOOST_REQUIRE(::kill(pid, SIGKILL) == 0);
}

BOOST_AUTO_TEST_CASE(content_that_does_not_come_whole_is_not_delivered_nor_part_of_the_next) {
  for (const auto* mailbox : {"Maildir/", "mail"}) {
    const auto path = scratch.write("short", "only this");
    auto body = ipc::Content::in_file(Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), 0, 5000);
    const auto status = deliver_in_child(work(1, mailbox), body, seconds(900)).status;
    BOOST_TEST((status.action == mail::Action::deferred));
    BOOST_TEST(deliver(work(2, mailbox)).dsn == "2.0.0");
  }
  BOOST_TEST(files(1).empty());
  BOOST_TEST(files(2).size() == 1U);
}

BOOST_AUTO_TEST_CASE(it_keeps_no_descriptor_of_a_delivery) {
  const auto count_of = [&] {
    const auto all = postmen();
    BOOST_REQUIRE_EQUAL(all.size(), 1U);
    const fs::path table = "/proc/" + std::to_string(*all.begin()) + "/fd";
    return std::distance(fs::directory_iterator(table), fs::directory_iterator());
  };
  BOOST_TEST(deliver(work(1)).dsn == "2.0.0");
  const auto first = count_of();
  for (unsigned n = 0; n < 50; ++n) BOOST_TEST(deliver(work(n % 5, n % 2 == 0 ? "Maildir/" : "mail")).dsn == "2.0.0");
  BOOST_TEST(count_of() == first);
  BOOST_TEST(first == 6);  // standard input, output and error, what tells the helper, the socket, the token
}

BOOST_AUTO_TEST_CASE(without_work_it_ends_and_the_next_delivery_has_another) {
  BOOST_TEST(deliver(work(1)).dsn == "2.0.0");
  const auto first = postmen();
  BOOST_TEST(first.size() == 1U);
  while (!postmen().empty()) std::this_thread::sleep_for(milliseconds(50));
  BOOST_TEST(deliver(work(1)).dsn == "2.0.0");
  BOOST_TEST((postmen() != first));
}

BOOST_AUTO_TEST_CASE(one_that_a_job_is_meant_for_does_not_leave_before_it_comes) {
  const auto one = work(1);
  BOOST_TEST(deliver(one).dsn == "2.0.0");
  const auto taken = mailbox::postmen().take(*one.round);
  BOOST_REQUIRE(taken);
  const auto before_it = postmen();
  std::this_thread::sleep_for(kIdle + seconds(1));  // the time after which it would end otherwise
  BOOST_TEST(before_it.size() == 1U);
  BOOST_TEST((postmen() == before_it));
}

BOOST_AUTO_TEST_CASE(a_look_stores_nothing) {
  auto look = work(1);
  look.only_look = true;
  BOOST_TEST(deliver(look).text == "delivers to maildir");
  BOOST_TEST(deliver(work(2)).dsn == "2.0.0");
  BOOST_TEST(files(1).empty());
}

BOOST_AUTO_TEST_SUITE_END()
