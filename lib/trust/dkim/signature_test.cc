#include "lib/trust/dkim/signature.h"

#include <boost/test/unit_test.hpp>

#include "lib/trust/dkim/tag_list.h"

using namespace pen;
using namespace pen::dkim;

namespace {

const std::string kGood = "v=1; a=rsa-sha256; d=example.org; s=mail; h=From:To; bh=QUJD; b=QUJD";

std::string with(std::string_view tag) { return kGood + "; " + std::string(tag); }
std::string without(std::string_view tag) {
  std::string text = kGood + ";";
  const auto at = text.find(tag);
  return text.erase(at, text.find(';', at) + 1 - at);
}
bool good(const std::string& value) { return Signature::parse(value).has_value(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(dkim_signature)

BOOST_AUTO_TEST_CASE(a_field_is_read) {
  const auto s = Signature::parse(
      " v=1; a=ed25519-sha256;\r\n\tc=relaxed; d=example.org; i=jo@sub.example.org;\r\n s=2024; h=From : To\r\n :from; "
      "t=5;x=6; bh=QU\r\n JD; b= QUJ\r\n\tE ; unknown=1;");
  BOOST_REQUIRE(s.has_value());
  BOOST_TEST((s->algorithm == Algorithm::ed25519_sha256));
  BOOST_TEST((s->canonicalization == Canonicalization{Form::relaxed, Form::simple}));
  BOOST_TEST(s->selector == "2024");
  BOOST_TEST((s->fields == std::vector<std::string>{"From", "To", "from"}));
  BOOST_TEST(s->body_digest == "ABC");
  BOOST_TEST(s->signature == "ABD");
  BOOST_TEST(*s->time == 5U);
  BOOST_TEST(*s->expires == 6U);
  BOOST_TEST(!s->partial);
}

BOOST_AUTO_TEST_CASE(every_tag_that_must_be_there_is_missed) {
  BOOST_TEST(good(kGood));
  for (const char* tag : {"v=", "a=", "d=", "s=", "h=", "bh=", "b="}) BOOST_TEST(!good(without(tag)), tag);
}

BOOST_AUTO_TEST_CASE(tags_with_values_that_must_not_be_are_refused) {
  for (const char* tag : {"v=1", "d=x.org", "i=jo@example.com", "i=jo@badexample.org", "i=jo", "x=5; t=5", "x=a",
                          "l=-1", "c=nofws", "q=http", "t=99999999999999999999", "1x=2", "x y=2", "no value"})
    BOOST_TEST(!good(with(tag)), tag);
  BOOST_TEST(Signature::parse("v=2; a=rsa-sha256").error().is(DkimError::unsupported));
  std::string no_from = kGood;
  no_from.replace(no_from.find("From:"), 5, "Xrom:");
  BOOST_TEST(!good(no_from));
  BOOST_TEST(Signature::parse(with("l=0"))->partial);
  BOOST_TEST(!good(with("z=" + std::string(Signature::kMaxSize, 'a'))));
  std::string many;
  for (int i = 0; i < 200; ++i) many += "t" + std::to_string(i) + "=1;";
  BOOST_TEST(!good(with(many)));
}

BOOST_AUTO_TEST_CASE(an_algorithm_that_is_unknown_or_historic_is_none) {
  for (const char* name : {"rsa-sha1", "dsa-sha256"}) {
    std::string text = kGood;
    text.replace(text.find("rsa-sha256"), 10, name);
    const auto s = Signature::parse(text);
    BOOST_REQUIRE(s.has_value());
    BOOST_TEST(!s->algorithm, name);
  }
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read_and_folded_in_lines) {
  Signature s;
  s.algorithm = Algorithm::rsa_sha256;
  s.domain = "a-rather-long-name-of-a-domain.with-many-parts.example.org";
  s.selector = "selector";
  s.identity = "jo@" + s.domain;
  for (int i = 0; i < 30; ++i) s.fields.push_back("Field-" + std::to_string(i));
  s.fields.emplace_back("From");
  s.body_digest.assign(32, 'x');
  s.signature.assign(256, 'y');
  s.time = 1700000000;
  s.expires = 1800000000;
  const std::string field = s.field();
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 2) {
    end = field.find("\r\n", begin);
    BOOST_TEST(std::min(end, field.size()) - begin <= 78U);
  }
  const auto read = Signature::parse(std::string_view(field).substr(field.find(':') + 1));
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(read->fields == s.fields);
  BOOST_TEST(read->signature == s.signature);
  BOOST_TEST(read->body_digest == s.body_digest);
  BOOST_TEST(read->identity == s.identity);
  BOOST_TEST(without_signature(field) == s.signed_part());
  const std::size_t size = field.size();
  s.signature.assign(256, '\xff');
  s.body_digest.assign(32, '\0');
  BOOST_TEST(s.field().size() == size);
}

BOOST_AUTO_TEST_CASE(the_value_of_b_is_taken_out_and_nothing_else) {
  BOOST_TEST(without_signature("DKIM-Signature: b=QU\r\n JD ; bh=b=x; d=y") == "DKIM-Signature: b=; bh=b=x; d=y");
  BOOST_TEST(without_signature("D: v=1; b = QUJD") == "D: v=1; b =");
  BOOST_TEST(without_signature("D: v=1;bb=1; x=b=2;\r\n\tb=\r\n\tQ=;") == "D: v=1;bb=1; x=b=2;\r\n\tb=;");
  BOOST_TEST(without_signature("D: v=1") == "D: v=1");
}

BOOST_AUTO_TEST_SUITE_END()
