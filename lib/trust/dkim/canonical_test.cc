#include "lib/trust/dkim/canonical.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"
#include "lib/base/random.h"
#include "lib/trust/dkim/key.h"
#include "lib/trust/dkim/testing/slow_canonical.h"

using namespace pen;
using namespace pen::dkim;

namespace {

std::string body(Form form, std::string_view text, std::size_t piece = SIZE_MAX) {
  CanonicalBody canonical(form);
  std::string out;
  const auto put = [&](std::string_view part) { out += part; };
  for (std::size_t at = 0; at < text.size(); at += std::min(piece, text.size() - at))
    canonical.feed(text.substr(at, piece), put);
  canonical.finish(put);
  return out;
}

std::string field(Form form, std::string_view whole) {
  std::string out;
  append_canonical(form, whole, out);
  return out;
}

std::string digest(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return base64_encode(hash.finish());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dkim_canonical)

BOOST_AUTO_TEST_CASE(the_example_of_rfc_6376_section_3_4_5) {
  const std::string a = "A: X", b = "B : Y\t\r\n\tZ  ", text = " C \r\nD \t E\r\n\r\n\r\n";
  BOOST_TEST(field(Form::relaxed, a) == "a:X");
  BOOST_TEST(field(Form::relaxed, b) == "b:Y Z");
  BOOST_TEST(body(Form::relaxed, text) == " C\r\nD E\r\n");
  BOOST_TEST(field(Form::simple, b) == b);
  BOOST_TEST(body(Form::simple, text) == " C \r\nD \t E\r\n");
}

BOOST_AUTO_TEST_CASE(an_empty_body_has_the_digests_of_rfc_6376) {
  BOOST_TEST(digest(body(Form::simple, "")) == "frcCV1k9oG9oKj3dpUqdJg1PxRT2RSN/XKdLCPjaYaY=");
  BOOST_TEST(digest(body(Form::relaxed, "")) == "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
  BOOST_TEST(body(Form::relaxed, "\r\n\r\n \t\r\n").empty());
  BOOST_TEST(body(Form::simple, "\r\n\r\n") == "\r\n");
}

BOOST_AUTO_TEST_CASE(a_body_without_a_last_line_end_gets_one) {
  BOOST_TEST(body(Form::simple, "a") == "a\r\n");
  BOOST_TEST(body(Form::relaxed, "a ") == "a\r\n");
  BOOST_TEST(body(Form::simple, "a\r") == "a\r\r\n");
}

BOOST_AUTO_TEST_CASE(any_body_in_any_pieces_is_what_the_slow_form_says) {
  Random random(7);
  const std::string_view kPieces[] = {" ", "\t", "\r\n", "\r", "\n", "a", "bc", ".", "\xe4", "  ", "\r\n\r\n"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::uint64_t n = random.below(24); n > 0; --n) text += kPieces[random.below(std::size(kPieces))];
    for (const Form form : {Form::simple, Form::relaxed})
      for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7}, SIZE_MAX})
        BOOST_REQUIRE_MESSAGE(body(form, text, piece) == testing::slow_body(form, text),
                              "piece " << piece << " of " << base64_encode(text));
  }
}

BOOST_AUTO_TEST_CASE(fields_end_at_the_empty_line_or_at_a_line_that_is_none) {
  const auto fields = split_fields("A: 1\r\n 2\r\nB:\r\n\r\nC: 3\r\n", 10);
  BOOST_REQUIRE(fields.size() == 2);
  BOOST_TEST(fields[0].whole == "A: 1\r\n 2");
  BOOST_TEST(fields[1].name == "B");
  BOOST_TEST(split_fields("A: 1\r\nno field\r\nB: 2\r\n", 10).size() == 1);
  BOOST_TEST(split_fields("A: 1\r\nB: 2\r\nC: 3\r\n", 2).size() == 2);
  BOOST_TEST(split_fields("From a@b Mon\r\nB: 2\r\n", 10).empty());
}

BOOST_AUTO_TEST_CASE(a_field_without_a_value_is_its_name) {
  BOOST_TEST(field(Form::relaxed, "Subject:") == "subject:");
  BOOST_TEST(field(Form::relaxed, "Subject: \r\n ") == "subject:");
  BOOST_TEST(field(Form::relaxed, "Subject:\r\n a\r\n\t b") == "subject:a b");
}

BOOST_AUTO_TEST_CASE(forms_are_read_in_any_case_and_the_body_is_simple_by_default) {
  BOOST_TEST((Canonicalization::parse("Relaxed") == Canonicalization{Form::relaxed, Form::simple}));
  BOOST_TEST((Canonicalization::parse("simple/RELAXED") == Canonicalization{Form::simple, Form::relaxed}));
  BOOST_TEST(!Canonicalization::parse("nofws"));
  BOOST_TEST(!Canonicalization::parse("relaxed/"));
}

BOOST_AUTO_TEST_SUITE_END()
