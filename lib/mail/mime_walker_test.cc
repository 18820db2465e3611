#include "lib/mail/mime_walker.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/mime.h"
#include "lib/mail/wire.h"

using namespace pen;
using namespace pen::mail;

namespace {

/// Records the sink's calls, one event a line, and puts the whole text together again.
struct Events final : MimeWalker::Sink {
  std::string log, whole;
  void put(std::string_view what, std::string_view text, bool ends) {
    log += std::string(what) + "(" + std::string(text) + (ends ? ")\n" : "…)\n");
    for (const char c : text) {
      if (c == '\n') whole += '\r';
      whole += c;
    }
    if (ends) whole += "\r\n";
  }
  static std::string_view word(MimeWalker::Header h) {
    return h == MimeWalker::Header::message ? "message" : h == MimeWalker::Header::part ? "part" : "inner";
  }
  void field(MimeWalker::Header h, std::string_view text, bool ends) override { put(word(h), text, ends); }
  void more_field(MimeWalker::Header, std::string_view text, bool ends) override { put("more", text, ends); }
  void end_of_header(MimeWalker::Header h, bool separator) override {
    log += "end " + std::string(word(h)) + "\n";
    if (separator) whole += "\r\n";
  }
  void body(std::string_view text, bool ends) override { put("body", text, ends); }
};

struct Walk {
  MimeWalker::Options options;
  Walk() { options.lines = true; }
  std::string whole;
  bool too_deep = false, plain = false;
  std::string walk(std::string_view text, std::size_t step = 1000000) {
    Events events;
    MimeWalker walker(events, options);
    BdatScanner scanner({.replace_bare_cr = false});
    for (std::size_t at = 0; at < text.size(); at += step) scanner.feed(text.substr(at, step), walker);
    scanner.finish(walker);
    plain = walker.plain();
    walker.finish();
    whole = events.whole;
    too_deep = walker.too_deep();
    return events.log;
  }
};

constexpr std::string_view kMixed =
    "Subject: a\r\n folded\r\nContent-Type: Multipart/Mixed;\r\n boundary=\"b:1\"\r\n\r\n"
    "prolog\r\n--b:1\r\nContent-Type: text/plain\r\n\r\ntext\r\n"
    "--b:1\r\nContent-Type: message/rfc822\r\n\r\nSubject: in\r\nContent-Type: multipart/digest; "
    "boundary=in\r\n\r\n"
    "--in\r\n\r\nSubject: digested\r\n\r\nbody\r\n--in--\r\n--b:1--\r\nepilog\r\n";

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mime_walker, Walk)

BOOST_AUTO_TEST_CASE(fields_of_message_parts_and_inner_messages_are_told_apart) {
  BOOST_TEST(walk(kMixed) ==
             "message(Subject: a\n folded)\nmessage(Content-Type: Multipart/Mixed;\n boundary=\"b:1\")\n"
             "end message\nbody(prolog)\nbody(--b:1)\npart(Content-Type: text/plain)\nend part\n"
             "body(text)\nbody(--b:1)\npart(Content-Type: message/rfc822)\nend part\n"
             "inner(Subject: in)\ninner(Content-Type: multipart/digest; boundary=in)\nend inner\n"
             "body(--in)\nend part\ninner(Subject: digested)\nend inner\nbody(body)\nbody(--in--)\n"
             "body(--b:1--)\nbody(epilog)\n");
  BOOST_TEST(whole == kMixed);
}

BOOST_AUTO_TEST_CASE(how_it_is_cut_changes_nothing) {
  for (const bool lines : {true, false}) {
    options.lines = lines;
    walk(kMixed);
    BOOST_TEST(whole == kMixed);
    for (std::size_t step = 1; step < 40; ++step) {
      const std::string cut = walk(kMixed, step);
      BOOST_TEST(whole == kMixed);
      if (lines) BOOST_TEST(cut == walk(kMixed));
    }
  }
}

BOOST_AUTO_TEST_CASE(without_mime_all_after_the_header_is_body) {
  options.mime = false;
  const auto log = walk(kMixed);
  BOOST_TEST(log.find("part(") == std::string::npos);
  BOOST_TEST(log.find("body(Subject: digested)") != std::string::npos);
  options.lines = false;
  walk("Subject: a\r\n\r\nbody\r\n");
  BOOST_TEST(plain);
}

BOOST_AUTO_TEST_CASE(a_message_of_one_part_is_plain_after_its_header_and_a_multipart_is_not) {
  options.lines = false;
  walk("Subject: a\r\n\r\nbody\r\n");
  BOOST_TEST(plain);
  walk("Content-Type: multipart/mixed; boundary=a\r\n\r\nbody\r\n");
  BOOST_TEST(!plain);
  walk("Content-Type: multipart/mixed; boundary=a\r\n\r\n--a--\r\n");
  BOOST_TEST(plain);
}

BOOST_AUTO_TEST_CASE(a_field_beyond_the_limit_is_seen_cut_and_carried_whole) {
  options.max_field = 1000;
  const std::string line = "Subject: " + std::string(1500, 'x') + "\r\n", more = " more\r\n";
  const std::string text = line + more + "To: a\r\n\r\n";
  const auto log = walk(text);
  BOOST_TEST(whole == text);
  BOOST_TEST(log == "message(" + line.substr(0, 1000) + "…)\nmore(" + line.substr(1000, 509) +
                        "…)\nmore()\nmore( more)\nmessage(To: a)\nend message\n");
  std::string folded = "Subject: a\r\n";
  for (int i = 0; i < 30; ++i) folded += " " + std::string(60, 'y') + "\r\n";
  const auto folded_log = walk(folded + "To: b\r\n\r\n");
  BOOST_TEST(whole == folded + "To: b\r\n\r\n");
  BOOST_TEST(folded_log.find("more( yyy") != std::string::npos);
  BOOST_TEST(folded_log.find("message(To: b)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(long_body_lines_come_in_pieces) {
  options.max_line = 100;
  const std::string text = "A: b\r\n\r\n" + std::string(250, 'z') + "\r\n" + std::string(100, 'q') + "\r\n";
  const auto log = walk(text);
  BOOST_TEST(log.ends_with("body(" + std::string(100, 'z') + "…)\nbody(" + std::string(100, 'z') + "…)\nbody(" +
                           std::string(50, 'z') + ")\nbody(" + std::string(100, 'q') + "…)\nbody()\n"));
  BOOST_TEST(whole == text);
}

BOOST_AUTO_TEST_CASE(what_is_no_header_is_body) {
  BOOST_TEST(walk("no header\r\n") == "end message\nbody(no header)\n");
  BOOST_TEST(walk("From jo Mon\r\nTo: a\r\n\r\n") == "more(From jo Mon)\nmessage(To: a)\nend message\n");
  BOOST_TEST(walk("From \t: jo\r\n\r\n") == "message(From \t: jo)\nend message\n");
  BOOST_TEST(walk("To: a\r\nbody at once\r\n") == "message(To: a)\nend message\nbody(body at once)\n");
  BOOST_TEST(walk("") == "end message\n");
  BOOST_TEST(walk("To: a") == "message(To: a)\nend message\n");
  // The first part's header is ended by a delimiter; the second part begins with text.
  const std::string parts = "Content-Type: multipart/x; boundary=b\r\n\r\n--b\r\nA: 1\r\n--b\r\ntext\r\n--b--\r\n";
  BOOST_TEST(walk(parts).ends_with("body(--b)\npart(A: 1)\nend part\nbody(--b)\nend part\nbody(text)\nbody(--b--)\n"));
  BOOST_TEST(whole == parts);
}

BOOST_AUTO_TEST_CASE(one_giant_continuation_line_is_seen_up_to_the_limit) {
  options.max_field = 1000;
  for (const std::size_t size : {980U, 991U, 992U, 2000U}) {
    const std::string line = " win money" + std::string(size, ' ');
    const std::string text = "Subject:\r\n" + line + "\r\n more\r\nTo: a\r\n\r\n";
    const auto log = walk(text);
    BOOST_TEST(whole == text);
    BOOST_TEST(walk(text, 1).starts_with(log.substr(0, 990)));
    BOOST_TEST(whole == text);
    BOOST_TEST(log.starts_with("message(Subject:\n" + line.substr(0, 991)), size);
    BOOST_TEST(log.ends_with("message(To: a)\nend message\n"));
  }
  // Nothing of the last line fits, but the field still continues with it.
  const std::string full = "Subject:" + std::string(991, 'x');
  BOOST_TEST(walk(full + "\r\n more\r\n\r\n") == "message(" + full + "…)\nmore()\nmore( more)\nend message\n");
}

BOOST_AUTO_TEST_CASE(boundaries_are_found_behind_strings_and_comments_and_all_of_them_count) {
  const auto parts = [&](std::string_view type, std::string_view delimiters) {
    std::string text = std::string(type) + "\r\n\r\n";
    for (const char d : delimiters) text += std::string("--") + d + "\r\nX-" + d + ": 1\r\n\r\n";
    std::string found;
    const auto log = walk(text);
    for (std::size_t at = 0; (at = log.find("part(X-", at)) != std::string::npos; ++at) found += log[at + 7];
    BOOST_TEST(whole == text);
    return found;
  };
  BOOST_TEST(parts("Content-Type: multipart/mixed; x=\"; boundary=n\"; boundary=y", "ny") == "y");
  BOOST_TEST(parts("Content-Type: multipart/mixed; x=\"\\\"; boundary=n\"; boundary=y", "ny") == "y");
  BOOST_TEST(parts("Content-Type: multipart/mixed; (c (;)\\)) boundary (c) = (c) y (c)", "y") == "y");
  BOOST_TEST(parts("Content-Type: (c) multipart/mixed (;boundary=n); boundary=\"y\"", "ny") == "y");
  BOOST_TEST(parts("Content-Type: multipart / mixed; boundary=y", "y") == "y");
  BOOST_TEST(parts("Content-Type: multipart/mixed; boundary=; xboundary=n; boundary=y", "ny") == "y");
  BOOST_TEST(parts("Content-Type: multipart/mixed; boundary=\"y", "y") == "y");
  // A reader may follow any of the boundaries: one does not end the others.
  BOOST_TEST(parts("Content-Type: multipart/mixed; boundary=a; boundary=b", "abab") == "abab");
  BOOST_TEST(parts("Content-Type: multipart/mixed; boundary=a\r\nContent-Type: text/plain\r\n"
                   "Content-Type: multipart/mixed; boundary=b",
                   "bab") == "bab");
  BOOST_TEST(walk("Content-Type: multipart/mixed; boundary=a; boundary=b\r\n\r\n--a--\r\n--b\r\n"
                  "X: 1\r\n\r\n--b--\r\n--b\r\nX: 2\r\n")
                 .ends_with("body(--a--)\nbody(--b)\npart(X: 1)\nend part\nbody(--b--)\n"
                            "body(--b)\nbody(X: 2)\n"));
  BOOST_TEST(walk("Content-Type: message/rfc822\r\nContent-Type: text/plain\r\n\r\nA: 1\r\n\r\n")
                 .ends_with("inner(A: 1)\nend inner\n"));
  options.max_depth = 2;
  parts("Content-Type: multipart/mixed; boundary=a; boundary=b; boundary=a", "ab");
  BOOST_TEST(!too_deep);
  parts("Content-Type: multipart/mixed; boundary=a; boundary=b; boundary=c", "ab");
  BOOST_TEST(too_deep);
}

BOOST_AUTO_TEST_CASE(boundaries_in_the_forms_of_rfc_2231_are_found) {
  const auto found = [](std::string_view parameters) {
    std::string all;
    for (const auto& b : mime_boundaries("multipart/mixed; " + std::string(parameters)))
      all += (all.empty() ? "" : "|") + b;
    return all;
  };
  BOOST_TEST(found("boundary*=us-ascii'en'a%2Fb%zz") == "a/b%zz");
  BOOST_TEST(found("boundary*0=\"one \"; boundary*1=\"two\"") == "one two");
  BOOST_TEST(found("boundary*1*=%62; x=y; BOUNDARY*0*=''a; boundary*2=%63") == "ab%63");
  BOOST_TEST(found("boundary*0=a; boundary*2=c; boundary*0=z") == "a");
  BOOST_TEST(found("boundary*1=b") == "");
  BOOST_TEST(found("boundary*0=ext; boundary=plain") == "plain|ext");
  BOOST_TEST(found("boundary*x=y; boundary*=; boundary*99999999999999999999=n") == "");
  BOOST_TEST(found("boundary*0=x%4") == "x%4");
  Walk w;
  BOOST_TEST(w.walk("Content-Type: multipart/mixed; boundary*0=in;\r\n boundary*1=ner\r\n\r\n--inner\r\n"
                    "Subject: part\r\n\r\nx\r\n--inner--\r\n")
                 .find("part(Subject: part)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_delimiter_may_end_the_header_that_it_is_of) {
  const std::string text =
      "Content-Type: multipart/mixed; boundary=b\r\n--b\r\nContent-Type: multipart/x; boundary=in"
      "\r\n--in\r\nX: 1\r\n\r\ntext\r\n--in--\r\n--b--\r\n";
  for (const bool lines : {true, false}) {
    options.lines = lines;
    const auto log = walk(text);
    BOOST_TEST(whole == text);
    BOOST_TEST(
        log.starts_with("message(Content-Type: multipart/mixed; boundary=b)\nend message\nbody(--b)\n"
                        "part(Content-Type: multipart/x; boundary=in)\nend part\nbody(--in)\npart(X: 1)\nend "
                        "part\n"));
  }
}

BOOST_AUTO_TEST_CASE(nesting_beyond_the_limit_is_told) {
  std::string text;
  for (int i = 0; i < 4; ++i)
    text +=
        "Content-Type: multipart/mixed; boundary=b" + std::to_string(i) + "\r\n\r\n--b" + std::to_string(i) + "\r\n";
  options.max_depth = 4;
  walk(text);
  BOOST_TEST(!too_deep);
  options.max_depth = 3;
  walk(text);
  BOOST_TEST(too_deep);
  BOOST_TEST(whole == text);
}

BOOST_AUTO_TEST_CASE(addresses_are_replaced_where_they_stand) {
  const auto replaced = [](std::string text) {
    const auto changed = replace_addresses(text, [](std::string_view a) -> Result<std::string> {
      if (a.find('@') == std::string_view::npos) return std::string(a) + "@here";
      return to_lower(a) == "x@old" ? "y@new" : std::string(a);
    });
    return (changed.value() ? "" : "=") + text;
  };
  BOOST_TEST(replaced("X@old") == "y@new");
  BOOST_TEST(replaced(" \"X, x@old\" <x@old> (x@old),\n\tjo, a@b") == " \"X, x@old\" <y@new> (x@old),\n\tjo@here, a@b");
  BOOST_TEST(replaced("Friends: x@old, <@r:x@old>;") == "Friends: y@new, <@r:y@new>;");
  BOOST_TEST(replaced("undisclosed-recipients:;") == "=undisclosed-recipients:;");
  BOOST_TEST(replaced("Jo Doe") == "=Jo Doe");
  BOOST_TEST(replaced("jo (Jo Doe)") == "jo@here (Jo Doe)");
  BOOST_TEST(replaced("<>") == "=<>");
  BOOST_TEST(replaced("a@b, c@d") == "=a@b, c@d");
  const auto quoted = [](std::string text) {
    const auto same = [](std::string_view a) -> Result<std::string> { return std::string(a); };
    return (replace_addresses(text, same, Quotes::as_needed).value() ? "" : "=") + text;
  };
  BOOST_TEST(replaced("a..b@c.example") == "=a..b@c.example");
  BOOST_TEST(quoted("a..b@c.example, N <.d@c.example>, e.@c.example (f..g)") ==
             "\"a..b\"@c.example, N <\".d\"@c.example>, \"e.\"@c.example (f..g)");
  BOOST_TEST(quoted("\"ok\"@c.example, \"a b\"@c.example") == "ok@c.example, \"a b\"@c.example");
  BOOST_TEST(quoted("\"Jo.\" <jo@c.example>, x@y..z, a@b") == "=\"Jo.\" <jo@c.example>, x@y..z, a@b");
  std::string kept = "x@old";
  BOOST_TEST(!replace_addresses(kept, [](std::string_view) -> Result<std::string> {
                return fail(AddressError::malformed, "x");
              }).has_value());
  BOOST_TEST(kept == "x@old");
}

BOOST_AUTO_TEST_CASE(of_very_many_addresses_the_first_are_replaced) {
  std::string text;
  for (std::size_t i = 0; i < kMaxReplaced + 5; ++i) text += "x@old,";
  std::size_t asked = 0;
  BOOST_TEST(replace_addresses(text, [&](std::string_view) -> Result<std::string> {
               ++asked;
               return std::string("y@new");
             }).value());
  BOOST_TEST(asked == kMaxReplaced);
  BOOST_TEST(text.ends_with("y@new,x@old,x@old,x@old,x@old,x@old,"));
}

BOOST_AUTO_TEST_SUITE_END()
