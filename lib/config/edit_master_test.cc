#include "lib/config/edit_master.h"

#include <boost/test/unit_test.hpp>

#include "lib/config/problem.h"

namespace pen::config {
namespace {

using Kind = Edit::Kind;
using Of = ServiceEdit::Of;

constexpr std::string_view kFile =
    "# head\n"
    "smtp      inet  n       -       y       -       -       smtpd\n"
    "  -o a=b\n"
    "# why\n"
    "  -o {c = d e}\n"
    "#submission inet n - y - - smtpd\n"
    "pickup    unix  n       -       y       60      1       pickup\n"
    "maildrop  unix  -       n       n       -       -       pipe\n"
    "  flags=DRXhu user=vmail argv=/usr/bin/maildrop -d -o ${recipient}\n";

std::string edited(std::string_view text, std::vector<ServiceEdit> edits) {
  const auto done = edit_master_cf(text, edits);
  return done ? done->text : "error: " + done.error().message();
}
/// The services of the text, each with its words after the command.
std::string line_of(const std::string& text, std::string_view label) {
  Problems problems;
  for (const Service& one : parse_master_cf(text, "", problems)) {
    if (one.label() == label) return service_text(one, one.words, false);
  }
  return "none";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(edit_master_test)

BOOST_AUTO_TEST_CASE(a_service_is_changed_where_it_stands_and_the_rest_stays) {
  const std::string text =
      edited(kFile, {{.name = "pickup", .type = "unix", .value = "pickup unix n - n 30 1 pickup"}});
  BOOST_TEST(text.find("\n#submission inet n - y - - smtpd\n"
                       "pickup     unix  n       -       n       30      1       pickup\nmaildrop  unix") !=
             std::string::npos);
  BOOST_TEST(text.starts_with(kFile.substr(0, kFile.find("pickup"))));
}
// As postconf -Mf of Postfix 3.7 has them.
BOOST_AUTO_TEST_CASE(long_lines_are_folded_between_words_and_settings_have_their_own) {
  Problems problems;
  std::string shown;
  for (const Service& one : parse_master_cf("a unix - n n - - pipe -v -o a=b flags=Fq user=u argv=x\n  -o c=d\n"
                                            "b unix - n n - - pipe -v 1234567890123\n"
                                            "c unix - n n - - pipe -v 12345678901234567 -o a=b\n"
                                            "d unix - n n - - pipe 123456789012345678\n"
                                            "e inet n - n - - smtpd -o {c = d e}\n",
                                            "", problems))
    shown += service_text(one, one.words, true) + "\n";
  BOOST_TEST(shown ==
             "a          unix  -       n       n       -       -       pipe -v\n"
             "    -o a=b\n"
             "    flags=Fq user=u argv=x -o c=d\n"
             "b          unix  -       n       n       -       -       pipe -v 1234567890123\n"
             "c          unix  -       n       n       -       -       pipe -v\n"
             "    12345678901234567 -o a=b\n"
             "d          unix  -       n       n       -       -       pipe\n"
             "    123456789012345678\n"
             "e          inet  n       -       n       -       -       smtpd\n"
             "    -o {c=d e}\n");
}

BOOST_AUTO_TEST_CASE(a_service_that_is_not_there_is_added_with_its_settings_folded) {
  const std::string text =
      edited(kFile, {{.name = "submission",
                      .type = "inet",
                      .value = "submission inet n - n - - smtpd\n -o syslog_name=x/submission -o { y = a b }"}});
  BOOST_TEST(text == std::string(kFile) +
                         "submission inet  n       -       n       -       -       smtpd\n"
                         "    -o syslog_name=x/submission\n    -o {y=a b}\n");
}
BOOST_AUTO_TEST_CASE(of_two_places_the_one_that_counts_is_changed_and_the_other_goes) {
  const std::string twice = "a unix - - - - - smtp\nb unix - - - - - smtp\na unix - - - - - lmtp\n";
  const std::string text = edited(twice, {{.name = "a", .type = "unix", .value = "a unix - - - - - error"}});
  BOOST_TEST(text.starts_with("b unix - - - - - smtp\na "), text);
  BOOST_TEST(line_of(text, "a/unix").ends_with(" error"));
}
BOOST_AUTO_TEST_CASE(a_service_goes_with_all_its_lines_and_comments_between_them_stay) {
  const std::string gone = edited(kFile, {{.kind = Kind::remove, .name = "smtp", .type = "inet"}});
  BOOST_TEST(gone.starts_with("# head\n# why\n#submission"));
  const std::string out = edited(kFile, {{.kind = Kind::comment_out, .name = "smtp", .type = "inet"}});
  BOOST_TEST(out.find("#smtp      inet") != std::string::npos);
  BOOST_TEST(out.find("\n#  -o a=b\n# why\n#  -o {c = d e}\n") != std::string::npos);
  BOOST_TEST(line_of(out, "smtp/inet") == "none");
}
BOOST_AUTO_TEST_CASE(a_column_of_all_services_is_set) {
  const std::string text =
      edited(kFile, {{.of = Of::column, .name = "*", .type = "*", .part = "chroot", .value = "n"}});
  Problems problems;
  const auto services = parse_master_cf(text, "", problems);
  BOOST_REQUIRE(services.size() == 3U);
  for (const Service& one : services) BOOST_TEST(!one.chroot, one.name);
  BOOST_TEST(services[0].overrides.size() == 2U);
  BOOST_TEST(services[0].overrides[1].value == "d e");
  BOOST_TEST(services[2].arguments.back() == "${recipient}");
  BOOST_TEST(text.starts_with("# head\n# why\nsmtp "));
}
BOOST_AUTO_TEST_CASE(the_command_is_the_rest_of_the_line) {
  const std::string text = edited(kFile, {{.of = Of::column,
                                           .name = "maildrop",
                                           .type = "unix",
                                           .part = "command",
                                           .value = "pipe flags=R argv=/bin/x ${user}"}});
  BOOST_TEST(line_of(text, "maildrop/unix").ends_with(" pipe flags=R argv=/bin/x ${user}"));
}
BOOST_AUTO_TEST_CASE(a_setting_of_a_service_is_set_changed_and_removed) {
  std::string text = edited(kFile, {{.of = Of::setting, .name = "smtp", .type = "inet", .part = "a", .value = "x y"},
                                    {.of = Of::setting, .name = "smtp", .type = "inet", .part = "new", .value = "1"}});
  BOOST_TEST(line_of(text, "smtp/inet").ends_with("smtpd -o {a=x y} -o {c=d e} -o new=1"));
  text = edited(text, {{.kind = Kind::remove, .of = Of::setting, .name = "smtp", .type = "inet", .part = "a"},
                       {.kind = Kind::remove, .of = Of::setting, .name = "smtp", .type = "inet", .part = "new"}});
  BOOST_TEST(line_of(text, "smtp/inet").ends_with("smtpd -o {c=d e}"));
}
BOOST_AUTO_TEST_CASE(a_setting_stands_before_the_words_of_a_command) {
  const std::string text =
      edited(kFile, {{.of = Of::setting, .name = "maildrop", .type = "unix", .part = "syslog_name", .value = "drop"}});
  BOOST_TEST(line_of(text, "maildrop/unix")
                 .ends_with("pipe -o syslog_name=drop flags=DRXhu user=vmail "
                            "argv=/usr/bin/maildrop -d -o ${recipient}"));
}
BOOST_AUTO_TEST_CASE(of_a_setting_that_is_there_twice_one_is_left) {
  const std::string text = edited("a unix - - - - - smtp -v -oz=1 -o y=2 -o z=3\n",
                                  {{.of = Of::setting, .name = "a", .type = "unix", .part = "z", .value = "4"}});
  BOOST_TEST(line_of(text, "a/unix").ends_with("smtp -v -o y=2 -o z=4"));
  BOOST_TEST(line_of(edited("a unix - - - - - smtp -oz=1 -o z=3\n",
                            {{.kind = Kind::remove, .of = Of::setting, .name = "a", .type = "unix", .part = "z"}}),
                     "a/unix")
                 .ends_with(" smtp"));
}
BOOST_AUTO_TEST_CASE(what_is_not_there_is_told_and_changes_nothing) {
  const std::vector<ServiceEdit> edits = {
      {.of = Of::column, .name = "nosuch", .type = "unix", .part = "chroot", .value = "n"},
      {.kind = Kind::remove, .name = "smtp", .type = "unix"}};
  const auto done = edit_master_cf(kFile, edits);
  BOOST_REQUIRE(done);
  BOOST_TEST(done->text == kFile);
  BOOST_TEST(done->unmatched.size() == 2U);
}
BOOST_AUTO_TEST_CASE(what_is_no_service_and_no_column_is_refused) {
  const auto refused = [](ServiceEdit edit) {
    edit.name = "smtp";
    edit.type = "inet";
    const std::string text = edited(kFile, {std::move(edit)});
    return text.starts_with("error: ");
  };
  BOOST_TEST(refused({.value = "smtp inet n - n -"}));
  BOOST_TEST(refused({.value = ""}));
  BOOST_TEST(refused({.value = "# a comment"}));
  BOOST_TEST(refused({.of = Of::column, .part = "nosuch", .value = "n"}));
  BOOST_TEST(refused({.of = Of::column, .part = "chroot", .value = "perhaps"}));
  BOOST_TEST(refused({.of = Of::column, .part = "chroot", .value = "n - -"}));
  BOOST_TEST(refused({.of = Of::column, .part = "chroot", .value = ""}));
  BOOST_TEST(refused({.of = Of::setting, .part = "a b", .value = "1"}));
  BOOST_TEST(refused({.of = Of::setting, .part = "a", .value = "1\nx"}));
  BOOST_TEST(refused({.of = Of::setting, .part = "a", .value = "x } y"}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::config
