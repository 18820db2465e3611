#include "lib/mail/notice_template.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::mail;

namespace {
std::string error_of(std::string_view file) {
  const auto t = parse_notice_templates(file);
  return t ? "" : t.error().message();
}
}  // namespace

BOOST_AUTO_TEST_SUITE(notice_template)

BOOST_AUTO_TEST_CASE(a_file_defines_templates_and_leaves_the_others_built_in) {
  const auto t = parse_notice_templates(
      "# comment\n\n"
      "failure_template = <<EOF\n"
      "Charset: utf-8\n"
      "From: MAILER-DAEMON (Post)\n"
      "Subject: Nicht zugestellt\n"
      "Postmaster-Subject: Kopie\n"
      "\n"
      "Hier ist $myhostname.\n"
      "\n"
      "# no comment: gr\xc3\xbc\xc3\x9f"
      "e\n"
      "EOF\n"
      "delay_template=<<X\r\n"
      "Subject: Late\r\n"
      "\r\n"
      "It is late.\r\n"
      "X\r\n");
  BOOST_REQUIRE_MESSAGE(t.has_value(), (t ? "" : t.error().message()));
  BOOST_TEST(t->failure.charset == "utf-8");
  BOOST_TEST(t->failure.from == "MAILER-DAEMON (Post)");
  BOOST_TEST(t->failure.subject == "Nicht zugestellt");
  BOOST_TEST(t->failure.postmaster_subject == "Kopie");
  BOOST_TEST(t->failure.text ==
             "Hier ist $myhostname.\n\n# no comment: gr\xc3\xbc\xc3\x9f"
             "e\n");
  BOOST_TEST(t->delay.subject == "Late");
  BOOST_TEST(t->delay.text == "It is late.\n");
  BOOST_TEST(t->delay.charset == "us-ascii");
  BOOST_TEST(t->success.text == builtin_notice_templates().success.text);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_told_with_its_line) {
  for (const auto& [file, wanted] : {
           std::pair<std::string, std::string>{"x\n", "line 1: \"name_template = <<WORD\""},
           {"failure_template = text\n", "line 1: \"name_template = <<WORD\""},
           {"\nfail_template = <<E\n\nx\nE\n", "line 2: fail_template: failure_template,"},
           {"failure_template = <<\n", "line 1: a word that ends the template"},
           {"failure_template = <<E\nSubject: x\n\ntext\n", "line 1: no line \"E\""},
           {"failure_template = <<E\nSubject: x\n\nE\n", "line 4: the template has no text"},
           {"failure_template = <<E\nno field\n\nx\nE\n", "line 2: a header line"},
           {"failure_template = <<E\nX-Mine: x\n\nx\nE\n", "line 2: X-Mine: Charset, From"},
           {"failure_template = <<E\nSubject: \xc3\xbc\n\nx\nE\n", "line 2: Subject: only ASCII"},
           {"failure_template = <<E\nCharset: a b\n\nx\nE\n", "line 2: Charset: not the name"},
           {"failure_template = <<E\nSubject: x\n\n\xc3\xbc\nE\n", "line 4: text that is not ASCII"},
           {"failure_template = <<E\n\nx\nE\nfailure_template = <<E\n\nx\nE\n",
            "line 5: failure_template is defined twice"},
           {"failure_template = <<E\n\n" + std::string(901, 'x') + "\nE\n", "line 3: longer than"},
           {std::string(kMaxTemplateFile + 1, '\n'), "more than"},
       }) {
    BOOST_TEST(error_of(file).find(wanted) != std::string::npos, error_of(file) << " for " << wanted);
  }
}

BOOST_AUTO_TEST_SUITE_END()
