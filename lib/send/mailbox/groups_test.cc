#include "lib/send/mailbox/groups.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <climits>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::mailbox;
namespace fs = std::filesystem;

namespace {
struct Boxes {
  Boxes() {
    target.base = scratch.path().string();
    target.form = Form::mbox;
    target.path = "mail";
    target.lock.delay = seconds(1);
    target.lock.attempts = 1000;
  }
  std::string text(const std::string& name) {
    std::ifstream in(scratch.file(name), std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
  mail::DeliveryStatus store(const std::string& body, std::uint64_t announced = 0) {
    Message message;
    message.from_line = "From a\n";
    message.size = announced == 0 ? body.size() : announced;
    message.hostname = "host";
    message.unique = message.random = static_cast<unsigned long long>(++count);
    bool given = false;
    const Content content = [&]() -> Result<std::string_view> {
      return std::exchange(given, true) ? std::string_view() : std::string_view(body);
    };
    return groups.store(target, message, content, [this] { return off.load(); });
  }
  testing::ScratchDir scratch;
  Target target;
  Groups groups;
  std::atomic<int> count{0};
  std::atomic<bool> off{false};
};

bool delivered(const mail::DeliveryStatus& s) { return s.action == mail::Action::delivered; }
}  // namespace

BOOST_FIXTURE_TEST_SUITE(mailbox_groups, Boxes)

BOOST_AUTO_TEST_CASE(what_comes_at_once_is_in_the_mailbox_once_each) {
  for (const auto form : {Form::mbox, Form::maildir}) {
    target.form = form;
    target.path = form == Form::mbox ? "mail" : "Maildir/";
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        for (int n = 0; n < 20; ++n) good += delivered(store(fmt::format("X: {}.{}\r\n\r\nbody\r\n", t, n))) ? 1 : 0;
      });
    for (auto& thread : threads) thread.join();
    BOOST_TEST(good == 160);
  }
  const std::string box = text("mail");
  std::size_t froms = 0;
  for (std::size_t at = 0; (at = box.find("From a\n", at)) != std::string::npos; ++at) ++froms;
  BOOST_TEST(froms == 160U);
  for (int t = 0; t < 8; ++t)
    for (int n = 0; n < 20; ++n) BOOST_TEST(box.contains(fmt::format("From a\nX: {}.{}\n\nbody\n\n", t, n)));
  std::size_t files = 0;
  for (const auto& e : fs::directory_iterator(scratch.path() / "Maildir/new")) files += e.exists();
  BOOST_TEST(files == 160U);
  BOOST_TEST(fs::is_empty(scratch.path() / "Maildir/tmp"));
  BOOST_TEST(!fs::exists(scratch.path() / "mail.lock"));
}

BOOST_AUTO_TEST_CASE(in_a_group_each_message_fails_for_itself) {
  Message messages[4];
  std::string bodies[4] = {"one\r\n", "cut off\r\n", std::string(5000, 'x') + "\r\n", "last\r\n"};
  Content contents[4];
  bool given[4] = {};
  const CalledOff never = [] { return false; };
  MboxDelivery deliveries[4];
  std::vector<MboxDelivery*> all;
  for (int i = 0; i < 4; ++i) {
    messages[i].from_line = "From a\n";
    messages[i].size = bodies[i].size() + (i == 1 ? 100 : 0);
    contents[i] = [&, i]() -> Result<std::string_view> {
      return std::exchange(given[i], true) ? std::string_view() : std::string_view(bodies[i]);
    };
    deliveries[i] = {&messages[i], &contents[i], &never, {}};
    all.push_back(&deliveries[i]);
  }
  target.size_limit = 4000;
  scratch.write("mail", "From old\n\nunended");
  store_mbox(target, all);
  BOOST_TEST(delivered(deliveries[0].status));
  BOOST_TEST((deliveries[1].status.action == mail::Action::deferred));
  BOOST_TEST(deliveries[2].status.dsn == "5.2.2");
  BOOST_TEST(delivered(deliveries[3].status));
  BOOST_TEST(text("mail") == "From old\n\nunended\n\nFrom a\none\n\nFrom a\nlast\n\n");
}

BOOST_AUTO_TEST_CASE(threads_of_one_process_exclude_each_other_by_other_targets_of_one_file) {
  Target other = target;
  other.any_owner = true;
  other.shown = "file";
  target.lock.dotlock = other.lock.dotlock = false;
  target.lock.delay = other.lock.delay = seconds(0);
  target.lock.attempts = other.lock.attempts = UINT_MAX;  // the holder of the lock may be stopped for long
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      Boxes mine;
      mine.target = t == 0 ? target : other;
      for (int n = 0; n < 50; ++n) BOOST_TEST(delivered(mine.store("X: 1\r\n\r\n" + std::string(20000, 'y') + "\r\n")));
    });
  for (auto& thread : threads) thread.join();
  const std::string one = "From a\nX: 1\n\n" + std::string(20000, 'y') + "\n\n";
  std::string want;
  for (int n = 0; n < 100; ++n) want += one;
  BOOST_TEST((text("mail") == want));
}

BOOST_AUTO_TEST_CASE(a_group_that_is_called_off_while_it_waits_for_a_lock_stores_nothing) {
  const auto lock = scratch.write("mail.lock", "1");
  std::vector<std::thread> threads;
  std::atomic<int> deferred{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] { deferred += store("x\r\n").action == mail::Action::deferred ? 1 : 0; });
  off = true;
  for (auto& thread : threads) thread.join();
  BOOST_TEST(deferred == 3);
  BOOST_TEST(!fs::exists(scratch.path() / "mail"));
}

BOOST_AUTO_TEST_SUITE_END()
