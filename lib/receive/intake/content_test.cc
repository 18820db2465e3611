#include "lib/receive/intake/content.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/random.h"
#include "lib/mail/expanded.h"
#include "lib/receive/intake/fakes.h"
#include "lib/receive/intake/intake.h"

using namespace pen;
using namespace pen::intake;

BOOST_AUTO_TEST_SUITE(content)

namespace {

struct Built {
  std::string content;
  mail::BodyFacts facts;
  ContentProblem problem;
  mail::HeaderSummary summary;
};

Built build(std::string_view input, std::size_t piece = SIZE_MAX, ContentOptions options = {}) {
  ContentBuilder content(std::move(options));
  content.add_field("Received: from x\r\n\tby y");
  mail::BdatScanner scanner;
  for (std::size_t at = 0; at < input.size(); at += std::min(piece, input.size()))
    scanner.feed(input.substr(at, piece), content);
  scanner.finish(content);
  auto facts = content.finish();
  return {content.pending(), std::move(facts), content.problem(), content.summary()};
}

const std::string kTrace = "Received: from x\r\n\tby y\r\n";

}  // namespace

BOOST_AUTO_TEST_CASE(content_stays_as_it_came_behind_the_trace_field_whatever_the_split) {
  const std::string inputs[] = {
      "Subject: a\r\nTo: b\r\n\r\nbody\r\n.\r\n",
      "Subject: a\r\n folded\r\n",
      "no header at all\r\nsecond: line\r\n",
      "From somebody Mon Jan 1\r\nSubject: x\r\n\r\n\xe9\r\n",
      "\r\nbody only\r\n",
      "X-Long: " + std::string(5000, 'y') + "\r\n\r\nb\r\n",
      std::string(3000, 'z') + "\r\n",
      "",
  };
  for (const auto& input : inputs)
    for (std::size_t piece = 1; piece < 40; piece += 3) {
      const auto b = build(input, piece);
      const bool unended = input.starts_with("no") || input.starts_with("zz");  // text where a field should be
      BOOST_TEST_REQUIRE(b.content == kTrace + (unended ? "\r\n" : "") + input);
      BOOST_TEST_REQUIRE(b.facts.size == b.content.size());
      BOOST_TEST_REQUIRE((b.problem == ContentProblem::none));
      BOOST_TEST_REQUIRE((b.facts == build(input).facts));
    }
}

BOOST_AUTO_TEST_CASE(separators_of_a_mailbox_become_fields_and_authors_stay_fields) {
  const std::string rest = "From: a@b\r\n\r\nFrom here\r\n", shown = "X-Mailbox-Line: ";
  struct Row {
    std::string top, stored;
    bool from;
  };
  const Row rows[] = {
      {"From a@b Sat\r\n", shown + "From a@b Sat\r\n", false},
      {">From a@b\r\n>>From c:\r\n", shown + ">From a@b\r\n" + shown + ">>From c:\r\n", false},
      {"From \r\n", shown + "From \r\n", false},
      {"From : a@b\r\n", "From : a@b\r\n", true},
      {"From \t : a@b\r\n", "From \t : a@b\r\n", true},
      {"From\t: a@b\r\n", "From\t: a@b\r\n", true},
      {">From : a@b\r\n", ">From : a@b\r\n", false},
      {"From" + std::string(2000, ' ') + ": a\r\n", shown + "From" + std::string(2000, ' ') + ": a\r\n", false},
      {"Fro: a\r\nX: y\r\n", "Fro: a\r\nX: y\r\n", false},
  };
  for (const auto& row : rows)
    for (const std::size_t piece : {std::size_t{1}, std::size_t{4}, std::size_t{7}, SIZE_MAX})
      for (const bool seven_bit : {false, true}) {
        const ContentOptions options{.seven_bit = seven_bit, .mailbox_lines = true};
        BOOST_TEST(build(row.top + rest, piece, options).content == kTrace + row.stored + rest);
        const auto alone = build(row.top + "\r\nFrom x\r\n", piece, options);
        BOOST_TEST(alone.content == kTrace + row.stored + "\r\nFrom x\r\n");
        BOOST_TEST(alone.summary.from == row.from, row.top);
      }
  for (const std::string& text : {"From a", "From ", "", "F", "\r\nFrom a\r\n", "a\r\nFrom a\r\n"}) {
    const auto b = build(text, 1, {.mailbox_lines = true});
    const std::string end = text.empty() || text.ends_with('\n') ? "" : "\r\n";
    const std::string before = text.starts_with("From ") ? shown : text.empty() || text[0] == '\r' ? "" : "\r\n";
    BOOST_TEST(b.content == kTrace + before + text + end, text);
  }
}

// non_empty_end_of_header_action
BOOST_AUTO_TEST_CASE(a_header_that_ends_with_text_is_ended_told_of_or_refused) {
  const std::string field = "Subject: a\r\n", text = "no field\r\nX: y\r\n";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{5}, SIZE_MAX}) {
    BOOST_TEST(build(field + text, piece).content == kTrace + field + "\r\n" + text);
    const auto told = build(field + text, piece, {.unended = UnendedHeader::tell});
    BOOST_TEST(told.content ==
               kTrace + field + "MIME-Error: message header was not terminated by empty line\r\n\r\n" + text);
    BOOST_TEST((told.problem == ContentProblem::none));
    BOOST_TEST((build(field + text, piece, {.unended = UnendedHeader::refuse}).problem == ContentProblem::refused));
  }
  for (const auto action : {UnendedHeader::fix, UnendedHeader::tell, UnendedHeader::refuse}) {
    const auto good = build(field + "\r\n" + text, SIZE_MAX, {.unended = action});
    BOOST_TEST(good.content == kTrace + field + "\r\n" + text);
    BOOST_TEST((good.problem == ContentProblem::none));
    BOOST_TEST(build(field, SIZE_MAX, {.unended = action}).content == kTrace + field);  // nothing but a header
  }
  ContentBuilder content({.unended = UnendedHeader::refuse, .keep_refused = true});
  mail::BdatScanner scanner;
  scanner.feed(field + text, content);
  scanner.finish(content);
  (void)content.finish();
  BOOST_TEST((content.problem() == ContentProblem::none));  // it is stored, for its sender
  BOOST_TEST(content.refusal() == "5.6.0 message header was terminated with non-empty line");
  BOOST_TEST(content.refused_text() == "no field");
}

// requiretls_esmtp_header
BOOST_AUTO_TEST_CASE(require_tls_esmtp_is_added_once_and_found) {
  const std::string field = "Require-TLS-ESMTP: yes\r\n", body = "\r\nb\r\n";
  BOOST_TEST(build("Subject: a\r\n" + body, SIZE_MAX, {.require_tls = true}).content ==
             kTrace + "Subject: a\r\n" + field + body);
  BOOST_TEST(build(field + body, SIZE_MAX, {.require_tls = true}).content == kTrace + field + body);
  BOOST_TEST(build("require-tls-esmtp:  YES\r\n" + body).summary.require_tls_esmtp);
  BOOST_TEST(!build("Require-TLS-ESMTP: no\r\n" + body).summary.require_tls_esmtp);
}

BOOST_AUTO_TEST_CASE(the_end_of_the_header_is_found) {
  BOOST_TEST(build("Subject: a\r\n\r\nbody\r\n").facts.header_size == kTrace.size() + 14);
  BOOST_TEST(build("body text\r\n").facts.header_size == kTrace.size() + 2);
  BOOST_TEST(build("Subject: a\r\n").facts.header_size == kTrace.size() + 12);
  BOOST_TEST(build("From x\r\nSubject: a\r\n\r\nb\r\n").facts.header_size == kTrace.size() + 22);
  const auto eight = build("Subject: a\r\n\r\n\xe9\r\n").facts;
  BOOST_TEST(eight.eight_bit_body);
  BOOST_TEST(!eight.eight_bit_header);
  const auto header = build("Subject: \xe9\r\n\r\nx\r\n").facts;
  BOOST_TEST(header.eight_bit_header);
  BOOST_TEST(!header.eight_bit_body);
}

BOOST_AUTO_TEST_CASE(fields_are_counted_and_beyond_the_limit_nothing_is_kept) {
  const auto header = [](int fields) {
    std::string out;
    for (int i = 0; i < fields; ++i) out += i % 2 ? "X: y\r\n" : "X: y\r\n z\r\n";
    return out;
  };
  for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}}) {
    const auto problem = [&](const std::string& text) { return build(text, piece, {.field_limit = 20}).problem; };
    BOOST_TEST((problem(header(20) + "\r\nX: body\r\n") == ContentProblem::none));
    BOOST_TEST((problem(header(20) + header(1) + "\r\n") == ContentProblem::too_many_fields));
    BOOST_TEST((problem(header(21)) == ContentProblem::too_many_fields));
    BOOST_TEST((build(header(50) + "\r\n", piece).problem == ContentProblem::none));
    BOOST_TEST(build(header(5000) + "\r\n", piece, {.field_limit = 20}).content.size() < 500U);
    // One that is left out counts as well, and so does one that tables and mapping look at.
    const std::vector<std::string> dropped = {"x"};
    for (const bool looked_at : {false, true}) {
      ContentOptions options{.field_limit = 20, .drop_fields = dropped};
      if (looked_at) options.map_address = [](std::string_view address, bool) { return std::string(address); };
      BOOST_TEST((build(header(20) + "\r\n", piece, options).problem == ContentProblem::none));
      BOOST_TEST((build(header(21) + "\r\n", piece, options).problem == ContentProblem::too_many_fields));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_loop_shows_in_the_received_fields_of_the_header_only) {
  std::string input;
  for (int i = 0; i < 48; ++i) input += "Received: hop\r\n";
  BOOST_TEST((build(input + "\r\nReceived: not\r\n").problem == ContentProblem::none));
  BOOST_TEST((build(input + "Received: hop\r\n\r\n").problem == ContentProblem::too_many_hops));
  BOOST_TEST((build(input + "Received: hop\r\n\r\n", 1, {.hop_limit = 100}).problem == ContentProblem::none));
}

BOOST_AUTO_TEST_CASE(beyond_the_size_limit_nothing_is_kept) {
  const std::string head = "S: x\r\n\r\n";
  BOOST_TEST((build(head + std::string(90, 'x') + "\r\n", 7, {.size_limit = 100}).problem == ContentProblem::none));
  const auto b = build(head + std::string(91, 'x') + "\r\n" + std::string(100000, 'y'), 7, {.size_limit = 100});
  BOOST_TEST((b.problem == ContentProblem::too_large));
  BOOST_TEST(b.content.size() < 200u);
}

BOOST_AUTO_TEST_CASE(only_missing_fields_are_added_at_the_end_of_the_header) {
  const ContentOptions options{
      .date = "Date: now", .message_id = "Message-Id: <m@h>", .from = [] { return std::string("From: s@x"); }};
  auto b = build("Subject: a\r\nFROM: me\r\n\r\nb\r\n", 3, options);
  BOOST_TEST(b.content == kTrace + "Subject: a\r\nFROM: me\r\nMessage-Id: <m@h>\r\nDate: now\r\n\r\nb\r\n");
  BOOST_TEST(b.summary.message_id_value == "<m@h>");
  b = build("Message-ID: <own@y>\r\nDate: d\r\nFrom: f\r\n\r\n", 3, options);
  BOOST_TEST(b.content == kTrace + "Message-ID: <own@y>\r\nDate: d\r\nFrom: f\r\n\r\n");
  BOOST_TEST(b.summary.message_id_value == "<own@y>");
  b = build("just text\r\n", 3, options);
  BOOST_TEST(b.content == kTrace + "Message-Id: <m@h>\r\nDate: now\r\nFrom: s@x\r\n\r\njust text\r\n");
}

BOOST_AUTO_TEST_CASE(undisclosed_recipients_header_stands_for_missing_recipient_fields) {
  const ContentOptions options{.undisclosed = "To: undisclosed-recipients:;"};
  BOOST_TEST(build("Subject: a\r\n\r\nTo: b\r\n", 3, options).content ==
             kTrace + "Subject: a\r\nTo: undisclosed-recipients:;\r\n\r\nTo: b\r\n");
  for (const std::string name : {"To", "CC", "Resent-To", "Resent-cc"}) {
    const std::string text = name + ": x@y\r\n\r\nb\r\n";
    BOOST_TEST(build(text, 3, options).content == kTrace + text);
  }
  BOOST_TEST(build("Bcc: x@y\r\n\r\n", 3, options).content ==
             kTrace + "Bcc: x@y\r\nTo: undisclosed-recipients:;\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(force_mime_input_conversion_makes_parts_7_bit_that_say_they_are_8_bit) {
  const ContentOptions options{.seven_bit = true};
  for (const std::size_t piece : {1U, 2U, 5U, 100000U}) {
    const auto b = build(
        "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
        "Content-Transfer-Encoding: 8bit\r\n\r\n"
        "caf\xc3\xa9\r\n.\r\n",
        piece, options);
    BOOST_TEST(b.content == kTrace +
                                "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
                                "Content-Transfer-Encoding: quoted-printable\r\n\r\n"
                                "caf=C3=A9\r\n.\r\n");
    BOOST_TEST(!b.facts.eight_bit_body);
    BOOST_TEST(b.facts.size == b.content.size());
    BOOST_TEST(b.facts.header_size == b.content.find("\r\n\r\n") + 4);
  }
  for (const std::string text : {"A: 1\r\n\r\n\xe9\r\n", "Content-Transfer-Encoding: 7bit\r\n\r\n\xe9\r\n", "",
                                 "Subject: a\r\n folded\r\n", "A: 1\r\n\r\nno end",
                                 "Content-Type: multipart/alternative; boundary=b\r\n\r\n"
                                 "--b\r\nContent-Type: text/plain\r\n\r\na=b \r\n"
                                 "--b\r\nContent-Type: text/html\r\n\r\n<p>\r\n--b--\r\n",
                                 "Content-Type: multipart/encrypted; boundary=b\r\n\r\n"
                                 "--b\r\nContent-Type: application/pgp-encrypted\r\n\r\nVersion: 1\r\n"
                                 "--b\r\nContent-Type: application/octet-stream\r\n\r\n=x\r\n--b--\r\n"})
    for (const std::size_t piece : {1U, 3U, 100U})
      BOOST_TEST(build(text, piece, options).content == build(text, piece).content);
}

BOOST_AUTO_TEST_CASE(what_was_made_7_bit_is_declared_as_what_it_is) {
  using enum mail::BodyType;
  mail::BodyFacts plain, eight, eight_header, nul, longest, longer;
  eight.eight_bit_body = eight_header.eight_bit_header = nul.nul = true;
  longest.longest_line = 998;
  longer.longest_line = 999;
  BOOST_TEST((true_body_type(binary_mime, plain) == seven_bit));
  BOOST_TEST((true_body_type(binary_mime, eight) == eight_bit_mime));
  BOOST_TEST((true_body_type(binary_mime, longest) == seven_bit));
  // A part without a label may still be binary.
  BOOST_TEST((true_body_type(binary_mime, longer) == binary_mime));
  BOOST_TEST((true_body_type(binary_mime, nul) == binary_mime));
  BOOST_TEST((true_body_type(eight_bit_mime, longer) == seven_bit));
  BOOST_TEST((true_body_type(eight_bit_mime, eight) == eight_bit_mime));
  BOOST_TEST((true_body_type(eight_bit_mime, eight_header) == eight_bit_mime));
  BOOST_TEST((true_body_type(seven_bit, eight) == seven_bit));
  BOOST_TEST((true_body_type(unspecified, plain) == unspecified));
}

BOOST_AUTO_TEST_CASE(a_header_in_utf_8_is_told_from_one_in_another_charset) {
  const auto utf8 = [](std::string_view text) {
    ContentBuilder content({.find_utf8 = true});
    content.add_field("Received: x");
    mail::BdatScanner scanner;
    scanner.feed(text, content);
    scanner.finish(content);
    content.finish();
    return content.utf8_header();
  };
  BOOST_TEST(utf8("Subject: caf\xc3\xa9\r\n\r\nx\r\n"));
  BOOST_TEST(utf8("Subject: caf\xc3\xa9\r\n"));
  BOOST_TEST(!utf8("Subject: caf\xe9\r\n\r\nx\r\n"));
  BOOST_TEST(!utf8("Subject: a\r\n\r\ncaf\xc3\xa9\r\n"));
}

BOOST_AUTO_TEST_CASE(a_message_that_is_sent_on_is_completed_with_fields_of_resending) {
  const ContentOptions options{
      .date = "Date: now", .message_id = "Message-Id: <m@h>", .from = [] { return std::string("From: s@x"); }};
  auto b = build("Resent-To: a\r\nSubject: a\r\nMessage-ID: <own@y>\r\n\r\nb\r\n", 3, options);
  BOOST_TEST(b.content == kTrace +
                              "Resent-To: a\r\nSubject: a\r\nMessage-ID: <own@y>\r\n"
                              "Resent-Message-Id: <m@h>\r\nResent-Date: now\r\nResent-From: s@x\r\n"
                              "\r\nb\r\n");
  BOOST_TEST(b.summary.message_id_value == "<own@y>");
  const std::string whole = "RESENT-DATE: d\r\nresent-from: f\r\nResent-Message-ID: <r@y>\r\n\r\nb\r\n";
  b = build(whole, 3, options);
  BOOST_TEST(b.content == kTrace + whole);  // we do not add what the first sender omitted
}

BOOST_AUTO_TEST_CASE(a_field_that_is_taken_leaves_its_first_value_and_nothing_in_the_content) {
  const auto take = [](std::string_view input, std::size_t piece, bool inspected) {
    ContentOptions options;
    options.take_fields = {"X-Priority", "X-Tenant"};
    if (inspected) options.map_address = [](std::string_view a, bool) -> Result<std::string> { return std::string(a); };
    ContentBuilder content(std::move(options));
    mail::BdatScanner scanner({});
    for (; !input.empty(); input.remove_prefix(std::min(piece, input.size())))
      scanner.feed(input.substr(0, piece), content);
    scanner.finish(content);
    content.finish();
    return std::pair(content.taken_field("x-tenant"), content.pending());
  };
  for (const bool inspected : {false, true}) {
    for (const std::size_t piece : {1U, 7U, 1000U}) {
      BOOST_TEST_CONTEXT("inspected: " << inspected << ", pieces of " << piece) {
        auto [value, kept] = take(
            "To: a\r\nx-tenant:  acme\r\n\tand more \r\nSubject: b\r\n c\r\nX-Tenant: eve\r\n mallory\r\nX-Tenants: "
            "d\r\n\r\nX-Tenant: body\r\n",
            piece, inspected);
        BOOST_TEST(value == "acme\tand more");
        BOOST_TEST(kept == "To: a\r\nSubject: b\r\n c\r\nX-Tenants: d\r\n\r\nX-Tenant: body\r\n");
        std::tie(value, kept) = take("To: a\r\n\r\n", piece, inspected);
        BOOST_TEST(value == "");
        std::tie(value, kept) = take("X-Tenant: " + std::string(5000, 'x') + "\r\n\r\n", piece, inspected);
        BOOST_TEST(value.size() < ContentBuilder::kMaxTaken);
        BOOST_TEST(kept == "\r\n");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(fields_that_are_dropped_were_there_all_the_same) {
  const std::vector<std::string> drop = {"received", "date", "from", "message-id", "bcc"};
  ContentOptions options;
  options.drop_fields = drop;
  options.hop_limit = 3;
  options.date = "Date: now";
  options.from = [] { return std::string("From: us"); };
  options.message_id = "Message-ID: <new@x>";
  const auto both_ways = [&](const std::string& input, const std::string& kept) {
    for (const bool inspected : {false, true}) {
      if (inspected)
        options.map_address = [](std::string_view a, bool) -> Result<std::string> { return std::string(a); };
      else
        options.map_address = {};
      const auto b = build(input, 5, options);
      BOOST_TEST(b.content == kTrace + kept, "inspected: " << inspected << "\n" << b.content);
      BOOST_TEST((b.problem == (input.find("Received: b") == std::string::npos ? ContentProblem::none
                                                                               : ContentProblem::too_many_hops)));
      BOOST_TEST(b.summary.message_id_value == "<a@b>");
    }
  };
  const std::string seen = "Received: a\r\n by c\r\nDate: then\r\nFrom: x\r\nMessage-ID:\r\n <a@b>\r\nBcc: y\r\n";
  both_ways(seen + "To: z\r\n\r\nDate: body\r\n", "To: z\r\n\r\nDate: body\r\n");
  both_ways(seen + "Received: b\r\n\r\n", "\r\n");
}

BOOST_AUTO_TEST_CASE(envelopes_expand_once_and_keep_what_was_given) {
  fakes::SetResolve resolve;
  resolve.aliases["list@example.org"] = {"a@x", "b@y"};
  resolve.aliases["one@example.org"] = {"c@z"};
  resolve.aliases["huge@example.org"] = std::vector<std::string>(6, "q@q");
  mail::Envelope e;
  e.sender = "me";
  e.recipients = {{"list", "", "rfc822;list", mail::notify::kSuccess},
                  {"one", "", "", mail::notify::kSuccess},
                  {"user", "", "", 0},
                  {"user@example.org", "", "", 0},
                  {"User@EXAMPLE.org", "", "", 0}};
  const Copies archive{.always = "archive@example.org", .by_sender = {}, .by_recipient = {}};
  BOOST_TEST_REQUIRE((expand_envelope(resolve, {.copies = &archive}, e).outcome == Outcome::ok));
  const std::vector<mail::Recipient> expected = {
      {"list@example.org", "", "rfc822;list", mail::notify::kSuccess | mail::notify::kExpanded},
      {"a@x", "list", "rfc822;list", mail::notify::kNever},
      {"b@y", "list", "rfc822;list", mail::notify::kNever},
      {"c@z", "one", "rfc822;one@example.org", mail::notify::kSuccess},
      {"user@example.org", "user", "", 0},  // once, as a whole address or not
      {"archive@example.org", "", "", mail::notify::kNever | mail::notify::kCopy},
  };
  BOOST_TEST((e.recipients == expected));
  BOOST_TEST(e.sender == "me@example.org");
  e.sender = "kept%as@given";
  BOOST_TEST_REQUIRE((expand_envelope(resolve, {.keep_sender = true}, e).outcome == Outcome::ok));
  BOOST_TEST(e.sender == "kept%as@given");
  e.recipients = {{"huge", "", "", 0}};
  BOOST_TEST((expand_envelope(resolve, {}, e).outcome == Outcome::expansion_limit));
  resolve.broken = true;
  e.recipients = {{"user", "", "", 0}};
  BOOST_TEST((expand_envelope(resolve, {}, e).outcome == Outcome::lookup_failed));
}

BOOST_AUTO_TEST_CASE(an_original_recipient_from_an_earlier_expansion_is_kept) {
  fakes::SetResolve resolve;
  resolve.aliases["one@example.org"] = {"c@z"};
  mail::Envelope e;
  e.recipients = {{"user@x", "team@example.org", "", 0}, {"one", "team@example.org", "", 0}};
  BOOST_TEST_REQUIRE((expand_envelope(resolve, {}, e).outcome == Outcome::ok));
  const std::vector<mail::Recipient> expected = {{"user@x", "team@example.org", "", 0},
                                                 {"c@z", "team@example.org", "", 0}};
  BOOST_TEST((e.recipients == expected));
  BOOST_TEST_REQUIRE((expand_envelope(resolve, {.original_recipient = false}, e).outcome == Outcome::ok));
  BOOST_TEST(e.recipients.at(0).original.empty());
}

BOOST_AUTO_TEST_CASE(copies_go_out_before_aliases_and_are_not_copied_again) {
  fakes::SetResolve resolve;
  resolve.aliases["archive@example.org"] = {"disk@z"};
  Copies copies;
  copies.always = "archive";
  copies.by_sender = *map::MapList::open("inline:{ me@example.org = sent@example.org }");
  copies.by_recipient =
      *map::MapList::open("inline:{ user = in@example.org, @x = in@example.org, in@example.org = loop@example.org }");
  mail::Envelope e;
  e.sender = "me";
  e.recipients = {{"user", "", "rfc822;user", 0}, {"b@x", "", "", 0}, {"c@y", "", "", 0}};
  BOOST_TEST_REQUIRE((expand_envelope(resolve, {.copies = &copies, .more = {"seen@w"}}, e).outcome == Outcome::ok));
  constexpr std::uint8_t kNever = mail::notify::kNever | mail::notify::kCopy;
  const std::vector<mail::Recipient> expected = {
      {"user@example.org", "user", "rfc822;user", 0},
      {"b@x", "", "", 0},
      {"c@y", "", "", 0},
      {"in@example.org", "", "", kNever},  // only once, whatever the reason for the copy
      {"sent@example.org", "", "", kNever},
      {"disk@z", "archive@example.org", "", kNever},  // as in Postfix: a copy has a whole address
      {"seen@w", "", "", kNever}};
  BOOST_TEST((e.recipients == expected));
  // With enable_original_recipient = no.
  e.recipients = {{"archive", "", "", 0}};
  BOOST_TEST_REQUIRE((expand_envelope(resolve, {.original_recipient = false}, e).outcome == Outcome::ok));
  BOOST_TEST((e.recipients == std::vector<mail::Recipient>{{"disk@z", "", "", 0}}));
  copies.by_sender = *map::MapList::open("fail:no");
  e.recipients = {{"user", "", "", 0}};
  BOOST_TEST((expand_envelope(resolve, {.copies = &copies}, e).outcome == Outcome::lookup_failed));
}

BOOST_AUTO_TEST_SUITE_END()
