/// Tests for messages that are signed on their way into the queue.
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/base/base64.h"
#include "lib/base/text.h"
#include "lib/config/config.h"
#include "lib/mail/header_fields.h"
#include "lib/receive/intake/fakes.h"
#include "lib/receive/intake/intake.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"
#include "lib/trust/dkim/arc.h"
#include "lib/trust/dkim/verify.h"

namespace pen::intake {
BOOST_AUTO_TEST_SUITE(intake_signed)

namespace {

struct Fixture {
  testing::ScratchDir dir;
  async::Loop loop;
  async::HandlerPool pool{loop, 1};
  fakes::MemoryQueue queue;
  std::shared_ptr<const dkim::PrivateKey> key = dkim::PrivateKey::generate(dkim::Algorithm::ed25519_sha256);
  Intake intake{.loop = loop,
                .pool = pool,
                .queue = queue,
                .resolve = std::make_shared<fakes::SetResolve>(),
                .settings = {.myhostname = "mx.example.org", .message_size_limit = 0},
                .next_queue_id = [] { return std::string("4bGNsx3Ynxz1000"); },
                .expansion_waits = false};
  std::optional<Message> message;

  Fixture() {
    const std::string key_file = dir.write("key", key->pem());
    BOOST_REQUIRE(::chmod(key_file.c_str(), 0600) == 0);
    dir.write("keys", "k example.org:s:" + key_file + "\ngone example.org:s:" + dir.file("gone") + "\n");
    dir.write("senders", "lost@example.org gone\n*@example.org k\n");
    const std::string main_cf = "dkim_signing = yes\ndkim_key_table = " + dir.file("keys") +
                                "\ndkim_signing_table = refile:" + dir.file("senders") + "\narc_seal_key = k\n";
    config::Surroundings here;
    const auto config =
        config::Config::parse({.directory = "/", .main_cf = main_cf, .master_cf = {}, .overrides = {}}, here);
    auto signing = signing::Signing::open(config.settings());
    BOOST_REQUIRE(signing.has_value());
    intake.settings.signing = *std::move(signing);
    auto sealing = signing::Sealing::open(config.settings());
    BOOST_REQUIRE(sealing.has_value());
    intake.settings.sealing = *std::move(sealing);
  }
  async::Until soon() const { return {.deadline = loop.now() + seconds(10)}; }

  /// Takes a message up to the end of its content, writing what must be written.
  void take(const std::string& content, bool may_be_signed = true, std::size_t piece = 50000) {
    message.emplace(intake, mail::MessageFacts{});
    message->envelope().sender = "ada@example.org";
    message->add_recipient({.address = "user@example.org", .original = {}, .orcpt = {}, .notify = 0});
    message->may_be_signed(may_be_signed);
    mail::BdatScanner scanner({});
    Body& body = message->open_body(0);
    for (std::size_t at = 0; at < content.size(); at += piece) {
      scanner.feed(std::string_view(content).substr(at, piece), body.content());
      if (body.must_drain()) run(body.drain(soon()));
    }
    scanner.finish(body.content());
  }
  Commit commit() { return run(message->commit(soon())); }
  const fakes::MemoryQueue::Stored& stored() const { return queue.stored.back(); }
  /// The verdicts of what was queued.
  std::string verdicts() const {
    const std::string& content = stored().content;
    BOOST_TEST(content.size() == stored().envelope.body.size);
    const std::size_t header = stored().envelope.body.header_size;
    BOOST_TEST(content.substr(header - 4, 4) == "\r\n\r\n");
    dkim::Verifier verifier(loop.clock().wall_now());
    verifier.header(std::string_view(content).substr(0, header));
    verifier.body(std::string_view(content).substr(header));
    const std::string record = "k=ed25519; p=" + base64_encode(key->public_bytes());
    std::string out;
    for (const auto& o : verifier.results({{"s._domainkey.example.org", {dkim::KeyAnswer::State::found, {record}}}}))
      out += std::string(dkim::verdict_word(o.verdict)) + " " + o.reason;
    return out;
  }
  /// What the checks of incoming mail do once they have a result.
  void judge(const std::string& field = "Authentication-Results: mx; none") {
    BOOST_TEST((run(message->show_content(soon())).outcome == Outcome::ok));
    const std::string content = read().substr(message->bytes_in_front());
    const auto place = dkim::ArcPlace::of(dkim::split_fields(content, 100000));
    message->seal({.sealing = intake.settings.sealing,
                   .results = " mx.example.org;\r\n\tspf=none",
                   .verdict = place.text.empty() ? dkim::ArcVerdict::none : dkim::ArcVerdict::fail,
                   .chain = place.text});
    const std::size_t header = content.find("\r\n\r\n") + 4;
    BOOST_TEST((run(message->add_results(field, {}, header, soon())).outcome == Outcome::ok));
  }
  /// Of the chain of what was queued.
  std::string chain_verdict() const {
    const std::string& content = stored().content;
    BOOST_TEST(content.size() == stored().envelope.body.size);
    const std::size_t header = stored().envelope.body.header_size;
    BOOST_TEST(content.substr(header - 4, 4) == "\r\n\r\n");
    dkim::ArcChain chain(dkim::split_fields(std::string_view(content).substr(0, header), 100000),
                         loop.clock().wall_now());
    chain.body(std::string_view(content).substr(header));
    const std::string record = "k=ed25519; p=" + base64_encode(key->public_bytes());
    const auto out = chain.result({{"s._domainkey.example.org", {dkim::KeyAnswer::State::found, {record}}}});
    return std::string(dkim::verdict_word(out.verdict)) + out.reason;
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

const std::string kHeader = "From: ada@example.org\r\nSubject: one\r\n";
const std::string kSmall = kHeader + "\r\nHello \r\n\r\n";

std::string large(std::size_t size) {
  std::string text = kHeader + "\r\n";
  for (int i = 0; text.size() < size; ++i) text += "line  " + std::to_string(i) + " \t\r\n";
  return text + "\r\n\r\n";
}

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(a_small_message_is_signed_in_memory) {
  take(kSmall);
  BOOST_TEST((commit().outcome == Outcome::ok));
  BOOST_TEST(stored().was_inline);
  BOOST_TEST(stored().content.starts_with("DKIM-Signature: v=1;"));
  BOOST_TEST(verdicts() == "pass ");
}

BOOST_AUTO_TEST_CASE(the_queue_learns_who_signs_unless_it_is_the_sender_s_domain) {
  struct Row {
    std::string sender;
    bool may_be_signed;
    std::string signer;
  };
  for (const Row& row : {Row{"ada@example.org", true, ""}, Row{"ada@EXAMPLE.org", true, ""},
                         Row{"news@esp.example", true, "example.org"}, Row{"", true, "example.org"},
                         Row{"news@esp.example", false, ""}}) {
    take(kSmall, row.may_be_signed);
    message->envelope().sender = row.sender;
    BOOST_TEST((commit().outcome == Outcome::ok));
    BOOST_TEST(stored().envelope.signer == row.signer, row.sender);
  }
}

BOOST_AUTO_TEST_CASE(larger_ones_are_written_once_behind_the_room_for_the_signature) {
  // Beyond what may stay in memory, at once and in several pieces; around the limit.
  for (const std::size_t size : {15000u, 15800u, 16000u, 16200u, 16384u, 20000u, 300000u, 1500000u}) {
    take(large(size));
    BOOST_TEST((commit().outcome == Outcome::ok));
    BOOST_TEST(verdicts() == "pass ");
    BOOST_TEST(stored().was_inline == (stored().content.size() <= queue.limit), size);
  }
}

BOOST_AUTO_TEST_CASE(the_header_may_be_long_and_come_in_pieces) {
  std::string header = kHeader;
  while (header.size() < 700000) header += "X-Long: " + std::string(900, 'x') + "\r\n";
  take(header + "\r\nbody\r\n");
  BOOST_TEST((commit().outcome == Outcome::ok));
  BOOST_TEST(verdicts() == "pass ");
  while (header.size() < 1200000) header += "X-Long: " + std::string(900, 'x') + "\r\n";
  take(header + "\r\nbody\r\n");
  BOOST_TEST((commit().outcome == Outcome::not_signed));
}

BOOST_AUTO_TEST_CASE(mail_of_others_and_of_others_addresses_is_not_signed) {
  take(kSmall, false);
  BOOST_TEST((commit().outcome == Outcome::ok));
  BOOST_TEST(verdicts().empty());
  take("From: ada@elsewhere.example\r\n\r\n" + large(400000));
  BOOST_TEST((commit().outcome == Outcome::ok));
  BOOST_TEST(verdicts().empty());
  intake.settings.content_filter = "scan:";
  take(kSmall);
  BOOST_TEST((commit().outcome == Outcome::ok));
  BOOST_TEST(verdicts().empty());
}

BOOST_AUTO_TEST_CASE(mail_that_cannot_be_signed_is_not_taken) {
  for (const std::size_t size : {100u, 400000u}) {
    std::string content = large(size);
    content.replace(content.find("ada"), 3, "lost");
    take(content);
    const Commit done = commit();
    BOOST_TEST((done.outcome == Outcome::not_signed));
    BOOST_TEST(done.text.find(dir.file("gone")) != std::string::npos, done.text);
  }
  BOOST_TEST(queue.stored.empty());
}

BOOST_AUTO_TEST_CASE(a_filter_sees_no_signature_and_what_it_writes_is_signed) {
  for (const std::size_t size : {100u, 400000u}) {
    take(large(size));
    BOOST_TEST((run(message->hold_content(soon())).outcome == Outcome::ok));
    const std::string before = read();
    BOOST_TEST(before.starts_with("Received: "));
    auto parsed = mail::HeaderFields::parse(before);
    BOOST_TEST(before.substr(parsed.size) == large(size).substr(kHeader.size() + 2));
    parsed.fields.change("Subject", 1, " another");
    run(message->replace_content(parsed.fields.text(), HeldContent(pool, *message->body(), parsed.size), soon()));
    BOOST_TEST((commit().outcome == Outcome::ok));
    BOOST_TEST(verdicts() == "pass ");
    BOOST_TEST(stored().content.find("Subject: another") != std::string::npos);
    // One that changes nothing.
    take(large(size));
    BOOST_TEST((run(message->hold_content(soon())).outcome == Outcome::ok));
    BOOST_TEST((commit().outcome == Outcome::ok));
    BOOST_TEST(verdicts() == "pass ");
  }
}

BOOST_AUTO_TEST_CASE(completed_fields_are_under_the_signature) {
  message.emplace(intake, mail::MessageFacts{});
  message->envelope().sender = "ada@example.org";
  message->add_recipient({.address = "user@example.org", .original = {}, .orcpt = {}, .notify = 0});
  message->may_be_signed(true);
  message->complete_header(true);
  mail::BdatScanner scanner({});
  Body& body = message->open_body(0);
  scanner.feed("Subject: x\r\n\r\nbody\r\n", body.content());
  scanner.finish(body.content());
  BOOST_TEST((commit().outcome == Outcome::ok));
  BOOST_TEST(verdicts() == "pass ");
  const std::string& content = stored().content;
  const std::string signature = content.substr(0, content.find("Received:"));
  for (const char* name : {"From:From:", "Date", "Message-ID"})
    BOOST_TEST(signature.find(name) != std::string::npos, name);
}

BOOST_AUTO_TEST_CASE(mail_of_others_is_sealed_with_what_was_found_out_about_it) {
  for (const std::size_t size : {100u, 15000u, 16000u, 16384u, 300000u, 1500000u}) {
    take(large(size), false);
    judge();
    BOOST_TEST((commit().outcome == Outcome::ok));
    BOOST_TEST(stored().content.starts_with("ARC-Seal: i=1;"));
    BOOST_TEST(
        stored().content.contains("ARC-Authentication-Results: i=1; mx.example.org;\r\n\tspf=none\r\nReceived:"));
    BOOST_TEST(stored().content.contains("\r\nAuthentication-Results: mx; none\r\n"));
    BOOST_TEST(chain_verdict() == "pass", size);
    BOOST_TEST(verdicts().empty());
    // Where a check has taken the results out.
    take(large(size), false);
    judge("");
    BOOST_TEST((commit().outcome == Outcome::ok));
    BOOST_TEST(chain_verdict() == "pass", size);
  }
}

BOOST_AUTO_TEST_CASE(a_filter_sees_no_seal_and_what_it_writes_is_sealed) {
  for (const std::size_t size : {100u, 400000u}) {
    take(large(size), false);
    judge();
    BOOST_TEST((run(message->hold_content(soon())).outcome == Outcome::ok));
    const std::string before = read();
    BOOST_TEST(before.starts_with("Received: "));
    auto parsed = mail::HeaderFields::parse(before);
    parsed.fields.change("Subject", 1, " another");
    run(message->replace_content(parsed.fields.text(), HeldContent(pool, *message->body(), parsed.size), soon()));
    BOOST_TEST((commit().outcome == Outcome::ok));
    BOOST_TEST(chain_verdict() == "pass");
    BOOST_TEST(stored().content.contains("Subject: another"));
    // One that seals itself.
    take(large(size), false);
    judge();
    BOOST_TEST((run(message->hold_content(soon())).outcome == Outcome::ok));
    parsed = mail::HeaderFields::parse(read());
    run(message->replace_content("ARC-Seal: i=1; cv=none\r\n" + parsed.fields.text(),
                                 HeldContent(pool, *message->body(), parsed.size), soon()));
    std::string told;
    intake.log_info = [&](const std::string& line) { told += line + "\n"; };
    BOOST_TEST((commit().outcome == Outcome::ok));
    BOOST_TEST(stored().content.starts_with("ARC-Seal: i=1; cv=none\r\nReceived:"));
    BOOST_TEST(told.contains(": not sealed: its chain has changed since it was checked\n"), told);
  }
}

BOOST_AUTO_TEST_CASE(what_is_sealed_keeps_its_8_bit_parts) {
  intake.settings.signed_form = {.line_limit = 998, .seven_bit = true};
  take(kHeader +
           "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
           "Content-Transfer-Encoding: 8bit\r\n\r\nGr\xc3\xbc\xc3\x9f"
           "e\r\n",
       false);
  judge();
  BOOST_TEST((commit().outcome == Outcome::ok));
  BOOST_TEST(chain_verdict() == "pass");
  BOOST_TEST(stored().content.contains("Gr\xc3\xbc\xc3\x9f"));
}

BOOST_AUTO_TEST_CASE(mail_with_lines_that_not_every_host_takes_is_stored_as_it_came) {
  intake.settings.signed_form = {.line_limit = 998, .seven_bit = true};
  const std::string line = std::string(3000, 'x') + "\r\n";
  const std::string arc = "ARC-Seal: " + std::string(3000, 'x') + "\r\n";
  // Several pieces each: with little memory they are smaller.
  for (const auto& [memory, size] : {std::pair{BodyMemory::kAllowed, 300000UL}, {std::size_t{1}, 200000UL}}) {
    const std::string contents[] = {
        kHeader + "\r\n" + line, kHeader + "\r\n" + line + large(size), large(size) + line, arc + kHeader + "\r\n",
        arc + large(size),       "X: " + line + large(20000),
    };
    for (const std::string& content : contents) {
      intake.bodies = BodyMemory(memory);
      take(content, false);
      std::string told;
      intake.log_info = [&](const std::string& said) { told += said + "\n"; };
      judge("");
      BOOST_TEST((commit().outcome == Outcome::ok));
      BOOST_TEST((stored().content.ends_with(content)));
      BOOST_TEST(stored().content.size() == stored().envelope.body.size);
      BOOST_TEST(told.contains(": not sealed: it has a line that not every host takes\n"), told);
      BOOST_TEST(!told.contains("breaking"), told);
      message.reset();
      intake.log_info = nullptr;
    }
  }
}

BOOST_AUTO_TEST_CASE(the_size_is_that_of_the_content_whatever_a_filter_did_to_lines_and_chain) {
  intake.settings.signed_form = {.line_limit = 998, .seven_bit = true};
  struct Case {
    std::string header, body, outcome;
  };
  const std::string line = std::string(3000, 'x') + "\r\n", seal = "ARC-Seal: i=1; cv=none\r\n";
  for (const auto& [memory, size] : {std::pair{BodyMemory::kAllowed, 300000UL}, {std::size_t{1}, 200000UL}}) {
    const Case cases[] = {
        {{}, line + large(size), "a line"},
        {{}, line, "a line"},
        {seal, line + large(size), "chain"},
        {seal, large(size) + line + line, "chain"},
        {{}, large(size) + line + large(size), "sealed"},
        {{}, large(size) + line, "sealed"},
        {"ARC-Seal: " + line, large(size), "chain"},
    };
    for (const Case& one : cases) {
      intake.bodies = BodyMemory(memory);
      take(kSmall, false);
      judge();
      BOOST_TEST((run(message->hold_content(soon())).outcome == Outcome::ok));
      const std::string header = one.header + mail::HeaderFields::parse(read()).fields.text();
      const auto written = message->new_body(0);
      mail::BdatScanner scanner({});
      for (std::string_view rest = one.body; !rest.empty();
           rest.remove_prefix(std::min<std::size_t>(rest.size(), 5003))) {
        scanner.feed(rest.substr(0, 5003), written->content());
        if (written->must_drain()) run(written->drain(soon()));
      }
      scanner.finish(written->content());
      run(written->end(soon()));
      std::string told;
      intake.log_info = [&](const std::string& said) { told += said + "\n"; };
      const auto done = run(message->replace_content(header, HeldContent(pool, *written), soon()));
      BOOST_TEST((done.outcome == Outcome::ok));
      BOOST_TEST((commit().outcome == Outcome::ok));
      BOOST_TEST(stored().content.size() == stored().envelope.body.size);
      if (one.outcome == "sealed") {
        BOOST_TEST(chain_verdict() == "pass");
        BOOST_TEST(stored().envelope.body.longest_line <= 998U);
      } else {
        BOOST_TEST((stored().content == header + "\r\n" + one.body));
        BOOST_TEST(told.contains(": not sealed: "), told);
        BOOST_TEST(told.contains(one.outcome), told);
      }
      message.reset();
      intake.log_info = nullptr;
    }
  }
}

BOOST_AUTO_TEST_CASE(a_header_too_large_to_be_sealed_is_no_reason_to_refuse_mail) {
  std::string header = kHeader;
  while (header.size() < 1200000) header += "X-Long: " + std::string(900, 'x') + "\r\n";
  take(header + "\r\nbody\r\n", false);
  std::string told;
  intake.log_info = [&](const std::string& said) { told += said + "\n"; };
  judge();
  BOOST_TEST((commit().outcome == Outcome::ok));
  BOOST_TEST((stored().content.ends_with("\r\nAuthentication-Results: mx; none\r\n" + header + "\r\nbody\r\n")));
  BOOST_TEST(told.contains(": not sealed: its header is too large\n"), told);
}

BOOST_AUTO_TEST_CASE(own_mail_is_signed_and_not_sealed) {
  take(kSmall);
  judge();
  BOOST_TEST((commit().outcome == Outcome::ok));
  BOOST_TEST(stored().content.starts_with("DKIM-Signature: v=1;"));
  BOOST_TEST(!stored().content.contains("ARC-"));
  BOOST_TEST(verdicts() == "pass ");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::intake
