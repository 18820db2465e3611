// SPF, DKIM and DMARC in real sessions: what is added and taken out, what restrictions and settings do with it.
#include "smtpd/authentication.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <ctime>

#include "lib/testing/scratch.h"
#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;

namespace {

const std::string kOk = "250 2.1.5 Ok\r\n";
const std::string kAll = "dmarc_verify = yes\ndmarc_public_suffix_file =\n";

struct Open : Rig {
  explicit Open(const std::string& main_cf, std::string address = "192.0.2.7") : Rig(main_cf) {
    BOOST_TEST_REQUIRE(problem == "");
    names.dns["TXT x.example"] = {"v=spf1 ip4:192.0.2.7 -all"};
    names.dns["TXT soft.example"] = {"v=spf1 ~all"};
    names.dns["TXT bad.example"] = {"v=spf1 nonsense"};
    names.dns["TXT no.example"] = {"v=spf1 -all exp=e.no.example"};
    names.dns["TXT e.no.example"] = {"ask %{o}"};
    names.dns["TXT _dmarc.x.example"] = {"v=DMARC1; p=reject"};
    names.dns["TXT _dmarc.q.example"] = {"v=DMARC1; p=quarantine"};
    connect(std::move(address));
  }
  std::string rcpt(std::string_view from, std::string_view helo = "h.example") {
    say("EHLO " + std::string(helo) + "\r\n");
    say("MAIL FROM:<" + std::string(from) + ">\r\n");
    return say("RCPT TO:<user@example.org>\r\n");
  }
  /// Returns the reply to the end of the data; it may take threads.
  std::string data(const std::string& content) {
    BOOST_TEST_REQUIRE(say("DATA\r\n").starts_with("354"));
    std::string reply = say(content + ".\r\n");
    for (int i = 0; i < 3000 && reply.empty(); ++i) {
      loop.run_once(milliseconds(5));
      reply = settle();
    }
    return reply;
  }
  std::string send(std::string_view from, const std::string& content) {
    BOOST_TEST_REQUIRE(rcpt(from) == kOk);
    return data(content);
  }
  const std::string& content() const {
    BOOST_TEST_REQUIRE(!queue.stored.empty());
    return queue.stored.back().content;
  }
  /// What follows our Received: field.
  std::string behind_trace() const {
    const std::string& all = content();
    BOOST_TEST_REQUIRE(all.starts_with("Received: "));
    std::size_t at = 0;
    do {
      at = all.find("\r\n", at) + 2;
    } while (all[at] == ' ' || all[at] == '\t');
    return all.substr(at);
  }
};

const std::string kFrom = "From: a@x.example\r\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(authentication)

BOOST_AUTO_TEST_CASE(without_a_setting_nothing_is_asked_added_or_taken_out) {
  Open rig("");
  const std::string message = "Authentication-Results: mx.example.org; spf=pass\r\n" + kFrom + "\r\nx\r\n";
  BOOST_TEST(rig.send("a@x.example", message).starts_with("250 2.0.0"));
  BOOST_TEST(rig.behind_trace() == message);
  BOOST_TEST(rig.names.asked.empty());
}

BOOST_AUTO_TEST_CASE(results_stand_below_our_trace_field_and_above_the_clients_fields) {
  Open rig(kAll);
  BOOST_TEST(rig.send("a@x.example", kFrom + "\r\nx\r\n").starts_with("250 2.0.0"));
  BOOST_TEST(rig.behind_trace() ==
             "Authentication-Results: mx.example.org;\r\n\tspf=pass smtp.mailfrom=a@x.example;\r\n"
             "\tspf=none smtp.helo=h.example;\r\n\tdkim=none;\r\n"
             "\tdmarc=pass header.from=x.example policy.dmarc=reject\r\n" +
                 kFrom + "\r\nx\r\n");
  const auto& facts = rig.queue.stored.back().envelope.body;
  BOOST_TEST(facts.size == rig.content().size());
  BOOST_TEST(facts.header_size == rig.content().find("\r\n\r\n") + 4);
}

BOOST_AUTO_TEST_CASE(each_check_has_its_own_switch) {
  Open spf("spf_verify = yes\nauthserv_id = other.example.org\n");
  BOOST_TEST(spf.send("", kFrom + "\r\nx\r\n").starts_with("250"));
  BOOST_TEST(spf.behind_trace().starts_with(
      "Authentication-Results: other.example.org;\r\n\tspf=none smtp.helo=h.example\r\nFrom:"));
  Open dkim("dkim_verify = yes\n");
  BOOST_TEST(dkim.send("a@x.example", kFrom + "\r\nx\r\n").starts_with("250"));
  BOOST_TEST(dkim.behind_trace().starts_with("Authentication-Results: mx.example.org;\r\n\tdkim=none\r\nFrom:"));
  BOOST_TEST(dkim.names.asked.empty());
}

BOOST_AUTO_TEST_CASE(of_the_null_sender_the_helo_name_is_asked) {
  Open rig("spf_verify = yes\nsmtpd_recipient_restrictions = reject_spf_fail\n");
  BOOST_TEST(rig.rcpt("", "no.example") ==
             "550 5.7.23 <no.example>: Helo command rejected: SPF fail: 192.0.2.7 may not send for no.example; "
             "no.example explains: ask no.example\r\n");
  rig.say("RSET\r\n");
  BOOST_TEST(rig.rcpt("", "[192.0.2.7]") == kOk);
}

BOOST_AUTO_TEST_CASE(results_in_our_name_are_taken_out_and_others_stay) {
  const std::string mine = "Authentication-Results: (x) MX.example.org 1;\r\n\tdmarc=pass\r\n";
  const std::string others = "Authentication-Results: mx.other.example; spf=pass\r\n";
  const std::string big(400'000, 'x');
  for (const std::string& body : {std::string("x"), std::string(40'000, 'y'), big}) {
    std::string lines;
    for (std::size_t at = 0; at < body.size(); at += 900) lines += body.substr(at, 900) + "\r\n";
    Open rig("spf_verify = yes\nmessage_size_limit = 0\n");
    BOOST_TEST(rig.send("a@x.example", mine + others + kFrom + mine + mine + "\r\n" + lines).starts_with("250 2.0.0"));
    const std::string expected =
        "Authentication-Results: mx.example.org;\r\n\tspf=pass smtp.mailfrom=a@x.example;\r\n"
        "\tspf=none smtp.helo=h.example\r\n" +
        others + kFrom + "\r\n" + lines;
    BOOST_TEST((rig.behind_trace() == expected), rig.behind_trace().substr(0, 500));
    BOOST_TEST(rig.queue.stored.back().envelope.body.size == rig.content().size());
    BOOST_TEST(rig.queue.leases == 0);
  }
}

BOOST_AUTO_TEST_CASE(very_many_forged_results_are_taken_out_in_one_go) {
  Open rig("spf_verify = yes\n");
  std::string forged;
  for (int i = 0; i < 9'900; ++i) forged += "Authentication-Results: mx.example.org; spf=pass\r\n";
  const std::clock_t begun = std::clock();
  BOOST_TEST(rig.send("a@x.example", forged + kFrom + "\r\nx\r\n").starts_with("250 2.0.0"));
  BOOST_TEST(static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC < 2.0);
  const std::string left = rig.behind_trace();
  BOOST_TEST(left.substr(left.find("From:")) == kFrom + "\r\nx\r\n");
  BOOST_TEST(left.find("Authentication-Results:") == left.rfind("Authentication-Results:"));
}

BOOST_AUTO_TEST_CASE(one_message_asks_dns_so_many_questions_and_no_more) {
  Open rig(kAll);
  // All at one zone: SPF of both identities, ten signatures, five authors.
  for (const char* domain : {"mail.z.example", "helo.z.example"}) {
    std::string record = "v=spf1";
    for (int i = 0; i < 10; ++i) {
      const std::string name = "m" + std::to_string(i) + "." + domain;
      record += " mx:" + name;
      for (int j = 0; j < 10; ++j) rig.names.dns["MX " + name].push_back("h" + std::to_string(j) + "." + name);
    }
    rig.names.dns[std::string("TXT ") + domain] = {record + " -all"};
  }
  std::string header;
  for (int i = 0; i < 30; ++i)
    header +=
        "DKIM-Signature: v=1; a=rsa-sha256; d=d" + std::to_string(i) + ".z.example; s=k; h=from; bh=YWJj; b=YWJj\r\n";
  std::string authors = "From: ";
  for (int i = 0; i < 5; ++i)
    authors += (i == 0 ? "" : ", ") + std::string("a@1.2.3.4.5.6.a") + std::to_string(i) + ".z.example";
  rig.say("EHLO helo.z.example\r\n");
  rig.say("MAIL FROM:<a@mail.z.example>\r\n");
  BOOST_TEST_REQUIRE(rig.say("RCPT TO:<user@example.org>\r\n") == kOk);
  BOOST_TEST(rig.data(header + authors + "\r\n\r\nx\r\n").starts_with("250"));
  // 40 of SPF, 10 keys, and of the walks up from each author no name twice.
  BOOST_TEST(rig.names.asked.size() <= 40 + 10 + 5 * 8);
  BOOST_TEST(rig.names.asked.size() > 40 + 10);
}

BOOST_AUTO_TEST_CASE(odd_headers_lose_nothing) {
  const std::string results =
      "Authentication-Results: mx.example.org;\r\n\tspf=pass smtp.mailfrom=a@x.example;\r\n"
      "\tspf=none smtp.helo=h.example\r\n";
  const std::string mine = "Authentication-Results: mx.example.org; x=y\r\n";
  struct Row {
    std::string sent, stored;
  };
  const Row rows[] = {
      {"no header at all\r\n", results + "\r\nno header at all\r\n"},
      {kFrom + "then the body\r\n", results + kFrom + "\r\nthen the body\r\n"},
      {kFrom + mine + "then the body\r\n", results + kFrom + "\r\nthen the body\r\n"},
      {mine, results},
      {"\r\nbody\r\n", results + "\r\nbody\r\n"},
      {"From x Mon\r\n" + mine + kFrom + "\r\nx\r\n", results + "X-Mailbox-Line: From x Mon\r\n" + kFrom + "\r\nx\r\n"},
  };
  for (const auto& row : rows) {
    Open rig("spf_verify = yes\n");
    BOOST_TEST(rig.send("a@x.example", row.sent).starts_with("250 2.0.0"));
    BOOST_TEST(rig.behind_trace() == row.stored, row.sent);
    BOOST_TEST(rig.queue.stored.back().envelope.body.size == rig.content().size());
  }
}

BOOST_AUTO_TEST_CASE(each_spf_restriction_refuses_its_own_result) {
  struct Row {
    std::string_view restriction, sender, reply;
  };
  const Row rows[] = {
      {"reject_spf_fail", "a@no.example",
       "550 5.7.23 <a@no.example>: Sender address rejected: SPF fail: 192.0.2.7 may not send for no.example; "
       "no.example explains: ask no.example\r\n"},
      {"reject_spf_fail", "a@soft.example", kOk},
      {"reject_spf_fail", "a@x.example", kOk},
      {"reject_spf_fail", "a@none.example", kOk},
      {"reject_spf_softfail", "a@soft.example",
       "550 5.7.23 <a@soft.example>: Sender address rejected: SPF softfail: 192.0.2.7 may not send for "
       "soft.example\r\n"},
      {"reject_spf_softfail", "a@no.example", kOk},
      {"reject_spf_permerror", "a@bad.example",
       "550 5.7.24 <a@bad.example>: Sender address rejected: SPF of bad.example: SPF term \"nonsense\": malformed\r\n"},
      {"reject_spf_permerror", "a@no.example", kOk},
      {"defer_spf_temperror", "a@silent.example",
       "451 4.7.24 <a@silent.example>: Sender address rejected: SPF cannot be checked now: no answer from DNS about "
       "silent.example\r\n"},
      {"reject_spf_fail, reject_spf_permerror", "a@silent.example", kOk},
      {"warn_if_reject reject_spf_fail", "a@no.example", kOk},
  };
  for (const auto& row : rows) {
    for (const auto* list : {"smtpd_sender_restrictions", "smtpd_recipient_restrictions"}) {
      Open rig("spf_verify = yes\n" + std::string(list) + " = " + std::string(row.restriction) + "\n");
      BOOST_TEST(rig.policy->warnings.empty());
      rig.names.broken.insert("silent.example");
      BOOST_TEST(rig.rcpt(row.sender) == row.reply, row.restriction);
    }
  }
  Open other("spf_verify = yes\nspf_reject_code = 450\nsmtpd_sender_restrictions = reject_spf_fail\n");
  BOOST_TEST(other.rcpt("a@no.example").starts_with("450 4.7.23 "));
  Open early("spf_verify = yes\nsmtpd_delay_reject = no\nsmtpd_sender_restrictions = reject_spf_fail\n");
  early.say("EHLO h.example\r\n");
  BOOST_TEST(early.say("MAIL FROM:<a@no.example>\r\n").starts_with("550 5.7.23 "));
}

BOOST_AUTO_TEST_CASE(restrictions_without_what_they_need_refuse_for_now) {
  Open spf("smtpd_sender_restrictions = reject_spf_fail\n");
  BOOST_TEST(spf.rcpt("a@x.example").starts_with("451 4.3.5 "));
  BOOST_TEST_REQUIRE(spf.policy->warnings.size() == 1u);
  BOOST_TEST(spf.policy->warnings[0] == "reject_spf_fail needs spf_verify = yes");
  Open dmarc(kAll + "smtpd_recipient_restrictions = reject_dmarc\n");
  BOOST_TEST(dmarc.rcpt("a@x.example").starts_with("451 4.3.5 "));
  BOOST_TEST_REQUIRE(dmarc.policy->warnings.size() == 1u);
  BOOST_TEST(dmarc.policy->warnings[0] == "reject_dmarc can only stand in smtpd_end_of_data_restrictions");
  BOOST_TEST(Rig("dmarc_reject_action = bounce\n").problem.contains("dmarc_reject_action"));
  BOOST_TEST(Rig("dmarc_verify = yes\ndmarc_public_suffix_file = /nonexistent\n").problem.contains("/nonexistent"));
}

BOOST_AUTO_TEST_CASE(exempt_clients_are_not_checked) {
  Open rig(kAll + "smtpd_sender_restrictions = reject_spf_fail\ndmarc_reject_action = reject\n", "127.0.0.1");
  const std::string message = "Authentication-Results: mx.example.org; spf=pass\r\n" + kFrom + "\r\nx\r\n";
  BOOST_TEST(rig.send("a@no.example", message).starts_with("250 2.0.0"));
  BOOST_TEST(rig.behind_trace() == message);
  BOOST_TEST(rig.names.asked.empty());
  Open forwarder(kAll + "authentication_results_exempt_clients = 192.0.2.0/24\n");
  BOOST_TEST(forwarder.send("a@no.example", message).starts_with("250 2.0.0"));
  BOOST_TEST(forwarder.behind_trace() == message);
}

/// A key of example.org in a file.
struct KeyFile {
  pen::testing::ScratchDir dir;
  std::string path = dir.write("key", dkim::PrivateKey::generate(dkim::Algorithm::ed25519_sha256)->pem());
  KeyFile() { BOOST_REQUIRE(::chmod(path.c_str(), 0600) == 0); }
};

struct Sealer : KeyFile, Open {
  explicit Sealer(const std::string& main_cf = {}, std::string address = "192.0.2.7")
      : Open(kAll + "arc_seal_key = k\ndkim_key_table = inline:{ { k = example.org:s:" + path + " } }\n" + main_cf,
             std::move(address)) {
    auto sealing = signing::Sealing::open(config->settings());
    BOOST_TEST_REQUIRE(sealing.has_value());
    intake.settings.sealing = *std::move(sealing);
  }
};

BOOST_AUTO_TEST_CASE(mail_that_is_checked_is_sealed_with_its_results) {
  Sealer rig;
  std::string lines;
  while (lines.size() < 300'000) lines += std::string(900, 'y') + "\r\n";
  for (const std::string& body : {std::string("x\r\n"), lines}) {
    BOOST_TEST(rig.send("a@x.example", kFrom + "\r\n" + body).starts_with("250 2.0.0"));
    const std::string all = rig.content();
    BOOST_TEST(all.starts_with("ARC-Seal: i=1; a=ed25519-sha256;"), all.substr(0, 300));
    BOOST_TEST(all.contains(" cv=none; d=example.org; s=s;"));
    const std::string results =
        "mx.example.org;\r\n\tspf=pass smtp.mailfrom=a@x.example;\r\n"
        "\tspf=none smtp.helo=h.example;\r\n\tdkim=none;\r\n\tarc=none;\r\n"
        "\tdmarc=pass header.from=x.example policy.dmarc=reject\r\n";
    BOOST_TEST(all.contains("\r\nARC-Authentication-Results: i=1; " + results + "Received: "));
    BOOST_TEST(all.contains("\r\nAuthentication-Results: " + results));
    BOOST_TEST(rig.queue.stored.back().envelope.body.size == all.size());
    rig.say("RSET\r\n");
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_checked_or_not_asked_for_is_not_sealed) {
  struct Row {
    std::string settings, address;
    bool sealed;
  };
  const Row rows[] = {
      {"", "192.0.2.7", true},
      {"", "127.0.0.1", false},  // exempt
      {"arc_seal_domains = list.example, example.org\n", "192.0.2.7", true},
      {"arc_seal_domains = list.example, .example.org\n", "192.0.2.7", false},
      {"arc_seal_domains = !example.org, static:all\n", "192.0.2.7", false},
      {"arc_seal_domains = static:all, !example.org\n", "192.0.2.7", true},
      {"arc_seal_domains =\n", "192.0.2.7", false},
      {"dmarc_verify = no\nspf_verify = yes\n", "192.0.2.7", false},
      {"dmarc_verify = no\ndkim_verify = yes\n", "192.0.2.7", true},
  };
  for (const Row& row : rows) {
    Sealer rig(row.settings, row.address);
    BOOST_TEST(rig.send("a@x.example", kFrom + "\r\nx\r\n").starts_with("250 2.0.0"));
    BOOST_TEST(rig.content().contains("ARC-") == row.sealed, row.settings << row.address);
  }
  const auto warns = [](const Rig& rig) {
    return std::ranges::count(rig.policy->warnings,
                              "arc_seal_key needs dkim_verify = yes or dmarc_verify = yes: nothing is sealed");
  };
  BOOST_TEST(warns(Sealer("dmarc_verify = no\nspf_verify = yes\n")) == 1);
  BOOST_TEST(warns(Sealer()) == 0);
  BOOST_TEST(Rig("arc_seal_key = k\narc_seal_domains = tcp:127.0.0.1:1\n")
                 .problem.contains("arc_seal_domains: a table that another process serves cannot be used here"));
}

BOOST_AUTO_TEST_CASE(mail_that_cannot_be_sealed_is_taken_as_it_came) {
  const std::string line(2000, 'y');
  std::string header = kFrom;  // with our fields more than may be sealed
  while (header.size() < Authentication::kMaxHeader - 1000) header += "X: " + std::string(900, 'x') + "\r\n";
  for (const std::string& message :
       {kFrom + "\r\n" + line + "\r\n", header + "\r\nx\r\n", "ARC-Seal: " + line + "\r\n" + kFrom + "\r\nx\r\n"}) {
    Sealer rig("message_size_limit = 0\n");
    rig.intake.settings.signed_form = {.line_limit = 998, .seven_bit = true};
    for (int i = 0; i < 9; ++i)
      rig.intake.settings.myhostname += ".a-rather-long-name-of-a-host-of-which-there-are-few";
    BOOST_TEST(rig.send("a@x.example", message).starts_with("250 2.0.0"));
    BOOST_TEST((rig.behind_trace().ends_with(message)));
    BOOST_TEST(rig.behind_trace().starts_with("Authentication-Results: "));
    BOOST_TEST(rig.content().starts_with("Received: "));
    BOOST_TEST(rig.content().size() == rig.queue.stored.back().envelope.body.size);
  }
}

BOOST_AUTO_TEST_CASE(a_chain_that_does_not_hold_is_said_to_be_broken_once) {
  Sealer rig;
  BOOST_TEST(rig.send("a@x.example", "ARC-Seal: nonsense\r\n" + kFrom + "\r\nx\r\n").starts_with("250 2.0.0"));
  BOOST_TEST(rig.content().contains(" cv=fail;"));
  BOOST_TEST(rig.content().contains("arc=fail reason=\"a field without a number that can be\""));
  rig.say("RSET\r\n");
  const std::string closed = "ARC-Seal: i=1; cv=fail; a=rsa-sha256; b=YWJj; d=y.example; s=s\r\n";
  BOOST_TEST(rig.send("a@x.example", closed + kFrom + "\r\nx\r\n").starts_with("250 2.0.0"));
  BOOST_TEST(rig.content().starts_with("Received:"));
  BOOST_TEST(rig.content().contains("\r\n" + closed));
}

BOOST_AUTO_TEST_CASE(without_its_key_mail_that_is_to_be_sealed_waits) {
  Sealer rig("arc_seal_key = other\n");
  BOOST_TEST(rig.send("a@x.example", kFrom + "\r\nx\r\n").starts_with("451 4.7.5"));
  BOOST_TEST(rig.queue.stored.empty());
}

BOOST_AUTO_TEST_CASE(what_the_policy_of_the_author_asks_for_is_done_as_far_as_settings_want_it) {
  struct Row {
    std::string settings, author, reply;
    bool hold;
  };
  const std::string refused =
      "550 5.7.26 <x.example>: From address rejected: DMARC: no SPF or DKIM result of x.example, whose policy is "
      "reject\r\n";
  const Row rows[] = {
      {"", "x.example", "250", false},
      {"dmarc_reject_action = reject\n", "x.example", refused, false},
      {"dmarc_reject_action = reject\n", "q.example", "250", false},
      {"dmarc_reject_action = reject\n", "elsewhere.example", "250", false},
      {"dmarc_reject_action = hold\n", "x.example", "250", true},
      {"dmarc_quarantine_action = hold\n", "q.example", "250", true},
      {"dmarc_quarantine_action = hold\n", "x.example", "250", false},
      {"dmarc_quarantine_action = reject\ndmarc_reject_code = 451\n", "q.example", "451 4.7.26 ", false},
      {"smtpd_end_of_data_restrictions = reject_dmarc\n", "x.example", refused, false},
      {"smtpd_end_of_data_restrictions = reject_dmarc\n", "q.example", "250", false},
      {"smtpd_end_of_data_restrictions = warn_if_reject reject_dmarc\n", "x.example", "250", false},
  };
  for (const auto& row : rows) {
    Open rig(kAll + row.settings);
    const std::string reply = rig.send("a@soft.example", "From: a@" + row.author + "\r\n\r\nx\r\n");
    BOOST_TEST(reply.starts_with(row.reply), row.settings << row.author << ": " << reply);
    if (row.reply == "250") BOOST_TEST(rig.queue.stored.back().envelope.hold == row.hold);
  }
}

BOOST_AUTO_TEST_CASE(servers_that_a_forger_knows_not_to_answer_let_nothing_pass) {
  const std::string signature = "DKIM-Signature: v=1; a=rsa-sha256; d=dead.x.example; s=k; h=from; bh=YWJj; b=YWJj\r\n";
  struct Row {
    std::string settings, header, reply;
  };
  const std::string waits = "451 4.7.26 <x.example>: From address rejected: DMARC cannot be checked now";
  const std::string below = "From: a@dead.x.example\r\n";
  const Row rows[] = {
      {"", signature + kFrom, "250"},
      {"dmarc_reject_action = reject\n", signature + kFrom, waits},
      {"dmarc_reject_action = hold\n", signature + kFrom, waits},
      {"dmarc_quarantine_action = reject\n", signature + kFrom, "250"},
      {"smtpd_end_of_data_restrictions = reject_dmarc\n", signature + kFrom, waits},
      {"dmarc_reject_action = reject\n", below, "451 4.7.26 <dead.x.example>: From address rejected: DMARC"},
      {"dmarc_reject_action = reject\n", signature + "From: a@elsewhere.example\r\n", "250"},
  };
  for (const Row& row : rows) {
    Open rig(kAll + row.settings);
    for (const char* name : {"k._domainkey.dead.x.example", "_dmarc.dead.x.example"}) rig.names.broken.insert(name);
    const std::string reply = rig.send("a@soft.example", row.header + "\r\nx\r\n");
    BOOST_TEST(reply.starts_with(row.reply), row.settings << row.header << reply);
  }
}

BOOST_AUTO_TEST_CASE(a_header_that_begins_like_an_mbox_hides_no_author) {
  Open rig(kAll + "dmarc_reject_action = reject\n");
  BOOST_TEST(rig.send("a@soft.example", "From evil\r\n" + kFrom + "\r\nx\r\n").starts_with("550 5.7.26"));
  for (const std::string& hidden : {"From : CEO <a@x.example>\r\n", "From\t: a@x.example\r\n"}) {
    const std::string reply = rig.send("a@soft.example", hidden + "From: a@soft.example\r\n\r\nx\r\n");
    BOOST_TEST(reply.starts_with("550 5.7.26 <x.example>"), hidden << reply);
  }
}

BOOST_AUTO_TEST_CASE(junk_beside_the_author_does_not_save_a_forgery) {
  const std::string author = "From: CEO <a@x.example>";
  const std::string refused =
      "550 5.7.26 <x.example>: From address rejected: DMARC: no SPF or DKIM result of x.example";
  for (const std::string& fields :
       {author + ", x\r\n", author + "\r\nFrom: x\r\n", "From:\r\n" + author + "\r\n", author + ", <x@[1.2.3.4]>\r\n",
        std::string("From: a@x.example.\r\n"), std::string("From: a@x.example\0\r\n", 20),
        "From: a@" + std::string(64, 'y') + ".x.example\r\n",
        author + ", a@1.example, a@2.example, a@3.example, a@4.example, a@soft.example\r\n"}) {
    Open rig(kAll + "dmarc_reject_action = reject\n");
    BOOST_TEST(rig.send("a@soft.example", fields + "\r\nx\r\n").starts_with(refused), fields);
  }
  Open rig(kAll + "dmarc_reject_action = reject\n");
  BOOST_TEST(rig.send("a@soft.example",
                      "From: a@1.example, a@2.example, a@3.example, a@4.example, a@5.example, a@x.example\r\n\r\nx\r\n")
                 .starts_with("550 5.7.26 <1.example>: From address rejected: DMARC: too many addresses in From:"));
  // A message that passes for one author does not pass for another author that was not looked at.
  BOOST_TEST(rig.send("a@x.example", "From: a@x.example, ceo\r\n\r\nx\r\n").starts_with("250"));
  BOOST_TEST(rig.content().contains("dmarc=permerror reason=\"an address in From: without a domain\""));
}

BOOST_AUTO_TEST_CASE(silent_servers_hold_up_only_who_asks_for_them) {
  Open rig("spf_verify = yes\nsmtpd_sender_restrictions = defer_spf_temperror\n");
  async::Event gate(rig.loop);
  rig.names.gate = &gate;
  BOOST_TEST(rig.rcpt("a@x.example") == "");  // waits
  for (int i = 0; i < 30; ++i) {
    rig.clock.advance(seconds(1));
    rig.loop.run_once();
  }
  BOOST_TEST(rig.settle().starts_with("451 4.7.24 "));
  BOOST_TEST(rig.server.authentications.free() == Server::kQuestions);
  // A session that ends while its questions are under way gives everything back.
  rig.say("RSET\r\n");
  BOOST_TEST(rig.rcpt("a@x.example") == "");
  BOOST_TEST(rig.server.authentications.free() < Server::kQuestions);
  rig.hang_up();
  for (int i = 0; i < 30; ++i) {
    rig.clock.advance(seconds(1));
    rig.loop.run_once();
  }
  BOOST_TEST(rig.server.authentications.free() == Server::kQuestions);
}

BOOST_AUTO_TEST_SUITE_END()
