#include "lib/receive/intake/any_host_form.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/random.h"

using namespace pen;
using namespace pen::intake;

namespace {

constexpr AnyHostForm::Options kBoth{.line_limit = 998, .seven_bit = true};

/// Facts of content, as they are found while it comes in.
mail::BodyFacts facts_of(std::string_view content) {
  mail::FactsCollector facts;
  mail::BdatScanner scanner({.replace_bare_cr = false});
  const auto end = content.find("\r\n\r\n");
  const std::size_t header = end == std::string_view::npos ? content.size() : end + 4;
  scanner.feed(content.substr(0, header), facts);
  facts.end_of_header();
  scanner.feed(content.substr(header), facts);
  scanner.finish(facts);
  return std::move(facts).finish();
}

struct Made {
  std::string content;
  mail::BodyFacts facts;
  std::uint64_t broken;
  bool converted;
};

/// The content in that form, given in pieces: the first has `first` bytes, the others `piece`.
Made made(const std::string& content, AnyHostForm::Options options = kBoth, std::size_t first = SIZE_MAX,
          std::size_t piece = 1) {
  AnyHostForm form(options);
  Made out{{}, facts_of(content), 0, false};
  for (std::size_t at = 0, size = std::min(first, content.size()); at < content.size(); size = piece) {
    std::string part = content.substr(at, size);
    at += part.size();
    const mail::BodyFacts so_far = facts_of(content.substr(0, at));
    form.next(part, {so_far.longest_line, so_far.eight_bit_body}, at == content.size());
    out.content += part;
  }
  out.broken = form.broken();
  out.converted = form.converted();
  std::move(form).settle(out.facts);
  return out;
}

const std::string kHeader = "From: a@b.example\r\nMIME-Version: 1.0\r\n";
const std::string kEight = "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(any_host_form)

BOOST_AUTO_TEST_CASE(what_every_host_takes_stays_byte_for_byte) {
  for (const std::string body : {"", "hello\r\n", "Content-Transfer-Encoding: 8bit\r\n"}) {
    const std::string content = kHeader + "\r\n" + body;
    const Made m = made(content);
    BOOST_TEST(m.content == content);
    BOOST_TEST(!m.converted);
    BOOST_CHECK(m.facts == facts_of(content));
  }
}

BOOST_AUTO_TEST_CASE(long_lines_are_broken_in_the_header_at_blanks) {
  const std::string to = "To: " + std::string(600, 'a') + "@x.example,";
  const std::string cc = " " + std::string(600, 'b') + "@x.example\r\n";
  const std::string x(998, 'x'), y(20, 'y');
  const Made m = made(to + cc + kHeader + "\r\n" + x + y + "\r\nend\r\n");
  const std::string wanted = to + "\r\n" + cc + kHeader + "\r\n" + x + "\r\n " + y + "\r\nend\r\n";
  BOOST_TEST(m.content == wanted);
  BOOST_TEST(m.broken == 2u);
  BOOST_CHECK(m.facts == facts_of(wanted));
  BOOST_TEST(made(to + cc, {.line_limit = 0, .seven_bit = true}).content == to + cc);
}

BOOST_AUTO_TEST_CASE(a_long_line_that_begins_in_an_earlier_piece_is_broken_where_it_would_be) {
  const std::string x(998, 'x'), y(3000, 'y');
  const std::string content = kHeader + "\r\nshort\r\n" + x + y + "\r\nend\r\n";
  const std::string whole = made(content).content;
  for (const std::size_t first : {kHeader.size() + 2, kHeader.size() + 500, kHeader.size() + 1200}) {
    const Made m = made(content, kBoth, first, 300);
    BOOST_TEST(m.content == whole);
    BOOST_CHECK(m.facts == facts_of(whole));
  }
}

BOOST_AUTO_TEST_CASE(eight_bit_content_becomes_seven_bit) {
  const Made m = made(kHeader + kEight +
                      "\r\nGr\xc3\xbc\xc3\x9f"
                      "e\r\n");
  BOOST_TEST(m.content == kHeader +
                              "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: "
                              "quoted-printable\r\n\r\nGr=C3=BC=C3=9Fe\r\n");
  BOOST_TEST(m.converted);
  BOOST_TEST(!m.facts.eight_bit_body);
  BOOST_CHECK(m.facts == facts_of(m.content));
  // Without a label, too; and what it takes for granted is the setting's.
  BOOST_TEST(made("From: a@b.example\r\n\r\n\xfc\r\n").content ==
             "From: a@b.example\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=unknown-8bit\r\n"
             "Content-Transfer-Encoding: quoted-printable\r\n\r\n=FC\r\n");
  BOOST_TEST(!made(kHeader + kEight + "\r\n\xfc\r\n", {.line_limit = 998, .seven_bit = false}).converted);
}

BOOST_AUTO_TEST_CASE(a_long_line_of_eight_bit_content_needs_no_break) {
  const Made m = made(kHeader + kEight + "\r\n\xfc" + std::string(5000, 'x') + "\r\n");
  BOOST_TEST(m.broken == 0u);
  BOOST_CHECK(m.facts == facts_of(m.content));
}

BOOST_AUTO_TEST_CASE(large_content_is_converted_by_its_labels) {
  // When the header must be settled, no byte of the body has come.
  const std::string content = kHeader + kEight + "\r\n" + std::string(50, 'x') + "\r\n\xfc\r\n";
  const Made m = made(content, kBoth, (kHeader + kEight).size() + 2, 7);
  BOOST_TEST(m.content == made(content).content);
  BOOST_CHECK(m.facts == facts_of(m.content));
  // What is called 7bit and is not, is found out too late.
  const std::string unlabelled = kHeader + "\r\nx\r\n\xfc\r\n";
  BOOST_TEST(made(unlabelled, kBoth, kHeader.size() + 2, 1).content == unlabelled);
}

BOOST_AUTO_TEST_CASE(what_others_signed_or_sealed_is_not_converted) {
  const std::string body = "\r\n--b\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\xfc\r\n--b--\r\n";
  for (const std::string field :
       {"Content-Type: multipart/signed; boundary=b", "Content-Type:\r\n Multipart/Encrypted; boundary=b",
        "DKIM-Signature: v=1", "ARC-Seal: i=1"}) {
    const std::string content = kHeader + field + "\r\n" + body;
    const Made m = made(content);
    BOOST_TEST(m.content == content);
    BOOST_TEST(!m.converted);
  }
  BOOST_TEST(made(kHeader + "Content-Type: multipart/mixed; boundary=b\r\n" + body).converted);
}

BOOST_AUTO_TEST_CASE(facts_are_those_of_the_content_that_was_made) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Random random(seed);
      std::string content = kHeader + (random.chance(0.5) ? kEight : "") + "X: ";
      for (auto n = random.below(40); n > 0; --n) content += "abcd ,"[random.below(6)];
      content += "\r\n\r\n";
      const std::size_t header = content.size();
      for (auto n = random.below(60); n > 0; --n) content += "ab .=\xfc"[random.below(random.chance(0.5) ? 5 : 6)];
      content += "\r\n";
      const AnyHostForm::Options options{.line_limit = 60 + random.below(20), .seven_bit = random.chance(0.7)};
      const Made m = made(content, options, header + random.below(content.size() - header), 1 + random.below(9));
      BOOST_CHECK(m.facts == facts_of(m.content));
      BOOST_TEST(m.facts.longest_line <= std::max<std::size_t>(options.line_limit, 76));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
