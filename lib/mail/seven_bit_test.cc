#include "lib/mail/seven_bit.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/random.h"
#include "lib/mail/testing/mime_decode.h"

using namespace pen;
using namespace pen::mail;

namespace {

std::string convert(std::string_view text, std::size_t step = 0) {
  SevenBitForm form(true);
  std::string out;
  while (step > 0 && text.size() > step) {
    form.feed(text.substr(0, step), out);
    text.remove_prefix(step);
  }
  form.feed(text, out);
  form.finish(out);
  return out;
}

/// The result must be the same however the input is cut.
void check(const std::string& from, const std::string& wanted) {
  for (const std::size_t step : {0U, 1U, 2U, 3U, 7U, 50U})
    BOOST_TEST(convert(from, step) == wanted, "step " << step << ":\n" << convert(from, step));
}

std::string random_body(Random& random, std::size_t size) {
  // Mostly bytes that are special in some place.
  constexpr std::string_view kSome = "\r\n\r\n--b=. \t\xc3\xbc\xff\0aZ";
  std::string text;
  while (text.size() < size)
    text += random.next() % 8 == 0 ? static_cast<char>(random.next()) : kSome[random.next() % kSome.size()];
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(seven_bit)

BOOST_AUTO_TEST_CASE(text_becomes_quoted_printable_and_its_label_says_so) {
  check(
      "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
      "Content-Transfer-Encoding: 8bit\r\nSubject: x\r\n\r\n"
      "gr\xc3\xbc\xc3\x9f = \r\n.dot\r\n",
      "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nSubject: x\r\n"
      "Content-Transfer-Encoding: quoted-printable\r\n\r\n"
      "gr=C3=BC=C3=9F =3D=20\r\n.dot\r\n");
}

BOOST_AUTO_TEST_CASE(a_message_without_labels_gets_them) {
  check("Subject: x\r\n\r\n\xe4\r\n",
        "Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=unknown-8bit\r\n"
        "Content-Transfer-Encoding: quoted-printable\r\n\r\n=E4\r\n");
}

BOOST_AUTO_TEST_CASE(parts_are_converted_one_by_one_and_the_others_left_alone) {
  check(
      "MIME-Version: 1.0\r\nContent-Type: multipart/mixed;\r\n\tboundary=\"out er\"\r\n"
      "content-transfer-encoding: 8bit (all of it)\r\n\r\n"
      "pre\xc3\xa4mble\r\n"
      "--out er\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: 8BIT\r\n\r\n\xc3\xa4\r\n"
      "--out er \r\nContent-Type: image/x\r\nContent-Transfer-Encoding: "
      "binary\r\n\r\n\xff\xfe\r\n\r\n"
      "--out er\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: 7bit\r\n\r\na=b \r\n"
      "--out er\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\nYT1i\r\n"
      "--out er\r\nContent-Type: message/rfc822\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
      "Subject: inner\r\nContent-Type: multipart/alternative; boundary=in\r\n\r\n"
      "--in\r\n\r\n\xc3\xb6\r\n--in--\r\n"
      "--out er--\r\nepi\xc3\xb6logue\r\n",
      "MIME-Version: 1.0\r\nContent-Type: multipart/mixed;\r\n\tboundary=\"out er\"\r\n"
      "Content-Transfer-Encoding: 7bit\r\n\r\n"
      "pre\xc3\xa4mble\r\n"
      "--out er\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: "
      "quoted-printable\r\n\r\n=C3=A4\r\n"
      "--out er \r\nContent-Type: image/x\r\nContent-Transfer-Encoding: base64\r\n\r\n//4NCg==\r\n"
      "--out er\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: 7bit\r\n\r\na=b \r\n"
      "--out er\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\nYT1i\r\n"
      "--out er\r\nContent-Type: message/rfc822\r\nContent-Transfer-Encoding: 7bit\r\n\r\n"
      "Subject: inner\r\nContent-Type: multipart/alternative; boundary=in\r\n\r\n"
      "--in\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=C3=B6\r\n--in--\r\n"
      "--out er--\r\nepi\xc3\xb6logue\r\n");
}

BOOST_AUTO_TEST_CASE(parts_of_a_digest_are_messages_and_a_report_keeps_its_fields) {
  check(
      "Content-Type: multipart/digest; boundary=d\r\n\r\n"
      "--d\r\n\r\nSubject: one\r\n\r\n\xc3\xa4\r\n--d--\r\n",
      "Content-Type: multipart/digest; boundary=d\r\n\r\n"
      "--d\r\n\r\nSubject: one\r\nContent-Transfer-Encoding: "
      "quoted-printable\r\n\r\n=C3=A4\r\n--d--\r\n");
  check(
      "Content-Type: multipart/report; boundary=r\r\n\r\n"
      "--r\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; a=b\r\n--r--\r\n",
      "Content-Type: multipart/report; boundary=r\r\n\r\n"
      "--r\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; a=b\r\n--r--\r\n");
}

BOOST_AUTO_TEST_CASE(a_mailbox_separator_in_a_header_does_not_end_it) {
  for (const std::string from :
       {"From joe Mon Nov 16 10:00 2026\r\n", ">From joe Mon Nov 16\r\n", "From a\r\n b\r\n"}) {
    for (const std::string before : {"", "Received: from a by b\r\n"})
      check(before + from +
                "Content-Type: text/plain\r\nContent-Transfer-Encoding: 8bit\r\n"
                "MIME-Version: 1.0\r\n\r\n\xc3\xa4\r\n",
            before + from +
                "Content-Type: text/plain\r\nMIME-Version: 1.0\r\n"
                "Content-Transfer-Encoding: quoted-printable\r\n\r\n=C3=A4\r\n");
    const std::string outer =
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
        "--b\r\nContent-Type: message/rfc822\r\n\r\n";
    check(outer + from + "Content-Type: image/x\r\n\r\n\xff\xfe\r\n\r\n--b--\r\n",
          outer + from +
              "Content-Type: image/x\r\nContent-Transfer-Encoding: base64\r\n\r\n//4NCg==\r\n"
              "--b--\r\n");
  }
}

BOOST_AUTO_TEST_CASE(a_message_labelled_7bit_that_is_not_gets_one_true_label) {
  const std::string head = "MIME-Version: 1.0\r\nContent-Type: text/plain\r\n";
  const std::string wrong = head + "Content-Transfer-Encoding: 7bit\r\n\r\n";
  check(wrong + "\xc3\xa4\r\n", head + "Content-Transfer-Encoding: quoted-printable\r\n\r\n=C3=A4\r\n");
  const std::string parts =
      "Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: 7bit\r\n\r\n--b\r\n";
  check(parts + "\r\n\xc3\xa4\r\n--b--\r\n",
        parts + "Content-Transfer-Encoding: quoted-printable\r\n\r\n=C3=A4\r\n--b--\r\n");
  // The label is true: only the header has 8-bit bytes.
  SevenBitForm form(false);
  std::string out;
  form.feed(wrong + "a=b\r\n", out);
  form.finish(out);
  BOOST_TEST(out == wrong + "a=b\r\n");
}

BOOST_AUTO_TEST_CASE(signed_parts_without_a_label_keep_their_signature) {
  const std::string signed_part =
      "Content-Type: multipart/signed; boundary=s; protocol=\"application/pgp-signature\"\r\n\r\n"
      "--s\r\nContent-Type: multipart/mixed; boundary=m\r\n\r\n"
      "--m\r\n\r\na=b \r\n--m\r\nContent-Type: image/x\r\n\r\nx\r\n--m--\r\n"
      "--s\r\nContent-Type: application/pgp-signature\r\n\r\nabc=\r\n--s--\r\n";
  check(signed_part, signed_part);
  // The signed part alone passes: the part after it is converted.
  const std::string outer = "Content-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\n";
  check(outer + signed_part + "--o\r\n\r\n\xc3\xa4\r\n--o--\r\n",
        outer + signed_part + "--o\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=C3=A4\r\n--o--\r\n");
  // A part that says 8bit is encoded.
  check(
      "Content-Type: multipart/signed; boundary=s\r\n\r\n"
      "--s\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\xc3\xa4\r\n--s--\r\n",
      "Content-Type: multipart/signed; boundary=s\r\n\r\n"
      "--s\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=C3=A4\r\n--s--\r\n");
}

BOOST_AUTO_TEST_CASE(with_labelled_only_parts_without_a_label_pass) {
  const auto labelled_only = [](std::string_view text) {
    SevenBitForm form{SevenBitForm::LabelledOnly{}};
    std::string out;
    form.feed(text, out);
    form.finish(out);
    return out;
  };
  const std::string unlabelled[] = {
      "\r\n\xc3\xa4\r\n",
      "Content-Type: multipart/alternative; boundary=b\r\n\r\n"
      "--b\r\nContent-Type: text/plain\r\n\r\na=b \r\n"
      "--b\r\nContent-Type: text/html\r\n\r\n<p a=\"b\">\r\n--b--\r\n",
      "Content-Type: multipart/encrypted; boundary=b; "
      "protocol=\"application/pgp-encrypted\"\r\n\r\n"
      "--b\r\nContent-Type: application/pgp-encrypted\r\n\r\nVersion: 1\r\n"
      "--b\r\nContent-Type: application/octet-stream\r\n\r\n-----BEGIN PGP "
      "MESSAGE-----\r\n=x\r\n--b--\r\n",
      "Content-Type: multipart/digest; boundary=b\r\n\r\n--b\r\n\r\nSubject: "
      "one\r\n\r\na=b\r\n--b--\r\n",
      "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n\xc3\xa4\r\n--b--\r\n",
      "Content-Type: message/rfc822\r\n\r\nSubject: in\r\nContent-Type: image/x\r\n\r\na=b\r\n",
  };
  for (const std::string& text : unlabelled) BOOST_TEST(labelled_only(text) == text);
  // A label counts for its own part only; that of an enclosing multipart becomes 7bit.
  const std::string top = "Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: ";
  const std::string plain = "--b\r\nContent-Type: text/plain\r\n\r\na=b\r\n--b\r\nContent-Transfer-Encoding: ";
  BOOST_TEST(labelled_only(top + "8bit\r\n\r\n" + plain + "8bit\r\n\r\n\xc3\xa4\r\n--b--\r\n") ==
             top + "7bit\r\n\r\n" + plain + "quoted-printable\r\n\r\n=C3=A4\r\n--b--\r\n");
}

BOOST_AUTO_TEST_CASE(of_several_boundaries_all_count) {
  const std::string part = "Content-Transfer-Encoding: 8bit\r\n\r\n\xc3\xa4\r\n";
  const std::string encoded = "Content-Transfer-Encoding: quoted-printable\r\n\r\n=C3=A4\r\n";
  const auto content = [](const std::string& label, const std::string& p) {
    return "Content-Type: multipart/mixed; boundary=a; boundary=b; boundary*0=a;\r\n "
           "boundary*1=c\r\n"
           "Content-Transfer-Encoding: " +
           label + "\r\n\r\n--b\r\n" + p + "--a\r\n" + p + "--a--\r\n--b\r\n" + p + "--ac\r\n" + p + "--b--\r\n";
  };
  check(content("8bit", part), content("7bit", encoded));
}

BOOST_AUTO_TEST_CASE(what_is_in_no_part_passes_as_it_is) {
  const std::string never =
      "Content-Type: multipart/mixed; "
      "boundary=never\r\n\r\ngr\xc3\xbc\xc3\x9f\r\n--other\r\n\xff\r\n";
  check(never, never);
  const std::string after =
      "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
      "--b\r\nContent-Transfer-Encoding: 7bit\r\n\r\na\r\n--b--\r\nf\xc3\xbc\xc3\x9f\xff\r\n";
  check(after, after);
}

BOOST_AUTO_TEST_CASE(an_outer_delimiter_ends_inner_parts_and_headers) {
  check(
      "Content-Type: multipart/mixed; boundary=a\r\n\r\n"
      "--a\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nX-Cut: here\r\n"
      "--a\r\n\r\n\xc3\xa4\r\n--b\r\n--a--\r\n",
      "Content-Type: multipart/mixed; boundary=a\r\n\r\n"
      "--a\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nX-Cut: here\r\n"
      "--a\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=C3=A4\r\n=2D-b\r\n--a--\r\n");
}

BOOST_AUTO_TEST_CASE(long_lines_are_broken_without_a_delimiter_in_between) {
  const std::string body = std::string(75, 'x') + "--b" + std::string(200, '\xe4') + "\r\n";
  const std::string out = convert(
      "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Transfer-Encoding: "
      "8bit\r\n\r\n" +
      body + "--b--\r\n");
  const auto begin = out.find("printable\r\n\r\n") + 13;
  const auto end = out.find("\r\n--b--");
  BOOST_TEST(out.find("\n--b", begin) == end + 1);
  BOOST_TEST(decode_quoted_printable(out.substr(begin, end + 2 - begin)).value_or("") == body);
}

BOOST_AUTO_TEST_CASE(whatever_the_body_it_decodes_to_what_it_was) {
  Random random(5);
  for (int round = 0; round < 400; ++round) {
    const std::string body = random_body(random, random.next() % 400);
    const bool text = round % 2 == 0;
    const std::string head =
        std::string("MIME-Version: 1.0\r\nContent-Type: ") + (text ? "text/plain" : "image/x") + "\r\n";
    for (const std::size_t step : {0U, 1U, 5U}) {
      const std::string out = convert(head + "Content-Transfer-Encoding: 8bit\r\n\r\n" + body, step);
      BOOST_TEST_REQUIRE(out.starts_with(head));
      const auto encoded = std::string_view(out).substr(out.find("\r\n\r\n") + 4);
      const auto back = text ? decode_quoted_printable(encoded) : decode_base64(encoded);
      BOOST_TEST_REQUIRE(back.has_value(), "round " << round);
      BOOST_TEST_REQUIRE((*back == body), "round " << round << " step " << step);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_held_back_is_bounded) {
  // A header field without end, and a line of dashes without end, pass through.
  SevenBitForm form(true);
  std::string out;
  const std::string chunk(64 * 1024, '-');
  form.feed("Content-Type: multipart/mixed; boundary=b\r\nX: ", out);
  for (int i = 0; i < 4; ++i) form.feed(chunk, out);
  BOOST_TEST(out.size() + SevenBitForm::kMaxHeld > 4 * chunk.size());
  form.feed("\r\n\r\n--b\r\nContent-Transfer-Encoding: 8bit\r\n\r\n", out);
  out.clear();
  form.feed(chunk, out);
  BOOST_TEST(out.size() > chunk.size());
}

BOOST_AUTO_TEST_CASE(parts_are_found_behind_strings_and_comments) {
  check(
      "Content-Type: (c) multipart/mixed; x=\"; boundary=n\"; (c) boundary=y\r\n\r\n"
      "--y\r\nContent-Transfer-Encoding: (c) 8bit\r\n\r\n\xe4\r\n--y--\r\n",
      "Content-Type: (c) multipart/mixed; x=\"; boundary=n\"; (c) boundary=y\r\n\r\n"
      "--y\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=E4\r\n--y--\r\n");
}

BOOST_AUTO_TEST_SUITE_END()
