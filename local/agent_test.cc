#include "local/agent.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::local;
namespace fs = std::filesystem;

namespace {
/// Takes what is sent on.
struct Outbox final : mailbox::Requeue {
  async::Task<Result<std::string>> requeue(std::shared_ptr<const mailbox::Incoming>,
                                           mailbox::Successor successor) override {
    if (broken) co_return fail_errno("queue", EAGAIN);
    sent.push_back(std::move(successor));
    co_return "NEW" + std::to_string(sent.size());
  }
  std::vector<mailbox::Successor> sent;
  bool broken = false;
};

/// One unprivileged account of this machine gets mail below a scratch directory.
struct Host {
  Host() : pool(loop, 2), random(1) {
    const passwd* entry = ::geteuid() == 0 ? ::getpwnam("games") : ::getpwuid(::geteuid());
    if (entry == nullptr && ::geteuid() == 0) entry = ::getpwnam("nobody");
    BOOST_REQUIRE(entry != nullptr);
    user = entry->pw_name;
    uid = entry->pw_uid;
    rules.myhostname = rules.myorigin = "here.example";
    rules.delimiters = "+";
    rules.mail_spool_directory = scratch.path().string() + "/";
    BOOST_REQUIRE(::chmod(scratch.path().c_str(), 01777) == 0);
    message = std::make_shared<mailbox::Incoming>();
    text = "Subject: x\r\n\r\nbody\r\n";
    message->envelope.sender = "ada@sender.example";
    message->header = "Subject: x\r\n\r\n";
  }
  mail::DeliveryStatus deliver(std::string to) {
    message->body = ipc::Content::in_memory(text);
    auto table = map::MapList::open(aliases);
    BOOST_REQUIRE(table);
    agent = std::make_unique<Agent>(pool, outbox, rules, *std::move(table), loop.clock(), random);
    mail::Recipient r;
    r.address = std::move(to);
    r.notify = notify;
    loop.spawn("deliver", go(this, std::move(r)));
    loop.run();
    return status;
  }
  static async::Task<void> go(Host* self, mail::Recipient r) {
    self->status = co_await self->agent->deliver(self->message, std::move(r));
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
  testing::ScratchDir scratch;
  async::Loop loop;
  async::HandlerPool pool;
  Random random;
  Outbox outbox;
  Rules rules;
  std::string aliases, user, text;
  uid_t uid = 0;
  std::uint8_t notify = 0;
  std::shared_ptr<mailbox::Incoming> message;
  std::unique_ptr<Agent> agent;
  mail::DeliveryStatus status;
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(local_agent, Host)

BOOST_AUTO_TEST_CASE(a_user_gets_the_message_with_trace_fields) {
  BOOST_TEST(deliver(user + "@here.example").text == "delivered to maildir");
  BOOST_REQUIRE_EQUAL(box().size(), 1U);
  BOOST_TEST(box()[0] == "Return-Path: <ada@sender.example>\nX-Original-To: " + user +
                             "@here.example\nDelivered-To: " + user +
                             "@here.example\nSubject: x\n\nbody\n");
}

BOOST_AUTO_TEST_CASE(an_extension_and_an_alias_lead_to_the_same_mailbox) {
  aliases = "inline:{ postmaster = " + user + " }";
  BOOST_TEST(deliver(user + "+lists@here.example").dsn == "2.0.0");
  BOOST_TEST(deliver("Postmaster@here.example").dsn == "2.0.0");
  BOOST_TEST(box().size() == 2U);
}

BOOST_AUTO_TEST_CASE(an_unknown_user_fails_unless_luser_relay_takes_him) {
  auto s = deliver("no-such-user@here.example");
  BOOST_TEST(s.dsn == "5.1.1");
  BOOST_TEST(s.text == "unknown user: \"no-such-user\"");
  rules.luser_relay = "catch+$user@relay.example";
  s = deliver("no-such-user@here.example");
  BOOST_TEST(s.text == "forwarded as NEW1");
  BOOST_TEST(outbox.sent.at(0).envelope.recipients.at(0).address ==
             "catch+no-such-user@relay.example");
}

BOOST_AUTO_TEST_CASE(names_that_are_paths_are_unknown_users) {
  for (const auto* name :
       {"../root@here.example", "\"a/b\"@here.example", ".@here.example", "\"\"@here.example"})
    BOOST_TEST(deliver(name).dsn == "5.1.1", name);
}

BOOST_AUTO_TEST_CASE(a_list_is_sent_on_as_one_message_marked_with_delivered_to) {
  aliases = "inline:{ {team = a@x.example, b@x.example}, {owner-team = boss} }";
  notify = mail::notify::kSuccess | mail::notify::kFailure;
  const auto s = deliver("team@here.example");
  BOOST_TEST((s.action == mail::Action::expanded));
  BOOST_REQUIRE_EQUAL(outbox.sent.size(), 1U);
  const auto& next = outbox.sent[0];
  BOOST_TEST(next.fields == "Delivered-To: team@here.example\r\n");
  BOOST_TEST(next.envelope.sender == "owner-team@here.example");
  BOOST_REQUIRE_EQUAL(next.envelope.recipients.size(), 2U);
  BOOST_TEST(next.envelope.recipients[0].original == "team@here.example");
  BOOST_TEST(next.envelope.recipients[0].notify == mail::notify::kFailure);
}

BOOST_AUTO_TEST_CASE(mail_from_the_null_sender_stays_from_it_through_a_list_with_owner) {
  aliases = "inline:{ {team = a@x.example, b@x.example}, {owner-team = boss} }";
  message->envelope.sender = "";
  deliver("team@here.example");
  BOOST_TEST(outbox.sent.at(0).envelope.sender == "");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_sent_on_is_deferred) {
  aliases = "inline:{ {team = a@x.example, b@x.example} }";
  outbox.broken = true;
  BOOST_TEST((deliver("team@here.example").action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(mail_that_was_here_before_is_a_loop) {
  message->header = "Delivered-To: " + user + "@here.example\r\n\r\n";
  const auto s = deliver(user + "@here.example");
  BOOST_TEST(s.dsn == "5.4.6");
  BOOST_TEST(box().empty());
}

BOOST_AUTO_TEST_CASE(a_broken_alias_table_defers) {
  aliases = "fail:x";
  BOOST_TEST((deliver(user + "@here.example").action == mail::Action::deferred));
  BOOST_TEST(box().empty());
}

BOOST_AUTO_TEST_CASE(root_without_alias_is_not_delivered_as_root) {
  if (::geteuid() != 0) return;
  rules.default_privs = user;
  BOOST_TEST(deliver("root@here.example").text == "delivered to maildir");
  struct stat st{};
  BOOST_REQUIRE(::stat((scratch.path() / "root").c_str(), &st) == 0);
  BOOST_TEST(st.st_uid == uid);
  rules.default_privs = "root";
  BOOST_TEST((deliver("root@here.example").action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(a_mailbox_that_another_user_planted_is_not_used) {
  if (::geteuid() != 0) return;
  fs::create_directory(scratch.path() / user);  // owned by root, not by the user
  BOOST_TEST((deliver(user + "@here.example").action == mail::Action::deferred));
  BOOST_TEST(fs::is_empty(scratch.path() / user));
}

BOOST_AUTO_TEST_SUITE_END()
