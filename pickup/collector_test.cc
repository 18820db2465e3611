#include "pickup/collector.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "lib/base/async/testing/run.h"
#include "lib/mail/queue_id.h"
#include "lib/receive/intake/fakes.h"
#include "lib/testing/scratch.h"

namespace pen::pickup {
namespace {

namespace fs = std::filesystem;
using intake::fakes::MemoryQueue;
using intake::fakes::SetResolve;

struct World {
  pen::testing::ScratchDir scratch;
  async::Loop loop;
  async::HandlerPool pool{loop, 2};
  MemoryQueue queue;
  std::shared_ptr<SetResolve> resolve = std::make_shared<SetResolve>();
  intake::Intake intake{.loop = loop,
                        .pool = pool,
                        .queue = queue,
                        .resolve = resolve,
                        .settings = {.myhostname = "mx.example.org",
                                     .myorigin = "example.org",
                                     .message_size_limit = 0,
                                     .drop_fields = {"bcc", "resent-bcc"}},
                        .next_queue_id = [] { return std::string("UNUSED"); },
                        .expansion_waits = false};
  std::string drop = scratch.file("maildrop"), corrupt = scratch.file("corrupt");
  int ids = 0;
  bool smtputf8 = false, probe = false, traced = false;
  std::string to = "user";
  std::uint64_t limit = 0;
  std::optional<submission::Rights> rights;

  World() {
    fs::create_directory(drop);
    fs::create_directory(corrupt);
  }
  std::string submit(std::string_view content, std::string sender = "ada@example.org") {
    submission::Submission s;
    s.sender = std::move(sender);
    s.full_name = "Ada";
    s.smtputf8 = smtputf8;
    if (traced) s.purpose = mail::Purpose::traced;
    if (probe) s.purpose = mail::Purpose::probe;
    s.arrival = WallTime(seconds(1795334400));
    s.recipients = {{.address = to, .original = {}, .orcpt = {}, .notify = 0}};
    auto w = submission::DropWriter::create(drop, std::move(s), [this] {
               return "4bGNsx3Ynxz" + std::to_string(1000 + ++ids);
             }).value();
    BOOST_REQUIRE(w->append(content));
    BOOST_REQUIRE(w->finish());
    return w->queue_id();
  }
  /// A header of a message that has passed too many hosts.
  static std::string around() {
    std::string header;
    for (int i = 0; i < 60; ++i) header += "Received: from x\n";
    return header;
  }
  /// Makes one pass over the directory.
  std::shared_ptr<Collector> pass() {
    auto collector = std::make_shared<Collector>(
        loop, pool, intake,
        Collector::Options{
            .drop_directory = drop, .corrupt_directory = corrupt, .size_limit = limit, .rights = rights});
    async::Cancel cancel;
    async::Gate gate(loop);
    gate.spawn("collector", Collector::run(collector, &cancel));
    const auto files = fs_count(drop);
    const auto idle = [&] {
      const auto& c = collector->counts();
      return fs_count(drop) == 0 || c.put_off > 0 || c.taken + c.set_aside + c.left >= files;
    };
    for (int i = 0; i < 10000 && !idle(); ++i) loop.run_once(milliseconds(5));
    cancel.raise();
    BOOST_REQUIRE(async::testing::run(loop, gate.drained()));
    return collector;
  }
  static std::size_t fs_count(const std::string& path) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {}));
  }
};

BOOST_FIXTURE_TEST_SUITE(collector, World)

BOOST_AUTO_TEST_CASE(a_message_gets_what_its_header_lacks_and_keeps_its_id) {
  const auto id = submit("Subject: x\nBcc: secret@example.org,\n more@example.org\nTo: y\n\nbody\rx\r\n.\n");
  pass();
  BOOST_REQUIRE(queue.stored.size() == 1U);
  const auto& m = queue.stored.front();
  BOOST_TEST(m.envelope.queue_id == id);
  BOOST_TEST(m.envelope.sender == "ada@example.org");
  BOOST_TEST(m.envelope.recipients.front().address == "user@example.org");
  BOOST_TEST(m.content.starts_with("Received: by mx.example.org (Penstock, from userid "));
  BOOST_TEST(m.content.contains("\r\nSubject: x\r\nTo: y@example.org\r\n"));
  BOOST_TEST(!m.content.contains("secret"));
  BOOST_TEST(!m.content.contains("more@"));
  BOOST_TEST(m.content.contains("\r\nFrom: Ada <ada@example.org>\r\n"));
  BOOST_TEST(m.content.contains("\r\nDate: "));
  BOOST_TEST(m.content.contains("\r\nMessage-Id: <"));
  BOOST_TEST(m.content.ends_with("\r\n\r\nbody x\r\n.\r\n"));
  BOOST_TEST(m.envelope.body.size == m.content.size());
}

BOOST_AUTO_TEST_CASE(fields_that_are_there_stay) {
  submit("From: me\nDate: today\nMessage-ID: <a@b>\n\nx\n", "");
  pass();
  const auto& m = queue.stored.front();
  BOOST_TEST(m.content.ends_with("\r\nFrom: me@example.org\r\nDate: today\r\nMessage-ID: <a@b>\r\n\r\nx\r\n"));
  BOOST_TEST(m.envelope.sender == "");
  BOOST_TEST(m.envelope.message_id == "<a@b>");
}

BOOST_AUTO_TEST_CASE(a_large_message_goes_into_a_leased_file) {
  std::string text = "Subject: large\n\n";
  while (text.size() < 1000000) text += std::string(70, 'x') + "\n";
  submit(text);
  pass();
  const auto& m = queue.stored.front();
  BOOST_TEST(!m.was_inline);
  BOOST_TEST(m.content.size() > 1000000U);
  BOOST_TEST(m.content.ends_with("x\r\n"));
}

// pendrop asks the same before it writes the file, but runs under the hands of its caller.
BOOST_AUTO_TEST_CASE(a_file_whose_owner_may_not_submit_it_is_set_aside) {
  const std::string login = submission::login_name(::getuid());
  rights = submission::Rights::open({.login_senders = "inline:{{" + login + "=ada@example.org}}"}).value();
  submit("Subject: hers\n\nx\n", "ada@example.org");
  submit("Subject: forged\n\nx\n", "eve@example.org");
  const auto counts = pass()->counts();
  BOOST_TEST(counts.taken == 1U);
  BOOST_TEST(counts.set_aside == 1U);
  BOOST_TEST(counts.returned == 0U);
  BOOST_REQUIRE(queue.stored.size() == 1U);
  BOOST_TEST(queue.stored.front().envelope.sender == "ada@example.org");
  BOOST_TEST(fs_count(corrupt) == 1U);
}

BOOST_AUTO_TEST_CASE(a_file_of_a_login_that_cannot_be_looked_up_stays) {
  rights = submission::Rights::open({.login_senders = "texthash:/nonexistent"}).value();
  submit("Subject: x\n\nx\n");
  BOOST_TEST(pass()->counts().put_off == 1U);
  BOOST_TEST(fs_count(drop) == 1U);
}

BOOST_AUTO_TEST_CASE(a_file_above_the_limit_goes_back_to_its_sender) {
  limit = 1000;
  submit("Subject: small\n\nx\n");
  submit("Subject: large\n\n" + std::string(2000, 'x') + "\n");
  const auto counts = pass()->counts();
  BOOST_TEST(counts.taken == 1U);
  BOOST_TEST(counts.returned == 1U);
  BOOST_REQUIRE(queue.stored.size() == 2U);
}

BOOST_AUTO_TEST_CASE(many_are_all_taken_once) {
  std::set<std::string> wanted, got;
  for (int i = 0; i < 100; ++i) wanted.insert(submit("Subject: x\n\n" + std::to_string(i) + "\n"));
  BOOST_TEST(pass()->counts().taken == 100U);
  for (const auto& m : queue.stored) got.insert(m.envelope.queue_id);
  BOOST_TEST((got == wanted));
  BOOST_TEST(queue.stored.size() == 100U);
}

BOOST_AUTO_TEST_CASE(a_message_stays_while_the_queue_has_no_room) {
  const auto id = submit("x\n\n");
  queue.outcome = intake::Enqueued::no_space;
  BOOST_TEST(pass()->counts().put_off == 1U);
  BOOST_TEST(fs::exists(drop + "/" + id));
  queue.outcome = intake::Enqueued::ok;
  pass();
  BOOST_TEST(!fs::exists(drop + "/" + id));
  BOOST_TEST(queue.stored.front().envelope.queue_id == id);
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_set_aside_and_the_others_are_taken) {
  const auto bad = submit(std::string(100000, 'x')), good = submit("x\n\n");
  {
    std::fstream f(drop + "/" + bad, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(90000);
    f.put('y');
  }
  BOOST_TEST(pass()->counts().set_aside == 1U);
  BOOST_TEST(fs::exists(corrupt + "/" + bad));
  BOOST_REQUIRE(queue.stored.size() == 1U);
  BOOST_TEST(queue.stored.front().envelope.queue_id == good);
  BOOST_TEST(queue.leases == 0);
}

BOOST_AUTO_TEST_CASE(what_was_broken_off_is_removed) {
  const auto half = submit("x\n\n");
  BOOST_REQUIRE(::chmod((drop + "/" + half).c_str(), 0644) == 0);
  pass();
  BOOST_TEST(queue.stored.empty());
  BOOST_TEST(fs_count(drop) == 0U);
  BOOST_TEST(fs_count(corrupt) == 0U);
}

BOOST_AUTO_TEST_CASE(mail_that_goes_round_is_not_queued_again_but_its_sender_told) {
  const auto id = submit(around() + "Subject: x\n\nbody\n");
  const auto told = pass();
  BOOST_TEST(fs::exists(corrupt + "/" + id));
  BOOST_TEST(told->counts().returned == 1U);
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 1U);
  const auto& notice = queue.stored.front();
  BOOST_TEST(notice.envelope.sender == "");
  BOOST_TEST(notice.envelope.recipients.at(0).address == "ada@example.org");
  BOOST_TEST(notice.content.contains("\r\nStatus: 5.4.0\r\n"));
  BOOST_TEST(notice.content.contains("\r\nSubject: x\r\n"));
  BOOST_TEST(!notice.content.contains("body\r\n"));
}

BOOST_AUTO_TEST_CASE(mail_with_too_many_header_fields_goes_back_to_its_sender) {
  intake.settings.header_field_limit = 20;
  std::string header;
  for (int i = 0; i < 21; ++i) header += "X: y\n";
  submit(header + "\nx\n");
  pass();
  BOOST_REQUIRE(queue.stored.size() == 1U);
  BOOST_TEST(queue.stored.front().envelope.recipients.front().address == "ada@example.org");
  BOOST_TEST(queue.stored.front().content.contains("Status: 5.3.4\r\n"));
  BOOST_TEST(queue.stored.front().content.contains("too many header fields"));
}

BOOST_AUTO_TEST_CASE(a_probe_is_queued_as_one_without_copies_filter_and_checks) {
  intake.settings.content_filter = "scan:[127.0.0.1]:10025";
  intake.settings.copies.always = "archive@example.org";
  intake::CheckTables::Specs specs;
  specs.header = "regexp:" + scratch.write("checks", "/^Received:/ HOLD\n");
  auto tables = intake::CheckTables::open(specs);
  BOOST_REQUIRE(tables);
  intake.settings.checks = *tables;
  resolve->aliases["team@example.org"] = {"a@example.org", "b@far.example"};
  probe = true;
  to = "team";
  submit("");
  BOOST_TEST(pass()->counts().probes == 1U);
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 1U);
  const auto& e = queue.stored.front().envelope;
  BOOST_TEST((e.purpose == mail::Purpose::probe));
  BOOST_REQUIRE_EQUAL(e.recipients.size(), 2U);
  BOOST_TEST(e.recipients[1].address == "b@far.example");
  BOOST_TEST(e.recipients[1].original == "team");  // as it was given
  BOOST_TEST(e.filter.empty());
  BOOST_TEST(!e.hold);
  BOOST_TEST(queue.stored.front().content.contains("\r\nSubject: probe\r\n"));
  BOOST_TEST(queue.stored.front().content.contains("\r\nFrom: "));
  BOOST_TEST(e.body.size == e.body.header_size);
  BOOST_TEST(fs_count(drop) + fs_count(corrupt) == 0U);
  probe = false;
  traced = true;
  submit("\nx\n");
  pass();
  BOOST_TEST((queue.stored.at(1).envelope.purpose == mail::Purpose::traced));
}

BOOST_AUTO_TEST_CASE(a_probe_of_aliases_without_end_is_answered_at_once) {
  resolve->aliases["user@example.org"] = {"a", "b", "c", "d", "e", "f"};  // more recipients than the queue takes
  probe = true;
  submit("");
  pass();
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 1U);
  const auto& report = queue.stored.front();
  BOOST_TEST((report.envelope.purpose == mail::Purpose::mail));
  BOOST_TEST(report.content.contains("\r\nSubject: Mail Delivery Status Report\r\n"));
  BOOST_TEST(report.content.contains("\r\nAction: undeliverable\r\nStatus: 4.6.0\r\n"));
  BOOST_TEST(fs_count(drop) + fs_count(corrupt) == 0U);
}

BOOST_AUTO_TEST_CASE(mail_for_aliases_without_end_waits_until_the_table_is_put_right) {
  resolve->aliases["user@example.org"] = {"a", "b", "c", "d", "e", "f"};  // more recipients than the queue takes
  submit("Subject: x\n\nx\n");
  BOOST_TEST(pass()->counts().put_off == 1U);
  BOOST_TEST(queue.stored.empty());
  BOOST_TEST(fs_count(drop) == 1U);
  resolve->aliases["user@example.org"] = {"a"};
  BOOST_TEST(pass()->counts().taken == 1U);
  BOOST_TEST(queue.stored.size() == 1U);
  BOOST_TEST(fs_count(drop) + fs_count(corrupt) == 0U);
}

BOOST_AUTO_TEST_CASE(refused_mail_comes_back_and_goes_to_no_filter) {
  intake.settings.content_filter = "scan:[127.0.0.1]:10025";
  intake::CheckTables::Specs specs;
  specs.header = "regexp:" + scratch.write("checks", "/^Subject: secret/ REJECT 5.7.1 no secrets\n");
  auto tables = intake::CheckTables::open(specs);
  BOOST_REQUIRE(tables);
  intake.settings.checks = *tables;
  submit("Subject: secret\n\nx\n");
  pass();
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 1U);
  BOOST_TEST(queue.stored.front().envelope.transport.starts_with("error:5.7.1 "));
  BOOST_TEST(queue.stored.front().envelope.filter == "");
  submit("Subject: open\n\nx\n");
  pass();
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 2U);
  BOOST_TEST(queue.stored.back().envelope.transport == "");
  BOOST_TEST(queue.stored.back().envelope.filter == "scan:[127.0.0.1]:10025");
}

BOOST_AUTO_TEST_CASE(a_notice_shows_the_header_as_it_would_have_been_sent) {
  submit(around() + "Bcc: secret@example.org,\n more@example.org\nSubject: a\rb \xc3\xa4\n\nbody\n");
  pass();
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 1U);
  const auto& notice = queue.stored.front();
  BOOST_TEST(!notice.content.contains("secret@"));
  BOOST_TEST(!notice.content.contains("more@"));
  BOOST_TEST(notice.content.contains("\r\nSubject: a b \xc3\xa4\r\n"));
  BOOST_TEST(!notice.content.contains("body\r\n"));
  BOOST_TEST((notice.envelope.body_type == mail::BodyType::eight_bit_mime));
}

BOOST_AUTO_TEST_CASE(a_notice_that_is_made_again_has_the_same_queue_id) {
  const auto id = submit(around() + "\nx\n");
  fs::remove(corrupt);  // corrupt files cannot be moved there
  pass();
  pass();
  BOOST_TEST(fs::exists(drop + "/" + id));
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 2U);  // qmgr would have dropped the second one
  BOOST_TEST(queue.stored[0].envelope.queue_id == queue.stored[1].envelope.queue_id);
  BOOST_TEST(queue.stored[0].envelope.queue_id == id + "z");
  BOOST_TEST(mail::is_queue_id(queue.stored[0].envelope.queue_id));
  BOOST_TEST((queue.stored[0].envelope.arrival > WallTime()));
  // By both qmgr knows it.
  BOOST_TEST((queue.stored[0].envelope.arrival == queue.stored[1].envelope.arrival));
}

BOOST_AUTO_TEST_CASE(a_file_of_another_version_is_left_where_it_is) {
  const auto newer = submit("x\n\n"), good = submit("x\n\n");
  {
    std::fstream f(drop + "/" + newer, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(8);
    f.put(2);
  }
  const auto seen = pass();
  BOOST_TEST(seen->counts().left == 1U);
  BOOST_TEST(seen->counts().set_aside == 0U);
  BOOST_TEST(fs::exists(drop + "/" + newer));
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 1U);
  BOOST_TEST(queue.stored.front().envelope.queue_id == good);
}

BOOST_AUTO_TEST_CASE(mail_that_was_declared_smtputf8_stays_so) {
  submit("Subject: \xc3\xa4\n\n");
  smtputf8 = true;
  submit("Subject: \xc3\xa4\n\n");
  pass();
  BOOST_REQUIRE_EQUAL(queue.stored.size(), 2U);
  BOOST_TEST(queue.stored[0].envelope.smtputf8 != queue.stored[1].envelope.smtputf8);
}

BOOST_AUTO_TEST_CASE(what_nobody_sent_and_cannot_be_queued_is_set_aside_alone) {
  const auto id = submit(around() + "\nx\n", "");
  BOOST_TEST(pass()->counts().returned == 0U);
  BOOST_TEST(queue.stored.empty());
  BOOST_TEST(fs::exists(corrupt + "/" + id));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_queued_stays_until_its_sender_can_be_told) {
  const auto id = submit(around() + "\nx\n");
  queue.outcome = intake::Enqueued::no_space;
  pass();
  BOOST_TEST(fs::exists(drop + "/" + id));
  queue.outcome = intake::Enqueued::ok;
  pass();
  BOOST_TEST(fs::exists(corrupt + "/" + id));
  BOOST_TEST(queue.stored.size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::pickup
