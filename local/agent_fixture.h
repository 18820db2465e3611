#pragma once
/// For tests: an Agent on this host, without a queue. One unprivileged account gets mail below a scratch directory.
///
/// Use:     BOOST_FIXTURE_TEST_SUITE(local_agent, Host)  …  deliver(user + "@here.example").text, box(), outbox.sent
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/testing/scratch.h"
#include "local/agent.h"

namespace pen::local {

namespace fs = std::filesystem;

/// Keeps the messages that are sent on.
struct Outbox final : Requeue {
  async::Task<Result<std::string>> requeue(std::shared_ptr<const delivery::Incoming>, Successor successor) override {
    if (broken) co_return fail_errno("queue", EAGAIN);
    sent.push_back(std::move(successor));
    co_return "NEW" + std::to_string(sent.size());
  }
  std::vector<Successor> sent;
  bool broken = false;
};

/// The agent, its rules and a scratch directory for one unprivileged account of this machine.
struct Host {
  Host() : pool(loop, 4), lookups(loop, 1), random(1) {
    const passwd* entry = ::geteuid() == 0 ? ::getpwnam("games") : ::getpwuid(::geteuid());
    if (entry == nullptr && ::geteuid() == 0) entry = ::getpwnam("nobody");
    BOOST_REQUIRE(entry != nullptr);
    user = entry->pw_name;
    uid = entry->pw_uid;
    rules.myhostname = rules.myorigin = "here.example";
    rules.delimiters = "+";
    rules.mail_spool_directory = scratch.path().string() + "/";
    BOOST_REQUIRE(::chmod(scratch.path().c_str(), 01777) == 0);
    message = std::make_shared<delivery::Incoming>();
    text = "Subject: x\r\n\r\nbody\r\n";
    message->envelope.sender = "ada@sender.example";
    message->header = "Subject: x\r\n\r\n";
  }
  mail::DeliveryStatus deliver(std::string to) {
    message->body = ipc::Content::in_memory(text);
    auto table = map::MapList::open(aliases);
    BOOST_REQUIRE(table);
    agent = std::make_unique<Agent>(loop, lookups, pool, outbox, rules, *std::move(table), random);
    mail::Recipient r;
    r.address = std::move(to);
    r.notify = notify;
    r.orcpt = "rfc822;asked@for.example";
    loop.spawn("deliver", go(this, std::move(r)));
    loop.run();
    return status;
  }
  static async::Task<void> go(Host* self, mail::Recipient r) {
    self->status = co_await self->agent->deliver(self->message, std::move(r));
  }
  static async::Task<void> deliver_one(Host* self, std::string to, mail::DeliveryStatus* status) {
    mail::Recipient r;
    r.address = std::move(to);
    *status = co_await self->agent->deliver(self->message, std::move(r));
  }
  /// Waits until two deliveries hang, makes two others, and then ends the hanging ones.
  static async::Task<void> others(Host* self, int begun, int gate, mail::DeliveryStatus* robot,
                                  mail::DeliveryStatus* far) {
    async::HandlerPool waiting(self->loop, 1);
    auto wait = [begun] {
      std::string got;
      char c = 0;
      while (std::ranges::count(got, '\n') < 2 && ::read(begun, &c, 1) == 1) got += c;
    };
    co_await waiting.run_erased(wait);
    co_await deliver_one(self, "robot@here.example", robot);
    co_await deliver_one(self, "far@here.example", far);
    for (int i = 0; i < 6; ++i) BOOST_TEST(::write(gate, "go\n", 3) == 3);
  }
  std::vector<std::string> box() {
    std::vector<std::string> out;
    const auto dir = scratch.path() / user / "new";
    if (!fs::exists(dir)) return out;
    for (const auto& e : fs::directory_iterator(dir)) {
      std::ifstream in(e.path(), std::ios::binary);
      std::ostringstream all;
      all << in.rdbuf();
      out.push_back(all.str());
    }
    return out;
  }
  /// Delivers to the address once more in the same process.
  mail::DeliveryStatus again(std::string to) {
    mail::Recipient r;
    r.address = std::move(to);
    r.notify = notify;
    r.orcpt = "rfc822;asked@for.example";
    loop.spawn("deliver", go(this, std::move(r)));
    loop.run();
    return status;
  }
  template <class F>
  void turn_until(F done) {
    for (int i = 0; i < 600 && !done(); ++i) loop.run_once(milliseconds(100));
    BOOST_REQUIRE(done());
  }
  /// A directory that commands may write into.
  void prepare_commands() {
    rules.default_privs = user;
    rules.command_filter = "1234567890!@%-_=+:,./abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    fs::create_directory(scratch.path() / "out");
    if (::geteuid() == 0) BOOST_REQUIRE(::chown(out("").c_str(), uid, 0) == 0);
    BOOST_REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
  }
  /// Writes a forward file that the agent accepts as the user's own.
  std::string forward_file(const std::string& name, const std::string& content) {
    auto path = scratch.write(name, content);
    if (::geteuid() == 0) BOOST_REQUIRE(::chown(path.c_str(), uid, 0) == 0);
    return path;
  }
  std::string out(const std::string& name) const { return scratch.file("out/" + name); }
  std::string text_of(const std::string& name) {
    std::ifstream in(out(name), std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
  std::string hanging() const { return "cat > /dev/null; echo begun > " + out("begun") + "; read x < " + out("gate"); }
  /// Starts six deliveries, to addresses that end in a number, which run hanging(), and shows that others pass them.
  void six_that_hang(const std::string& addresses, const std::string& table);
  static std::string alias(const std::string& name, const std::string& value) {
    return "inline:{ {" + name + " = " + value + "} }";
  }
  testing::ScratchDir scratch;
  async::Loop loop;
  async::HandlerPool pool, lookups;
  Random random;
  Outbox outbox;
  Rules rules;
  std::string aliases, user, text;
  uid_t uid = 0;
  std::uint8_t notify = 0;
  std::shared_ptr<delivery::Incoming> message;
  std::unique_ptr<Agent> agent;
  mail::DeliveryStatus status;
};

inline void Host::six_that_hang(const std::string& addresses, const std::string& table) {
  rules.share = 2;
  rules.time_limit = seconds(30);  // ends the test if a hanging delivery holds up the others
  BOOST_REQUIRE(::mkfifo(out("gate").c_str(), 0666) == 0);
  if (::geteuid() == 0) BOOST_REQUIRE(::chown(out("gate").c_str(), uid, 0) == 0);
  BOOST_REQUIRE(::mkfifo(out("begun").c_str(), 0666) == 0);
  if (::geteuid() == 0) BOOST_REQUIRE(::chown(out("begun").c_str(), uid, 0) == 0);
  const Fd begun(::open(out("begun").c_str(), O_RDWR | O_CLOEXEC));
  const Fd gate(::open(out("gate").c_str(), O_RDWR | O_CLOEXEC));
  message->body = ipc::Content::in_memory(text);
  auto aliases_open =
      map::MapList::open("inline:{ {robot = |cat > " + out("robot") + "}, {far = far@x.example}" + table + " }");
  BOOST_REQUIRE(aliases_open);
  agent = std::make_unique<Agent>(loop, lookups, pool, outbox, rules, *std::move(aliases_open), random);
  std::vector<mail::DeliveryStatus> his(6);
  for (std::size_t i = 0; i < his.size(); ++i)
    loop.spawn("his", deliver_one(this, fmt::format("{}{}@here.example", addresses, i), &his[i]));
  mail::DeliveryStatus robot, far;
  loop.spawn("others", others(this, begun.get(), gate.get(), &robot, &far));
  loop.run();
  BOOST_TEST((robot.action == mail::Action::delivered), robot.text);
  BOOST_TEST((far.action == mail::Action::expanded), far.text);
  BOOST_TEST(text_of("robot").contains("Subject: x"));
  for (const auto& s : his) BOOST_TEST((s.action == mail::Action::delivered), s.text);
}

}  // namespace pen::local
