/// Tests for reading main.cf and master.cf as text, and for values.
#include <boost/test/unit_test.hpp>

#include <filesystem>

#include "lib/base/text.h"
#include "lib/config/main_cf.h"
#include "lib/config/master_cf.h"
#include "lib/config/programs.h"
#include "lib/config/values.h"
#include "lib/testing/scratch.h"

namespace pen::config {
BOOST_AUTO_TEST_SUITE(files_test)

namespace {

std::string shown(const std::vector<Assignment>& all) {
  std::string out;
  for (const auto& a : all) out += std::to_string(a.line) + ":" + a.name + "=[" + a.value + "]\n";
  return out;
}
std::string first(const Problems& problems) { return problems.empty() ? "" : problems[0].message(); }

std::string main_cf(std::string_view text) {
  Problems problems;
  const auto all = parse_main_cf(text, "main.cf", problems);
  BOOST_TEST(first(problems) == "");
  return shown(all);
}
std::string main_cf_error(std::string_view text) {
  Problems problems;
  parse_main_cf(text, "main.cf", problems);
  return first(problems);
}
Service service(std::string_view line) {
  Problems problems;
  const auto all = parse_master_cf(line, "master.cf", problems);
  BOOST_TEST(first(problems) == "");
  BOOST_REQUIRE_EQUAL(all.size(), 1U);
  return all[0];
}
std::string service_error(std::string_view line) {
  Problems problems;
  BOOST_TEST(parse_master_cf(line, "master.cf", problems).empty());
  return first(problems);
}
bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }
std::string joined(const std::vector<std::string>& items) {
  std::string out;
  for (const auto& item : items) out += "<" + item + ">";
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(settings_are_read_with_blanks_trimmed_and_their_line) {
  BOOST_TEST(main_cf("a = 1\nb=2  \n\nc =\n") == "1:a=[1]\n2:b=[2]\n4:c=[]\n");
}
BOOST_AUTO_TEST_CASE(continuation_lines_join_and_comments_between_them_do_not_end_them) {
  BOOST_TEST(main_cf("a = 1,\n  2\n# no\n\n   # nor this\n\t3\nb = 4") == "1:a=[1, 2 3]\n7:b=[4]\n");
}
BOOST_AUTO_TEST_CASE(a_hash_inside_a_line_is_part_of_the_value) { BOOST_TEST(main_cf("a = 1 # 2") == "1:a=[1 # 2]\n"); }
BOOST_AUTO_TEST_CASE(lines_may_end_in_crlf) {
  BOOST_TEST(main_cf("a = 1\r\n  2\r\nb = 3\r\n") == "1:a=[1 2]\n3:b=[3]\n");
}
BOOST_AUTO_TEST_CASE(a_value_keeps_its_equal_signs) { BOOST_TEST(main_cf("a = b=c") == "1:a=[b=c]\n"); }
BOOST_AUTO_TEST_CASE(what_is_no_setting_is_reported_with_file_and_line) {
  BOOST_TEST(main_cf_error("a = 1\nnonsense\n").starts_with("main.cf:2: \"=\" is missing"));
  BOOST_TEST(has(main_cf_error("= 1"), "name before \"=\" is missing"));
  BOOST_TEST(has(main_cf_error("two words = 1"), "cannot be a name"));
  BOOST_TEST(main_cf_error(" a = 1").starts_with("main.cf:1: the first line starts with a blank"));
  BOOST_TEST(main_cf_error(std::string_view("a = 1\nb = \0", 11)).starts_with("main.cf:2: the line holds a NUL"));
}
BOOST_AUTO_TEST_CASE(an_endless_logical_line_is_refused) {
  std::string text = "a = 1\n";
  while (text.size() < kMaxLine + 2000) text += " " + std::string(1000, 'x') + "\n";
  BOOST_TEST(has(main_cf_error(text + "b = 1\n"), "longer than"));
}
BOOST_AUTO_TEST_CASE(a_file_beyond_the_bound_is_refused) {
  BOOST_TEST(has(main_cf_error(std::string(kMaxFile + 1, '\n')), "larger than"));
}

BOOST_AUTO_TEST_CASE(the_eight_columns_of_a_service_are_read) {
  const Service s = service("pickup fifo n n y 60? 1 pickup -v");
  BOOST_TEST(s.label() == "pickup/fifo");
  BOOST_TEST((s.type == ServiceType::fifo));
  BOOST_TEST((!s.is_private && !s.unprivileged && s.chroot));
  BOOST_TEST(s.wakeup_seconds == 60);
  BOOST_TEST(s.wakeup_if_used);
  BOOST_TEST(s.process_limit.value() == 1);
  BOOST_TEST(joined(s.arguments) == "<-v>");
}
BOOST_AUTO_TEST_CASE(a_dash_takes_the_default) {
  const Service s = service("x unix - - - - - smtp");
  BOOST_TEST((s.is_private && s.unprivileged && !s.chroot && !s.wakeup_if_used));
  BOOST_TEST(s.wakeup_seconds == 0);
  BOOST_TEST(!s.process_limit.has_value());
  BOOST_TEST(!service("smtp inet - - - - - smtpd").is_private);
}
BOOST_AUTO_TEST_CASE(overrides_are_read_in_all_their_forms) {
  const Service s = service("587 inet n - n - 0 smtpd\n  -o a=1 -ob=2\n  -o { c = 3 4 }\n  -o d=$e -v\n");
  BOOST_TEST(shown(s.overrides) == "1:a=[1]\n1:b=[2]\n1:c=[3 4]\n1:d=[$e]\n");
  BOOST_TEST(joined(s.arguments) == "<-v>");
  BOOST_TEST(s.process_limit.value() == 0);
}
BOOST_AUTO_TEST_CASE(braces_within_a_word_hold_its_blanks_together) {
  const Service s = service("587 inet n - n - - smtpd -o a={ 1  2 } -o b={x, {y z}}w -v\n");
  BOOST_TEST(shown(s.overrides) == "1:a=[{ 1  2 }]\n1:b=[{x, {y z}}w]\n");
  BOOST_TEST(joined(s.arguments) == "<-v>");
}
BOOST_AUTO_TEST_CASE(a_word_that_is_no_option_is_a_mistake_but_for_commands) {
  const auto wrong = [](std::string_view line) {
    Problems problems;
    const auto services = parse_master_cf(line, "master.cf", problems);
    return services.empty() && problems.size() == 1 && problems[0].severity == Severity::error ? problems[0].text : "";
  };
  BOOST_TEST(wrong("smtp inet n - n - - smtpd -o smtpd_client_restrictions=permit_mynetworks reject -o a=b\n")
                 .starts_with("\"reject\" is no option: "));
  BOOST_TEST(wrong("smtp inet n - n - 1 postscreen now\n").starts_with("\"now\" is no option: "));
  BOOST_TEST(wrong("x unix - - n - - smtp -\n").starts_with("\"-\" is no option: "));
  BOOST_TEST(wrong("smtp inet n - n - - smtpd -x\n") == "the option -x is none that a program has");
  for (const char* good :
       {"smtp inet n - n - - smtpd -v -vv -D -o a=b\n", "x unix - n n - - pipe user=u argv=/bin/x y\n",
        "x unix - n n - - spawn user=u argv=/bin/x y\n", "x unix - n n - - own_program word\n"})
    BOOST_TEST(wrong(good) == "");
}
BOOST_AUTO_TEST_CASE(an_option_after_the_first_plain_argument_belongs_to_the_command) {
  const Service s = service("x unix - n n - - pipe flags=R user=u argv=/bin/x -o y { a b }");
  BOOST_TEST(s.overrides.empty());
  BOOST_TEST(joined(s.arguments) == "<flags=R><user=u><argv=/bin/x><-o><y><a b>");
}
BOOST_AUTO_TEST_CASE(every_type_is_known) {
  for (const char* type : {"unix", "fifo", "pass", "unix-dgram"})
    BOOST_TEST(service("x " + std::string(type) + " - - n - - smtp").label() == "x/" + std::string(type));
}
BOOST_AUTO_TEST_CASE(a_line_that_cannot_be_read_says_which_column) {
  BOOST_TEST(service_error("smtp inet n").starts_with("master.cf:1: eight columns"));
  BOOST_TEST(has(service_error("x tcp - - - - - smtp"), "type"));
  BOOST_TEST(has(service_error("x unix maybe - - - - smtp"), "column private"));
  BOOST_TEST(has(service_error("x inet y - - - - smtp"), "inet service cannot be private"));
  BOOST_TEST(has(service_error("x unix - no - - - smtp"), "column unpriv"));
  BOOST_TEST(has(service_error("x unix - - 1 - - smtp"), "column chroot"));
  BOOST_TEST(has(service_error("x unix - - - often - smtp"), "column wakeup"));
  BOOST_TEST(has(service_error("x unix - - - - -1 smtp"), "column maxproc"));
  BOOST_TEST(has(service_error("x unix - - - - - /bin/smtp"), "directory"));
  BOOST_TEST(has(service_error("x unix - - - - - smtp -o"), "-o"));
  BOOST_TEST(has(service_error("x unix - - - - - smtp -o a"), "\"=\" is missing"));
}
BOOST_AUTO_TEST_CASE(the_last_of_two_services_with_one_name_and_type_counts) {
  Problems problems;
  const auto all =
      parse_master_cf("x unix - - - - 1 smtp\nx inet n - - - 2 smtpd\nx unix - - - - 3 smtp\n", "m", problems);
  BOOST_REQUIRE_EQUAL(all.size(), 2U);
  BOOST_TEST(all[0].process_limit.value() == 3);
  BOOST_TEST((problems.size() == 1 && problems[0].severity == Severity::warning && problems[0].line == 3));
}

BOOST_AUTO_TEST_CASE(times_take_units_and_a_default_unit) {
  using std::chrono::milliseconds;
  BOOST_TEST(parse_time("5", 'd')->count() == 5LL * 86'400'000);
  BOOST_TEST(parse_time("5m", 'd')->count() == 300'000);
  BOOST_TEST(parse_time("2W", 's')->count() == 2LL * 604'800'000);
  BOOST_TEST(parse_time("15ms", 's')->count() == 15);
  // Postfix looks at the first letter only.
  BOOST_TEST(parse_time("5mh", 's')->count() == 300'000);
  BOOST_TEST(parse_time("1h30", 's')->count() == 3'600'000);
  for (const char* bad : {"", "s", "5x", "5xs", "-1s", "1.5h", "5 s", "99999999999999999w"})
    BOOST_TEST(!parse_time(bad, 's').has_value(), bad);
  BOOST_TEST(time_unit("5d") == 'd');
  BOOST_TEST(time_unit("${stress?{10}:{300}}s") == 's');
  BOOST_TEST(time_unit("$ipc_idle") == 's');
}
BOOST_AUTO_TEST_CASE(sizes_take_binary_suffixes_and_must_fit) {
  BOOST_TEST(parse_size("10240000").value() == 10240000);
  BOOST_TEST(parse_size("64M").value() == 67108864);
  BOOST_TEST(parse_size("1k").value() == 1024);
  for (const char* bad : {"", "k", "-1", "1kk", "9999999999g", "99999999999999999999"})
    BOOST_TEST(!parse_size(bad).has_value(), bad);
}
BOOST_AUTO_TEST_CASE(yes_and_no_are_the_only_answers) {
  BOOST_TEST(parse_bool("YES").value());
  BOOST_TEST(!parse_bool("no").value());
  for (const char* bad : {"", "1", "true", "yes "}) BOOST_TEST(!parse_bool(bad).has_value(), bad);
}

BOOST_AUTO_TEST_CASE(a_directory_with_another_mail_systems_master_holds_none_of_our_programs) {
  const testing::ScratchDir scratch;
  const std::string dir = scratch.path();
  BOOST_TEST(!holds_programs(dir).value());
  scratch.write("master", "#!/bin/sh\n");
  BOOST_TEST(!holds_programs(dir).value());
  for (const std::size_t before : {0UL, 256 * 1024 - 7UL, 700'000UL}) {  // wherever pieces that are read at once end
    scratch.write("master", std::string(before, 'x') + "@(#) a program of the Penstock mail system\n");
    BOOST_TEST(holds_programs(dir).value());
  }
  std::filesystem::remove(scratch.file("master"));
  // This test is linked with what marks a program as ours.
  std::filesystem::create_symlink("/proc/self/exe", scratch.file("master"));
  BOOST_TEST(holds_programs(dir).value());
  std::filesystem::remove(scratch.file("master"));
  std::filesystem::create_symlink("master", scratch.file("master"));
  BOOST_TEST(holds_programs(dir).error().is_errno(ELOOP));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::config
