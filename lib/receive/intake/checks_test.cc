#include "lib/receive/intake/checks.h"

#include <boost/test/unit_test.hpp>

#include "lib/receive/intake/content.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::intake;
using namespace std::string_literals;

namespace {

struct Rig {
  CheckTables::Specs specs;
  std::vector<std::string> notes, warnings;
  std::unique_ptr<Checks> checks;
  ContentProblem problem = ContentProblem::none;
  ContentOptions options;
  testing::ScratchDir dir;

  std::string table(const std::string& name, std::string_view rules) { return "regexp:" + dir.write(name, rules); }
  void open(Checks::Side side = Checks::Side::receiving) {
    auto tables = CheckTables::open(specs);
    BOOST_REQUIRE_MESSAGE(tables.has_value(), (tables ? "" : tables.error().message()));
    BOOST_REQUIRE(*tables != nullptr);
    checks = std::make_unique<Checks>(
        *tables, side,
        Checks::Reporter{.note =
                             [this](const Checks::Note& n) {
                               notes.push_back(std::string(n.action) + ": " + std::string(n.where) + " " +
                                               std::string(n.content) + ": " + std::string(n.text));
                             },
                         .warn = [this](const std::string& w) { warnings.push_back(w); }});
  }
  /// The stored form of a message with the trace field "Received: us".
  std::string stored(std::string_view text, std::size_t step = 100000) {
    notes.clear();
    warnings.clear();
    open();
    options.checks = checks.get();
    ContentBuilder builder(options);
    builder.add_trace("Received: us\r\n\there");
    mail::BdatScanner scanner;
    for (std::size_t at = 0; at < text.size(); at += step) scanner.feed(text.substr(at, step), builder);
    scanner.finish(builder);
    facts = builder.finish();
    problem = builder.problem();
    summary = builder.summary();
    return builder.pending();
  }
  mail::BodyFacts facts;
  mail::HeaderSummary summary;
};

const std::string kTrace = "Received: us\r\n\there\r\n";

}  // namespace

BOOST_FIXTURE_TEST_SUITE(content_checks, Rig)

BOOST_AUTO_TEST_CASE(lines_are_dropped_replaced_and_put_before_others) {
  specs.header = table("h",
                       "/^X-Gone:/ IGNORE\n/^X-Strip:/ STRIP for a reason\n/^Subject: old/ REPLACE "
                       "Subject: new\n/^To:/ PREPEND X-Before: yes\n/^X-Info/ INFO seen\n/^X-Warn/ "
                       "WARN\n/^X-Ok/ DUNNO\n/./ WARN never\n");
  specs.mime = specs.nested = "";
  specs.body = table("b", "/^secret$/ IGNORE\n/^old (.*)/ REPLACE new $1\n/^here/ PREPEND before\n");
  const std::string text =
      "X-Gone: a\r\n b\r\nX-Strip: c\r\nSubject: old\r\n folded\r\nTo: x@y\r\nX-Ok: "
      "d\r\n\r\nsecret\r\n"
      "old line\r\nhere\r\n.dot\r\n\r\nend\r\n";
  const std::string expected =
      "Subject: new\r\nX-Before: yes\r\nTo: x@y\r\nX-Ok: d\r\n\r\nnew "
      "line\r\nbefore\r\nhere\r\n.dot\r\n\r\nend\r\n";
  for (const std::size_t step : {1U, 2U, 7U, 1000U}) {
    BOOST_TEST(stored(text, step) == kTrace + expected);
    BOOST_TEST(facts.size == kTrace.size() + expected.size());
    BOOST_TEST(facts.header_size == kTrace.size() + expected.find("\r\n\r\n") + 4);
  }
  BOOST_TEST(notes ==
             (std::vector<std::string>{
                 "warning: header Received: us??here: never", "strip: header X-Strip: c: for a reason",
                 "replace: header Subject: old? folded: Subject: new", "prepend: header To: x@y: X-Before: yes",
                 "replace: body old line: new line", "prepend: body here: before"}));
  BOOST_TEST(stored("X-Info: 1\r\nX-Warn: 2\r\n\r\n") == kTrace + "X-Info: 1\r\nX-Warn: 2\r\n\r\n");
  BOOST_TEST(notes[1] == "info: header X-Info: 1: seen");
  BOOST_TEST(notes[2] == "warning: header X-Warn: 2: ");
}

BOOST_AUTO_TEST_CASE(our_own_trace_field_can_be_left_out_and_hops_still_count) {
  specs.header = table("h", "/^Received:/ IGNORE\n");
  options.hop_limit = 4;
  BOOST_TEST(stored("Received: a\r\nReceived: b\r\nTo: x\r\n\r\n") == "To: x\r\n\r\n");
  BOOST_TEST((problem == ContentProblem::none));
  stored("Received: a\r\nReceived: b\r\nReceived: c\r\nTo: x\r\n\r\n");
  BOOST_TEST((problem == ContentProblem::too_many_hops));
}

BOOST_AUTO_TEST_CASE(a_replaced_field_decides_what_is_missing) {
  specs.header = table("h", "/^Message-ID:/ REPLACE X-Old-Id: x\n/^Date:/ IGNORE\n/^X-D:/ REPLACE Bcc: q\n");
  options.message_id = "Message-ID: <new@x>";
  options.date = "Date: now";
  const std::vector<std::string> drop = {"bcc"};
  options.drop_fields = drop;
  BOOST_TEST(stored("Message-ID: <a@b>\r\nDate: then\r\nX-D: 1\r\nBcc: z\r\n\r\n") ==
             kTrace + "X-Old-Id: x\r\nMessage-ID: <new@x>\r\nDate: now\r\n\r\n");
  BOOST_TEST(summary.message_id_value == "<new@x>");
}

BOOST_AUTO_TEST_CASE(each_kind_of_header_has_its_table) {
  specs.header = table("h", "/^(.*)/ WARN header\n");
  specs.mime = table("m", "/^(.*)/ WARN mime\n");
  specs.nested = table("n", "/^(.*)/ WARN nested\n");
  specs.body = table("b", "/^(.*)/ WARN body\n");
  const std::string text =
      "Subject: s\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nX-Part: 1\r\n"
      "Content-Type: message/rfc822\r\n\r\nTo: in\r\nMIME-Version: 1.0\r\n\r\ntext\r\n--b--\r\n";
  BOOST_TEST(stored(text) == kTrace + text);
  BOOST_TEST(notes == (std::vector<std::string>{
                          "warning: header Received: us??here: header", "warning: header Subject: s: header",
                          "warning: header Content-Type: multipart/mixed; boundary=b: mime", "warning: body --b: body",
                          "warning: header X-Part: 1: mime", "warning: header Content-Type: message/rfc822: mime",
                          "warning: header To: in: nested", "warning: header MIME-Version: 1.0: mime",
                          "warning: body text: body", "warning: body --b--: body"}));
  specs.walk.mime = false;
  stored(text);
  BOOST_TEST(notes.size() == 10U);
  BOOST_TEST(notes[6] == "warning: body To: in: body");
}

BOOST_AUTO_TEST_CASE(blanks_before_a_colon_hide_no_field_and_stay) {
  specs.header = table("h", "/^Subject:.*win money/ WARN\n/^X-Gone:/ IGNORE\n");
  specs.mime = table("m", "/^X-Part:/ WARN\n/^Content-Type: multipart/ WARN\n");
  specs.nested = table("n", "/^X-Inner:/ WARN\n");
  const std::string text =
      "Content-Type \t: multipart/mixed; boundary=b\r\nSubject : win money\r\nX-Gone\t: 1\r\n\r\n"
      "--b\r\nX-Part : 1\r\nContent-Type : message/rfc822\r\n\r\nX-Inner : 1\r\n\r\n--b--\r\n";
  std::string expected = text;
  expected.erase(expected.find("X-Gone"), 12);
  BOOST_TEST(stored(text) == kTrace + expected);
  BOOST_TEST(notes == (std::vector<std::string>{"warning: header Content-Type ?: multipart/mixed; boundary=b: ",
                                                "warning: header Subject : win money: ", "warning: header X-Part : 1: ",
                                                "warning: header X-Inner : 1: "}));
  specs.prefix = "smtp_";
  open(Checks::Side::delivering);
  std::string gone = "X-Gone : 1", before;
  BOOST_TEST(!checks->field(mail::MimeWalker::Header::message, gone, before));
}

BOOST_AUTO_TEST_CASE(a_refusal_has_a_status_and_ends_all_looking) {
  specs.header = table("h",
                       "/^A:/ REJECT\n/^B:/ REJECT no thanks\n/^C:/ REJECT 5.7.9 policy\n/^D:/ REJECT "
                       "4.7.1 later\n/^E:/ REJECT 2.1.1 odd\n/^F:/ REJECT 5.7.2\n/^Z:/ WARN\n");
  const auto refusal = [&](std::string_view name) {
    const std::string kept = stored(std::string(name) + ": x\r\nZ: 1\r\n\r\nbody\r\n");
    BOOST_TEST((problem == ContentProblem::refused));
    BOOST_TEST(kept == kTrace);
    BOOST_TEST(notes.size() == 1U);
    return checks->refusal();
  };
  BOOST_TEST(refusal("A") == "5.7.1 message content rejected");
  BOOST_TEST(notes.front() == "reject: header A: x: 5.7.1 message content rejected");
  BOOST_TEST(refusal("B") == "5.7.1 no thanks");
  BOOST_TEST(refusal("C") == "5.7.9 policy");
  BOOST_TEST(refusal("D") == "4.7.1 later");
  BOOST_TEST(refusal("F") == "5.7.2 message content rejected");
  BOOST_TEST(refusal("E") == "4.1.1 odd");
  BOOST_TEST(warnings.size() == 1U);
  options.keep_refused = true;
  BOOST_TEST(stored("B: x\r\n\r\nbody\r\n") == kTrace + "B: x\r\n\r\nbody\r\n");
  BOOST_TEST((problem == ContentProblem::none));
  stored("D: x\r\n\r\nbody\r\n");
  BOOST_TEST((problem == ContentProblem::refused));
}

BOOST_AUTO_TEST_CASE(effects_gather_until_an_action_ends_it) {
  specs.header = table("h",
                       "/^A:/ HOLD\n/^B:/ FILTER f:[h]:1\n/^C:/ FILTER g:\n/^D:/ BCC d@x\n/^E:/ BCC e@x\n"
                       "/^F:/ REDIRECT r@x\n/^G:/ DISCARD\n/^H:/ PASS\n/^I:/ BCC nobody\n/^J:/ FILTER "
                       "none\n/^K:/ REDIRECT nobody\n/^L:/ EXPLODE\n/^M:/ PREPEND\n/^N:/ REPLACE no field\n");
  stored("A: 1\r\nA: 2\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\nD: 2\r\nF: 1\r\nG: 1\r\n\r\n");
  Effects e = checks->take_effects();
  BOOST_TEST(e.hold);
  BOOST_TEST(e.filter == "g:");
  BOOST_TEST(e.bcc == (std::vector<std::string>{"d@x", "e@x"}));
  BOOST_TEST(e.redirect == "r@x");
  BOOST_TEST(!e.discard);
  BOOST_TEST(notes.size() == 6U);
  stored("G: 1\r\nA: 1\r\n\r\n");
  BOOST_TEST((problem == ContentProblem::discarded));
  BOOST_TEST(!checks->take_effects().hold);
  stored("H: 1\r\nG: 1\r\n\r\n");
  BOOST_TEST((problem == ContentProblem::none));
  const std::string odd = "I: 1\r\nJ: 1\r\nK: 1\r\nL: 1\r\nM: 1\r\nN: 1\r\n\r\n";
  BOOST_TEST(stored(odd) == kTrace + odd);
  BOOST_TEST(warnings.size() == 6U);
  BOOST_TEST(checks->take_effects().none());
}

BOOST_AUTO_TEST_CASE(delivery_has_only_the_actions_that_change_a_line) {
  specs.prefix = "smtp_";
  specs.header = table("h", "/^A:/ REJECT\n/^B:/ STRIP\n");
  open(Checks::Side::delivering);
  std::string text = "A: 1", before;
  BOOST_TEST(checks->field(mail::MimeWalker::Header::message, text, before));
  BOOST_TEST(checks->refusal().empty());
  BOOST_TEST(warnings == std::vector<std::string>{"smtp_header_checks: no action that can be done here: REJECT"});
  text = "B: 1";
  BOOST_TEST(!checks->field(mail::MimeWalker::Header::message, text, before));
}

BOOST_AUTO_TEST_CASE(a_table_that_cannot_be_read_never_lets_a_message_through) {
  specs.header = "regexp:" + dir.file("missing");
  stored("A: 1\r\n\r\n");
  BOOST_TEST((problem == ContentProblem::lookup_failed));
  specs.header = "tcp:localhost:1";
  BOOST_TEST(!CheckTables::open(specs).has_value());
  specs.header = "";
  BOOST_TEST((CheckTables::open(specs).value() == nullptr));
}

BOOST_AUTO_TEST_CASE(a_message_that_makes_patterns_run_away_is_for_later) {
  struct Slow final : Clock {
    SteadyTime now() const override { return at += step; }
    WallTime wall_now() const override { return {}; }
    mutable SteadyTime at{};
    std::chrono::nanoseconds step{};
  } clock;
  specs.open.clock = &clock;
  specs.header = table("h", "/^A:/ WARN\n");
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "A: 1\r\n";
  text += "\r\n";
  clock.step = Checks::kFairLookup / 5;  // the table reads the clock too
  stored(text);
  BOOST_TEST((problem == ContentProblem::none));
  BOOST_TEST(notes.size() == 2000U);
  clock.step = Checks::kMaxSlowTime / 5;
  stored(text);
  BOOST_TEST((problem == ContentProblem::lookup_failed));
  BOOST_TEST(checks->failed() == "header_checks: matching takes too long");
  BOOST_TEST(notes.size() <= 5U);
}

BOOST_AUTO_TEST_CASE(body_checks_see_the_beginning_of_each_part_and_long_lines_in_pieces) {
  specs.body = table("b", "/x$/ IGNORE\n/^y+$/ IGNORE\n");
  specs.body_size_limit = 10;
  BOOST_TEST(stored("A: 1\r\n\r\n1x\r\n4567\r\n9x\r\n12x\r\n") == kTrace + "A: 1\r\n\r\n4567\r\n12x\r\n");
  BOOST_TEST(stored("Content-Type: multipart/mixed; "
                    "boundary=b\r\n\r\n123456789\r\n123x\r\n--b\r\n\r\n12x\r\n") ==
             kTrace + "Content-Type: multipart/mixed; boundary=b\r\n\r\n123456789\r\n123x\r\n--b\r\n\r\n");
  specs.body_size_limit = 0;
  specs.walk.max_line = 100;
  const std::string z(100, 'z'), y(100, 'y');
  BOOST_TEST(stored("A: 1\r\n\r\n" + z + y + "z\r\n" + y + y + "\r\n" + z + y + "\r\nend\r\n") ==
             kTrace + "A: 1\r\n\r\n" + z + "z\r\n" + z + "\r\nend\r\n");
}

BOOST_AUTO_TEST_CASE(long_fields_are_matched_and_nul_hides_nothing) {
  specs.header = table("h", "/needle/ IGNORE\n");
  options.max_field = 20000;
  BOOST_TEST(stored("To: " + std::string(10000, 'a') + "\r\n needle\r\nB: 1\r\n\r\n") == kTrace + "B: 1\r\n\r\n");
  BOOST_TEST(stored(std::string("A: \0needle\r\nB: 1\r\n\r\n", 20)) == kTrace + "B: 1\r\n\r\n");
  // Beyond the limit nothing is checked, and nothing is lost.
  const std::string far = "To: " + std::string(30000, 'a') + "\r\n needle\r\nB: 1\r\n\r\n";
  BOOST_TEST(stored(far) == kTrace + far);
  // The checked beginning decides about the whole field.
  BOOST_TEST(stored("A: needle" + std::string(30000, 'a') + "\r\n x\r\nB: 1\r\n\r\n") == kTrace + "B: 1\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(folding_that_an_action_takes_over_stays) {
  specs.header = table("h",
                       "/^X-To:(.*)/ REPLACE To:$1\n/^Cc:(.*)/ PREPEND X-Cc:$1\n"
                       "/^Received:(.*)/ REPLACE X-Received:$1\n");
  specs.body = table("b", "/^a(.*)/ REPLACE b$1\n");
  BOOST_TEST(stored("X-To: a@b,\r\n\tc@d,\r\n e@f\r\nCc: g@h,\r\n i@j\r\n\r\na\r\n") ==
             "X-Received: us\r\n\there\r\nTo: a@b,\r\n\tc@d,\r\n e@f\r\n"
             "X-Cc: g@h,\r\n i@j\r\nCc: g@h,\r\n i@j\r\n\r\nb\r\n");
}

BOOST_AUTO_TEST_CASE(what_is_replaced_goes_whole_however_long_it_is) {
  specs.header = table("h", "/^To:/ REPLACE To: undisclosed-recipients:;\n/^Cc:/ IGNORE\n");
  options.max_field = 1000;
  std::string lines;
  for (int i = 0; i < 50; ++i) lines += " someone" + std::to_string(i) + "@hidden.example,\r\n";
  for (const std::string& rest : {lines, " " + std::string(3000, 'x') + "\r\n more\r\n"})
    BOOST_TEST(stored("To: a@b,\r\n" + rest + "Cc: a@b,\r\n" + rest + "A: 1\r\n\r\n") ==
               kTrace + "To: undisclosed-recipients:;\r\nA: 1\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(header_addresses_are_mapped_where_they_stand) {
  specs.header = table("h", "/^X-To:(.*)/ REPLACE To:$1\n");
  options.map_address = [](std::string_view a, bool sender) -> Result<std::string> {
    if (a == "broken@x") return fail(map::MapError::unreadable, "t");
    return a == "jo" ? std::string(sender ? "jo@sender" : "jo@recipient") : std::string(a);
  };
  BOOST_TEST(stored("From: Jo <jo>\r\nX-To: jo,\r\n\tother@x\r\nSubject: jo\r\nSender: a@b\r\n\r\njo\r\n") ==
             kTrace +
                 "From: Jo <jo@sender>\r\nTo: jo@recipient,\r\n\tother@x\r\nSubject: jo\r\nSender: "
                 "a@b\r\n\r\njo\r\n");
  stored("From: broken@x\r\n\r\n");
  BOOST_TEST((problem == ContentProblem::lookup_failed));
  // The same without checks.
  options.checks = nullptr;
  ContentBuilder builder(options);
  builder.add_trace("Received: us");
  mail::BdatScanner scanner;
  scanner.feed("Cc: jo\r\n\r\nTo: jo\r\n", builder);
  scanner.finish(builder);
  builder.finish();
  BOOST_TEST(builder.pending() == "Received: us\r\nCc: jo@recipient\r\n\r\nTo: jo\r\n");
}

BOOST_AUTO_TEST_CASE(nesting_beyond_the_limit_is_refused) {
  specs.mime = table("m", "/^X-Nothing:/ WARN\n");
  specs.walk.max_depth = 2;
  std::string text;
  for (const char* b : {"1", "2", "3"})
    text += std::string("Content-Type: multipart/mixed; boundary=") + b + "\r\n\r\n--" + b + "\r\n";
  stored(text);
  BOOST_TEST((problem == ContentProblem::refused));
  BOOST_TEST(checks->refusal() == "5.6.0 MIME nesting exceeds safety limit");
  specs.mime.clear();
  specs.body = table("b", "/nothing/ WARN\n");  // looks at lines, whatever they belong to
  stored(text);
  BOOST_TEST((problem == ContentProblem::none));
  specs.strict.encoding = true;
  stored(text);
  BOOST_TEST((problem == ContentProblem::refused));
}

BOOST_AUTO_TEST_CASE(message_strip_characters_are_taken_out_of_header_and_body) {
  specs.strip = "\\0x";
  const std::string text = "Subject: a\0bxc\r\nX: y\r\n\r\nb\0ody xx\r\nx\r\n.x\r\n"s;
  for (const std::size_t step : {1U, 2U, 7U, 1000U})
    BOOST_TEST(stored(text, step) == kTrace + "Subject: abc\r\nX: y\r\n\r\nbody \r\n\r\n.\r\n");
  BOOST_TEST((problem == ContentProblem::none));
  BOOST_TEST(notes.empty());
}

BOOST_AUTO_TEST_CASE(message_reject_characters_refuse_the_message_wherever_they_stand) {
  specs.reject = "\\033";
  for (const std::string text : {"A: \033[1m\r\n\r\n", "A: 1\r\n\r\nbody\r\n\033\r\n"}) {
    stored(text, 3);
    BOOST_TEST((problem == ContentProblem::refused));
    BOOST_TEST(checks->refusal() == "5.7.1 disallowed character");
    BOOST_TEST_REQUIRE(notes.size() == 1U);
    BOOST_TEST(notes[0].starts_with("reject: character "), notes[0]);
  }
  BOOST_TEST(stored("A: 1\r\n\r\n[1m\r\n") == kTrace + "A: 1\r\n\r\n[1m\r\n");
  specs.strip = "\\033";  // applied second
  stored("A: \033\r\n\r\n");
  BOOST_TEST((problem == ContentProblem::refused));
  specs.reject = "\\x1b";
  const auto bad = CheckTables::open(specs);
  BOOST_REQUIRE(!bad.has_value());
  BOOST_TEST(bad.error().message().find("message_reject_characters") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(strict_7bit_headers_refuse_8_bit_text_in_any_header) {
  specs.strict.header = true;
  const std::string part = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n";
  for (const std::string& text : {std::string("Subject: \xc3\xa9\r\n\r\n"), part + "X: \xe9\r\n\r\n",
                                  part + "Content-Type: message/rfc822\r\n\r\nSubject: a\r\n \xe9\r\n\r\n",
                                  "X: " + std::string(150000, 'a') + "\xe9\r\n\r\n"}) {
    stored(text);
    BOOST_TEST((problem == ContentProblem::refused));
    BOOST_TEST(checks->refusal().starts_with("5.6.0 "));
  }
  const std::string fine = "Subject: a\r\n\r\n\xe9\r\n";
  BOOST_TEST(stored(fine) == kTrace + fine);
  BOOST_TEST((problem == ContentProblem::none));
  specs.walk.mime = false;  // disable_mime_input_processing
  BOOST_TEST((CheckTables::open(specs).value() == nullptr));
}

BOOST_AUTO_TEST_CASE(strict_8bitmime_body_refuses_8_bit_text_that_is_not_labelled) {
  specs.strict.body = true;
  const std::string part = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n";
  for (const std::string& text :
       {std::string("A: 1\r\n\r\nx\r\n\xe9\r\n"), std::string("Content-Transfer-Encoding: 7bit\r\n\r\n\xe9\r\n"),
        part + "Content-Transfer-Encoding: 8bit\r\n\r\n\xe9\r\n--b\r\n\r\n\xe9\r\n"})
    for (const std::size_t step : {1U, 100000U}) {
      stored(text, step);
      BOOST_TEST((problem == ContentProblem::refused));
      BOOST_TEST(checks->refusal().starts_with("5.6.0 "));
    }
  for (const std::string& text :
       {std::string("Subject: \xe9\r\n\r\nx\r\n"), std::string("Content-Transfer-Encoding: (so) 8BIT\r\n\r\n\xe9\r\n"),
        std::string("Content-Transfer-Encoding: binary\r\n\r\nx\r\n\xe9\r\n"),
        part + "\r\nx\r\n--b\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\xe9\r\n--b--\r\n"}) {
    BOOST_TEST(stored(text) == kTrace + text);
    BOOST_TEST((problem == ContentProblem::none));
  }
}

BOOST_AUTO_TEST_CASE(strict_mime_encoding_domain_refuses_encoded_multiparts_and_messages) {
  specs.strict.encoding = true;
  const auto refused = [&](const std::string& type, const std::string& encoding) {
    stored("Content-Type: " + type + "\r\nContent-Transfer-Encoding: " + encoding + "\r\n\r\nx\r\n");
    return problem == ContentProblem::refused;
  };
  BOOST_TEST(refused("multipart/mixed; boundary=b", "base64"));
  BOOST_TEST(refused("multipart/mixed; boundary=b", "quoted-printable"));
  BOOST_TEST(refused("message/rfc822", "base64"));
  BOOST_TEST(refused("message/partial", "8bit"));
  BOOST_TEST(refused("message/external-body", "binary"));
  BOOST_TEST(!refused("multipart/mixed; boundary=b", "8bit"));
  BOOST_TEST(!refused("message/rfc822", "binary"));
  BOOST_TEST(!refused("message/global", "base64"));
  BOOST_TEST(!refused("message/partial", "7bit"));
  BOOST_TEST(!refused("text/plain", "base64"));
}

BOOST_AUTO_TEST_CASE(our_own_trace_field_is_not_held_to_what_others_send) {
  specs.strict.header = true;
  specs.reject = "w";
  open();
  options.checks = checks.get();
  ContentBuilder builder(options);
  builder.add_trace("Received: from w\xc3\xa9");
  mail::BdatScanner scanner;
  scanner.feed("A: 1\r\n\r\n", builder);
  scanner.finish(builder);
  builder.finish();
  BOOST_TEST((builder.problem() == ContentProblem::none));
}

BOOST_AUTO_TEST_CASE(a_note_is_a_line_as_postfix_writes_it) {
  BOOST_TEST(note_line({.queue_id = "4abc",
                        .origin = "unknown[192.0.2.1]",
                        .sender = "s@x",
                        .recipient = "r@y",
                        .proto = "ESMTP",
                        .helo = "h"},
                       {.action = "reject", .where = "header", .content = "Subject: a", .text = "5.7.1 no"}) ==
             "4abc: reject: header Subject: a from unknown[192.0.2.1]; from=<s@x> to=<r@y> proto=ESMTP "
             "helo=<h>: 5.7.1 no");
}

BOOST_AUTO_TEST_CASE(a_field_of_a_table_cannot_end_the_header_or_begin_another) {
  BOOST_TEST(field_lines("X-A: b", "\r\n") == "X-A: b");
  BOOST_TEST(field_lines("X-A: b\n c\n\td", "\r\n") == "X-A: b\r\n c\r\n\td");
  BOOST_TEST(field_lines("X-A: b\nX-B: c\n\nbody\r\nx\r", "\r\n") == "X-A: b X-B: c  body  x ");
  BOOST_TEST(field_lines(std::string_view("X-A: \0b", 7), "\r\n") == "X-A:  b");
}

BOOST_AUTO_TEST_SUITE_END()
