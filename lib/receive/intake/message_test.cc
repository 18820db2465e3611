/// Tests for content that a filter reads and changes before it is queued.
#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/mail/header_fields.h"
#include "lib/receive/intake/fakes.h"
#include "lib/receive/intake/intake.h"
#include "lib/testing/suite.h"

namespace pen::intake {
BOOST_AUTO_TEST_SUITE(held_message)

namespace {

struct Fixture {
  async::Loop loop;
  async::HandlerPool pool{loop, 1};
  fakes::MemoryQueue queue;
  std::shared_ptr<fakes::SetResolve> resolve = std::make_shared<fakes::SetResolve>();
  bool completed = false;  // the header of the next message
  Intake intake{.loop = loop,
                .pool = pool,
                .queue = queue,
                .resolve = resolve,
                .settings = {.myhostname = "mx.example.org"},
                .next_queue_id = [] { return std::string("4bGNsx3Ynxz1000"); },
                .expansion_waits = false};
  std::optional<Message> message;
  async::Until soon() const { return {.deadline = loop.now() + seconds(10)}; }

  /// A message with this content, held back.
  void take(std::string_view content) {
    message.emplace(intake, mail::MessageFacts{});
    message->envelope().sender = "ada@example.org";
    message->complete_header(completed);
    message->add_recipient({.address = "user@example.org", .original = {}, .orcpt = {}, .notify = 0});
    mail::BdatScanner scanner({});
    Body& body = message->open_body(0);
    scanner.feed(content, body.content());
    scanner.finish(body.content());
    BOOST_TEST((run(message->hold_content(soon())).outcome == Outcome::ok));
  }
  /// What a filter does: reads all, edits the header, keeps the body or gives another.
  template <class Edit>
  void edit(Edit change) {
    const std::string before = read();
    auto parsed = mail::HeaderFields::parse(before);
    parsed.fields.hide_first();
    change(parsed.fields);
    const Commit done =
        run(message->replace_content(parsed.fields.text(), HeldContent(pool, *message->body(), parsed.size), soon()));
    BOOST_TEST((done.outcome == Outcome::ok));
    BOOST_TEST(read() == parsed.fields.text() + "\r\n" + before.substr(parsed.size));
  }
  std::string read() {
    HeldContent content(pool, *message->body());
    std::string all;
    for (;;) {
      const auto piece = run(content.next());
      BOOST_REQUIRE(piece.has_value());
      if (piece->empty()) return all;
      all += *piece;
    }
  }
  template <class T>
  T run(async::Task<T> task) {
    return async::testing::run(loop, std::move(task));
  }
};

const std::string kSmall = "Subject: x\r\nMessage-Id: <1@a>\r\n\r\nbody\r\n";
std::string large() {
  std::string out = kSmall;
  for (int i = 0; i < 20000; ++i) out += std::string(60, 'x') + std::to_string(i) + "\r\n";
  return out;
}

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(nothing_is_queued_before_commit) {
  take(kSmall);
  BOOST_TEST(queue.stored.empty());
  BOOST_TEST(read().ends_with(kSmall));
  BOOST_TEST((run(message->commit(soon())).outcome == Outcome::ok));
  BOOST_REQUIRE(queue.stored.size() == 1U);
  BOOST_TEST(queue.stored[0].content.ends_with(kSmall));
}

BOOST_AUTO_TEST_CASE(a_sender_who_names_no_author_is_shown_as_the_envelope_will_name_him) {
  resolve->canonical_senders["ada@example.org"] = "Ada.Lovelace@out.example";
  completed = true;
  take("Subject: x\r\n\r\nbody\r\n");
  BOOST_TEST(read().find("\r\nFrom: Ada.Lovelace@out.example\r\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(one_filter_after_another_changes_what_is_queued) {
  for (const bool is_large : {false, true}) {
    queue.stored.clear();
    take(is_large ? large() : kSmall);
    edit([](mail::HeaderFields& f) { f.insert(0, "Authentication-Results", " mx; none"); });
    edit([](mail::HeaderFields& f) {
      BOOST_TEST(f.all()[0].name == "Authentication-Results");  // the second sees what the first one did
      f.change("Subject", 1, " [spam] x");
      f.change("Message-Id", 1, " <2@a>");
    });
    BOOST_TEST((run(message->commit(soon())).outcome == Outcome::ok));
    BOOST_REQUIRE(queue.stored.size() == 1U);
    const auto& stored = queue.stored[0];
    BOOST_TEST(stored.was_inline == !is_large);
    BOOST_TEST(stored.content.starts_with("Authentication-Results: mx; none\r\nReceived: "));
    BOOST_TEST(stored.content.contains("\r\nSubject: [spam] x\r\nMessage-Id: <2@a>\r\n\r\nbody\r\n"));
    BOOST_TEST(stored.envelope.message_id == "<2@a>");
    BOOST_TEST(stored.envelope.body.size == stored.content.size());
    BOOST_TEST(stored.envelope.body.header_size == stored.content.find("\r\n\r\n") + 4);
    message.reset();
    BOOST_TEST(queue.leases == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_value_with_a_stray_carriage_return_is_stored_as_content_is) {
  take(kSmall);
  edit([](mail::HeaderFields& f) { f.add("X-Odd", mail::header_value(" a\rb\nX: c")); });
  BOOST_TEST(read().contains("X-Odd: a b\r\n\tX: c\r\n\r\nbody"));
}

BOOST_AUTO_TEST_CASE(a_queue_without_room_for_the_changed_content_is_an_outcome) {
  take(large());
  queue.lease_outcome = Enqueued::no_space;
  const Commit done = run(message->replace_content("A: b\r\n", HeldContent(pool, *message->body(), 0), soon()));
  BOOST_TEST((done.outcome == Outcome::no_space));
}

// requiretls_esmtp_header: the field takes the wish through a content filter, and back.
BOOST_AUTO_TEST_CASE(require_tls_esmtp_tells_of_requiretls_and_asks_for_it) {
  intake.settings.require_tls_header = true;
  for (const auto wish : {mail::RequireTls::unspecified, mail::RequireTls::yes}) {
    queue.stored.clear();
    message.emplace(intake, mail::MessageFacts{});
    message->envelope().requiretls = wish;
    message->add_recipient({.address = "user@example.org", .original = {}, .orcpt = {}, .notify = 0});
    mail::BdatScanner scanner({});
    scanner.feed("Subject: a\r\n\r\nb\r\n", message->open_body(0).content());
    BOOST_TEST((run(message->commit(soon())).outcome == Outcome::ok));
    BOOST_TEST_REQUIRE(queue.stored.size() == 1u);
    BOOST_TEST(queue.stored[0].content.contains("\r\nRequire-TLS-ESMTP: yes\r\n") == (wish == mail::RequireTls::yes));
  }
  for (const bool counts : {false, true}) {
    queue.stored.clear();
    intake.settings.require_tls_header = counts;
    take("Require-TLS-ESMTP: yes\r\n\r\nb\r\n");
    BOOST_TEST((run(message->commit(soon())).outcome == Outcome::ok));
    BOOST_TEST((queue.stored.at(0).envelope.requiretls == mail::RequireTls::yes) == counts);
  }
}

// non_empty_end_of_header_action = reject
BOOST_AUTO_TEST_CASE(a_header_that_ends_with_text_is_refused_and_logged_or_returned) {
  intake.settings.unended = UnendedHeader::refuse;
  std::vector<std::string> lines;
  intake.log_info = [&](const std::string& line) { lines.push_back(line); };
  for (const bool submitted : {false, true}) {
    queue.stored.clear();
    message.emplace(intake, mail::MessageFacts{});
    message->return_refused(submitted);
    message->add_recipient({.address = "user@example.org", .original = {}, .orcpt = {}, .notify = 0});
    mail::BdatScanner scanner({});
    scanner.feed("Subject: a\r\nno field\r\n", message->open_body(0).content());
    const Commit done = run(message->commit(soon()));
    BOOST_TEST((done.outcome == (submitted ? Outcome::ok : Outcome::refused)));
    if (!submitted) BOOST_TEST(done.text == "5.6.0 message header was terminated with non-empty line");
    BOOST_TEST(queue.stored.size() == (submitted ? 1u : 0u));
  }
  BOOST_TEST_REQUIRE(lines.size() == 2u);
  BOOST_TEST(lines[0].contains("reject: mime-error message header was terminated with non-empty line: no field"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::intake
