// Messages that are made of JSON: what they look like, and what clients cannot make of them.
#include "penapi/compose.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "lib/mail/testing/mime_decode.h"
#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::api;

BOOST_AUTO_TEST_SUITE(compose_mail)

namespace {

const ComposeFacts kFacts{.message_id = "<1@mx.example>", .date = "Thu, 1 Jan 2026 00:00:00 +0000", .boundary = "b"};

MailRequest simple() {
  MailRequest r;
  r.from = "a@x.example";
  r.to = {"b@y.example"};
  r.subject = "Hello";
  r.text = "one\ntwo";
  return r;
}
HandedMail made(MailRequest r) { return compose(std::move(r), kFacts).value(); }
std::string refusal(MailRequest r) {
  const auto out = compose(std::move(r), kFacts);
  if (out) return "taken";
  BOOST_TEST(out.error().status == 422);
  return out.error().text;
}
std::string body_of(const std::string& content) { return content.substr(content.find("\r\n\r\n") + 4); }
std::string header_of(const std::string& content) { return content.substr(0, content.find("\r\n\r\n") + 2); }
/// The rules of the form, for every message.
void check_form(const std::string& content) {
  BOOST_TEST(content.ends_with("\r\n"));
  std::size_t line = 0;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const auto c = static_cast<unsigned char>(content[i]);
    BOOST_REQUIRE((c != '\n' || (i > 0 && content[i - 1] == '\r')));
    BOOST_REQUIRE((c != '\r' || content.substr(i + 1, 1) == "\n"));
    BOOST_REQUIRE(c != 0);
    line = c == '\n' ? 0 : line + 1;
    BOOST_REQUIRE(line <= 999);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_text_becomes_a_message) {
  const auto m = made(simple());
  BOOST_TEST(m.content ==
             "From: a@x.example\r\nTo: b@y.example\r\nSubject: Hello\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\n"
             "Message-ID: <1@mx.example>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=us-ascii\r\n"
             "Content-Transfer-Encoding: 7bit\r\n\r\none\r\ntwo\r\n");
  BOOST_TEST(m.envelope.sender == "a@x.example");
  BOOST_TEST(m.envelope.recipients == std::vector<std::string>{"b@y.example"}, boost::test_tools::per_element());
  BOOST_TEST(!m.envelope.needs_smtputf8);
  BOOST_TEST(m.message_id == "<1@mx.example>");
}

BOOST_AUTO_TEST_CASE(the_envelope_is_what_the_header_says_or_what_is_named) {
  auto r = simple();
  r.cc = {"Carl <c@y.example>"};
  r.bcc = {"secret@y.example"};
  r.from = "\"Doe, Jo\" <jo@x.example>";
  auto m = made(r);
  BOOST_TEST(m.envelope.recipients == (std::vector<std::string>{"b@y.example", "c@y.example", "secret@y.example"}),
             boost::test_tools::per_element());
  BOOST_TEST(m.content.contains("From: \"Doe, Jo\" <jo@x.example>\r\n"));
  BOOST_TEST(m.content.contains("Cc: Carl <c@y.example>\r\n"));
  BOOST_TEST(!m.content.contains("secret"));
  r.recipients = {"only@y.example"};
  r.envelope_from = "bounces@x.example";
  m = made(r);
  BOOST_TEST(m.envelope.recipients == std::vector<std::string>{"only@y.example"}, boost::test_tools::per_element());
  BOOST_TEST(m.envelope.sender == "bounces@x.example");
  r.envelope_from = "";
  BOOST_TEST(made(r).envelope.sender == "");
}

BOOST_AUTO_TEST_CASE(names_and_subjects_beyond_ascii_are_encoded_words) {
  auto r = simple();
  r.from = "J\xc3\xb6rg M\xc3\xbcller <j@x.example>";
  for (int i = 0; i < 40; ++i)
    r.subject +=
        " Gr\xc3\xbc\xc3\x9f"
        "e";
  const auto m = made(r);
  check_form(m.content);
  BOOST_TEST(m.content.contains("From: =?utf-8?Q?J=C3=B6rg_M=C3=BCller?= <j@x.example>\r\n"));
  const std::string header = header_of(m.content);
  BOOST_TEST(std::ranges::all_of(header, [](char c) { return static_cast<unsigned char>(c) < 127; }));
  for (std::size_t at = 0; at < header.size();) {
    const auto end = header.find("\r\n", at);
    BOOST_TEST(end - at <= 78U);
    at = end + 2;
  }
}

BOOST_AUTO_TEST_CASE(domains_beyond_ascii_become_a_labels_and_local_parts_need_smtputf8) {
  auto r = simple();
  r.to = {
      "jo@b\xc3\xbc"
      "cher.example"};
  auto m = made(r);
  BOOST_TEST(m.envelope.recipients.front() == "jo@xn--bcher-kva.example");
  BOOST_TEST(!m.envelope.needs_smtputf8);
  r.to = {"j\xc3\xb6@y.example"};
  m = made(r);
  BOOST_TEST(m.envelope.needs_smtputf8);
  BOOST_TEST(m.content.contains("To: j\xc3\xb6@y.example\r\n"));
}

BOOST_AUTO_TEST_CASE(no_text_ends_a_field_or_begins_one) {
  const std::vector<std::string> breaks{"\r\nX: y", "\n", "\r", std::string("\0", 1), "\x7f", "\x1b", "\t"};
  for (const std::string& b : breaks) {
    const auto each = [&](auto change) {
      auto r = simple();
      change(r);
      BOOST_TEST(refusal(std::move(r)) != "taken", "with byte " << static_cast<int>(b[0]));
    };
    each([&](auto& r) { r.subject = "a" + b + "b"; });
    each([&](auto& r) { r.from = "a" + b + "b <a@x.example>"; });
    each([&](auto& r) { r.from = "a" + b + "@x.example"; });
    each([&](auto& r) { r.to = {"B" + b + "b <b@y.example>"}; });
    each([&](auto& r) { r.to = {"b@y.exa" + b + "mple"}; });
    each([&](auto& r) { r.cc = {"<b@y.example" + b + ">"}; });
    each([&](auto& r) { r.bcc = {"b@y" + b + ".example"}; });
    each([&](auto& r) { r.reply_to = {"b" + b + "@y.example"}; });
    each([&](auto& r) { r.recipients = {"b" + b + "@y.example"}; });
    each([&](auto& r) { r.envelope_from = "b" + b + "@y.example"; });
    each([&](auto& r) { r.headers = {{"X-A", "a" + b + "b"}}; });
    each([&](auto& r) { r.headers = {{"X-A" + b, "a"}}; });
    each([&](auto& r) { r.headers = {{"Message-ID", "<a" + b + "@b>"}}; });
    each([&](auto& r) { r.attachments = {{.name = "a" + b, .type = "a/b", .content = "x", .cid = ""}}; });
    each([&](auto& r) { r.attachments = {{.name = "a", .type = "a/b" + b, .content = "x", .cid = ""}}; });
    each([&](auto& r) { r.attachments = {{.name = "a", .type = "a/b", .content = "x", .cid = "c" + b}}; });
  }
  auto r = simple();
  r.text = std::string("a\0b", 3);
  BOOST_TEST(refusal(r).contains("NUL"));
}

BOOST_AUTO_TEST_CASE(addresses_of_another_form_are_refused) {
  for (const char* no : {"", "nobody", "a@", "@b", "a@b@c", "a b@y.example", "<a@y.example", "a@y.example>",
                         "x <a@y.example> y", "<a@y.example> SIZE=1", "a@y.example, b@y.example", "<>", "x <>",
                         "a@y..example", "a@-y.example", "\xff@y.example"}) {
    auto r = simple();
    r.to = {no};
    BOOST_TEST(refusal(r) != "taken", no);
    r = simple();
    r.recipients = {no};
    BOOST_TEST(refusal(r) != "taken", no);
  }
  MailRequest nobody = simple();
  nobody.to.clear();
  BOOST_TEST(refusal(nobody).contains("no recipient"));
  nobody = simple();
  nobody.from.clear();
  BOOST_TEST(refusal(nobody).contains("from"));
}

BOOST_AUTO_TEST_CASE(fields_that_say_where_a_message_comes_from_cannot_be_set) {
  for (const char* no :
       {"From", "to", "BCC", "Subject", "Date", "Received", "Return-Path", "DKIM-Signature", "ARC-Seal", "Resent-To",
        "Content-Type", "MIME-Version", "Authentication-Results", "Sender", "X Y", "", "X:"}) {
    auto r = simple();
    r.headers = {{no, "x"}};
    BOOST_TEST(refusal(r) != "taken", no);
  }
  auto r = simple();
  r.headers = {
      {"List-Unsubscribe", "<https://x.example/u>"}, {"message-id", "<mine@x.example>"}, {"X-Name", "\xc3\xa4"}};
  const auto m = made(r);
  BOOST_TEST(m.message_id == "<mine@x.example>");
  BOOST_TEST(m.content.contains("Message-ID: <mine@x.example>\r\nList-Unsubscribe: <https://x.example/u>\r\n"));
  BOOST_TEST(m.content.contains("X-Name: =?utf-8?Q?=C3=A4?=\r\n"));
  r.headers = {{"X-Long", std::string(1200, 'a')}};
  BOOST_TEST(refusal(r).contains("too long"));
}

BOOST_AUTO_TEST_CASE(texts_keep_every_character) {
  for (const std::string& text :
       {std::string("plain\n"), std::string("trailing \nblank\t\n"), std::string(3000, 'x') + "\n",
        std::string("Gr\xc3\xbc\xc3\x9f"
                    "e, und viele Zeichen, die ASCII sind\n"),
        std::string("=3D = soft\n"), std::string("--=_mb\n--=_mb--\n")}) {
    auto r = simple();
    r.text = text;
    const auto m = made(r);
    check_form(m.content);
    const std::string body = body_of(m.content);
    std::string back = m.content.contains("quoted-printable") ? mail::decode_quoted_printable(body).value() : body;
    std::string want;
    for (const char c : text) want += c == '\n' ? std::string("\r\n") : std::string(1, c);
    BOOST_TEST(back == want);
  }
  auto r = simple();
  r.text.reset();
  for (int i = 0; i < 100; ++i) r.text = r.text.value_or("") + "\xd0\x9f\xd1\x80\xd0\xb8\n";
  const auto m = made(r);
  BOOST_TEST(m.content.contains("Content-Transfer-Encoding: base64"));
  BOOST_TEST(mail::decode_base64(body_of(m.content)).value().starts_with("\xd0\x9f\xd1\x80\xd0\xb8\r\n"));
}

BOOST_AUTO_TEST_CASE(parts_are_nested_as_readers_expect) {
  auto r = simple();
  r.html = "<p><img src=\"cid:logo\"></p>";
  r.attachments = {
      {.name = "logo.png", .type = "image/png", .content = "\x89PNG", .cid = "logo"},
      {.name = "r\xc3\xa9sum\xc3\xa9.pdf", .type = "application/pdf", .content = std::string(200, '\0'), .cid = ""}};
  const auto m = made(r);
  check_form(m.content);
  const auto at = [&](std::string_view text) { return m.content.find(text); };
  BOOST_TEST(at("multipart/mixed") < at("multipart/alternative"));
  BOOST_TEST(at("multipart/alternative") < at("text/plain"));
  BOOST_TEST(at("text/plain") < at("multipart/related"));
  BOOST_TEST(at("multipart/related") < at("text/html"));
  BOOST_TEST(at("text/html") < at("Content-ID: <logo>\r\n"));
  BOOST_TEST(at("Content-ID: <logo>\r\n") < at("--=_rb--"));
  BOOST_TEST(at("--=_rb--") < at("--=_ab--"));
  BOOST_TEST(at("--=_ab--") < at("filename*=utf-8''r%C3%A9sum%C3%A9.pdf"));
  BOOST_TEST(m.content.ends_with("\r\n--=_mb--\r\n"));
}

BOOST_AUTO_TEST_CASE(types_that_cannot_be_attached_are_refused) {
  for (const char* no : {"image", "image/", "/png", "image/png; x=y", "multipart/mixed", "message/rfc822", "a b/c"}) {
    auto r = simple();
    r.attachments = {{.name = "a", .type = no, .content = "x", .cid = ""}};
    BOOST_TEST(refusal(r) != "taken", no);
  }
}

BOOST_AUTO_TEST_CASE(a_message_is_taken_with_the_envelope_of_the_query) {
  const auto take = [](std::string content, std::map<std::string, std::string> query) {
    return take_message(std::move(content), query);
  };
  const auto m =
      take("Subject: x\n\nbody\r\nlast", {{"from", "a@x.example"}, {"to", "b@y.example, c@y.example"}}).value();
  BOOST_TEST(m.content == "Subject: x\r\n\r\nbody\r\nlast\r\n");
  BOOST_TEST(m.envelope.recipients == (std::vector<std::string>{"b@y.example", "c@y.example"}),
             boost::test_tools::per_element());
  BOOST_TEST(take("a\r\n", {{"from", ""}, {"to", "b@y.example"}}).value().content == "a\r\n");
  for (const auto& no :
       std::vector<std::map<std::string, std::string>>{{},
                                                       {{"from", "a@x.example"}},
                                                       {{"to", "a@x.example"}},
                                                       {{"from", "a"}, {"to", "b@y.example"}},
                                                       {{"from", "a@x.example"}, {"to", ""}},
                                                       {{"from", "a@x.example"}, {"to", "b@y.example\r\nDATA"}},
                                                       {{"from", "a@x.example"}, {"to", "b@y.example"}, {"more", ""}}})
    BOOST_TEST(take("a\r\n", no).error().status == 422);
}

BOOST_AUTO_TEST_SUITE_END()
