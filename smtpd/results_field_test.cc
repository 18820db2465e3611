#include "smtpd/results_field.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::smtpd;

BOOST_AUTO_TEST_SUITE(results_field)

BOOST_AUTO_TEST_CASE(results_stand_one_below_the_other) {
  ResultsField field("mx.example.org");
  field.method("spf", "pass");
  field.property("smtp.mailfrom", "a@x.example");
  field.method("dkim", "fail", "the body has changed");
  field.property("header.d", "x.example");
  field.property("header.b", "ab/d");
  field.property("header.s", "");
  BOOST_TEST(field.text() ==
             "Authentication-Results: mx.example.org;\r\n"
             "\tspf=pass smtp.mailfrom=a@x.example;\r\n"
             "\tdkim=fail reason=\"the body has changed\" header.d=x.example\r\n\theader.b=\"ab/d\"");
  BOOST_TEST(field.line() ==
             "spf=pass smtp.mailfrom=a@x.example dkim=fail reason=\"the body has changed\" header.d=x.example "
             "header.b=\"ab/d\"");
}

BOOST_AUTO_TEST_CASE(no_value_ends_the_field_or_adds_a_result) {
  for (const std::string& value :
       {std::string("a;dkim=pass@x.example"), std::string("a\r\nTo: b"), std::string("a\" dkim=pass"),
        std::string("a\\"), std::string("\xc3\xb6@x.example"), std::string(5000, 'x'), std::string("(comment)"),
        std::string("a@b@x.example"), std::string("@"), std::string("\0", 1)}) {
    ResultsField field("mx");
    field.method("spf", "fail", value);
    field.property("smtp.mailfrom", value);
    const std::string text = field.text();
    for (std::size_t at = 0; (at = text.find("\r\n", at)) != std::string::npos; at += 2)
      BOOST_TEST_REQUIRE((at + 2 < text.size() && text[at + 2] == '\t'));
    // Outside of quotes there is no semicolon but the first one.
    bool quoted = false;
    int semicolons = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      BOOST_TEST_REQUIRE(((c >= ' ' && c <= '~') || c == '\r' || c == '\n' || c == '\t'));
      if (quoted && c == '\\')
        ++i;
      else if (c == '"')
        quoted = !quoted;
      else if (c == ';' && !quoted)
        ++semicolons;
    }
    BOOST_TEST(!quoted, value);
    BOOST_TEST(semicolons == 1, value);
    BOOST_TEST(text.size() < 2 * (ResultsField::kMaxValue * 2 + 60));
  }
}

BOOST_AUTO_TEST_CASE(long_results_are_folded) {
  ResultsField field("mx");
  field.method("dkim", "pass");
  for (int i = 0; i < 5; ++i) field.property("header.d", std::string(60, 'x'));
  const std::string text = field.text();
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto end = std::min(rest.find("\r\n"), rest.size());
    BOOST_TEST(end < 90u);
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
}

BOOST_AUTO_TEST_CASE(a_field_in_our_name_is_recognised_however_it_is_written) {
  for (const auto* value : {" mx.example.org; spf=pass",
                            "mx.example.org",
                            " MX.example.ORG 1; none",
                            "\r\n\tmx.example.org;\r\n\tspf=pass",
                            " (a (nested) comment) mx.example.org; none",
                            " (a \\) b)mx.example.org;none",
                            " \"mx.example.org\"; none",
                            " \"mx.ex\\ample.org\" 1; none",
                            " mx.example.org(x); none",
                            " mx.example.org.; none",
                            " \x0bmx.example.org; none",
                            " mx.example.org\x0b; none",
                            " \xc2\xa0mx.example.org; none",
                            " mx.example.org\xc2\xa0; none",
                            " mx.example.org/1; none",
                            " mx.example.org, x; none",
                            " \" mx.example.org \"; none",
                            " (mx.example.org",
                            " (x mx.example.org; none",
                            " \"mx.example.org; none",
                            " \"mx.ex\\ample.org ; none"})
    BOOST_TEST(names_server(value, "mx.example.org"), value);
  for (const auto* value : {" mx.example.com; none", "", " ;", " (mx.example.org) other; none", " (xmx.example.org",
                            " (mx.example.org.uk; none", " mx.example.org.uk; none", " mx.example.organic; none", " (",
                            " \"", " other; spf=pass smtp.mailfrom=mx.example.org", " xmx.example.org; none"})
    BOOST_TEST(!names_server(value, "mx.example.org"), value);
}

BOOST_AUTO_TEST_SUITE_END()
