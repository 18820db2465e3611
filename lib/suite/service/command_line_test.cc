#include "lib/suite/service/command_line.h"

#include <sysexits.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"

namespace pen::service {
namespace {

using Words = std::vector<std::string>;

/// A tool with options that say what they were given.
struct Tool {
  Words taken;
  bool flag = false;
  int number = 5;
  char mode = 0;
  CommandLine line{.program = "tool",
                   .usage = {"tool [-fx] [-t TAG] [WORD ...]", "tool --long"},
                   .about = "Does what it is told.",
                   .options = {{"-t TAG, --tag TAG", "a value", note()},
                               {"-q[TIME]", "a value or none", note()},
                               {"-f, --flag", "a flag", set(flag)},
                               {"-n COUNT", "a number", into(number, 1, 30)},
                               {"-d, -s ID", "two letters, one value", note()},
                               {"-E", "a mode", choose(mode, 'E', "-E, -X")},
                               {"-X", "another", choose(mode, 'X', "-E, -X")},
                               {"-r", "not here", refused("it has no sense")},
                               {"", "Of these:"},
                               {"-b", "for --help alone"},
                               {"--long-name-of-an-option TEXT", "beside nothing", note()}}};

  std::function<std::string(const Given&)> note() {
    return [this](const Given& given) {
      taken.push_back(given.name + "=" + given.value);
      return std::string();
    };
  }
  std::expected<Words, Ending> read(const Words& words) {
    std::vector<const char*> argv = {"tool"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    return line.read(static_cast<int>(argv.size()), argv.data());
  }
  std::string complaint(const Words& words) {
    const auto done = read(words);
    BOOST_REQUIRE(!done);
    BOOST_TEST(done.error().status == EX_USAGE);
    return done.error().text;
  }
};

BOOST_AUTO_TEST_SUITE(command_line)

BOOST_AUTO_TEST_CASE(by_a_name_of_postfix_a_command_fails_with_the_status_that_its_command_has) {
  for (const int failed : {EX_USAGE, EX_NOINPUT, EX_TEMPFAIL, EX_CONFIG}) {
    for (const char* name : {"postmap", "postalias", "postcat", "postconf", "postsuper", "postmulti", "postfix",
                             "postlog", "postkick", "postdrop"})
      BOOST_TEST(status_as(name, failed) == 1, name);
    BOOST_TEST(status_as("postqueue", failed) == EX_UNAVAILABLE);
    BOOST_TEST(status_as("postlock", failed) == EX_TEMPFAIL);
    for (const char* name : {"penmap", "penstock", "sendmail", "mailq", "newaliases", "pendest"})
      BOOST_TEST(status_as(name, failed) == failed, name);
  }
  for (const int other : {0, 1, 2, 126}) BOOST_TEST(status_as("postqueue", other) == other);
}

BOOST_AUTO_TEST_CASE(options_act_in_the_order_in_which_they_are_given) {
  Tool tool;
  const auto words = tool.read({"-s", "1", "-t", "2", "word", "-d3", "--tag=4", "-s", "-"});
  BOOST_TEST(words.value() == Words{"word"}, boost::test_tools::per_element());
  BOOST_TEST(tool.taken == (Words{"-s=1", "-t=2", "-d=3", "--tag=4", "-s=-"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_optional_value_is_never_the_next_word) {
  Tool tool;
  BOOST_TEST(tool.read({"-q", "word", "-q15m"}).value() == Words{"word"}, boost::test_tools::per_element());
  BOOST_TEST(tool.taken == (Words{"-q=", "-q=15m"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(after_two_dashes_everything_is_a_word) {
  Tool tool;
  BOOST_TEST(tool.read({"-f", "--", "-f", "--tag"}).value() == (Words{"-f", "--tag"}),
             boost::test_tools::per_element());
  BOOST_TEST(tool.flag);
}

BOOST_AUTO_TEST_CASE(where_words_end_the_options_those_behind_are_words) {
  Tool tool;
  tool.line.options_end_at_a_word = true;
  BOOST_TEST(tool.read({"-t", "a", "word", "-f"}).value() == (Words{"word", "-f"}), boost::test_tools::per_element());
  BOOST_TEST(!tool.flag);
}

BOOST_AUTO_TEST_CASE(a_wrong_command_line_is_named_with_the_way_to_the_help) {
  Tool tool;
  BOOST_TEST(tool.complaint({"-fz"}) == "tool: no such option: -z; see tool --help\n");
  BOOST_TEST(tool.complaint({"--nosuch"}) == "tool: no such option: --nosuch; see tool --help\n");
  BOOST_TEST(tool.complaint({"-b"}) == "tool: no such option: -b; see tool --help\n");
  BOOST_TEST(tool.complaint({"-t"}) == "tool: -t needs a value; see tool --help\n");
  BOOST_TEST(tool.complaint({"--tag"}) == "tool: --tag needs a value; see tool --help\n");
  BOOST_TEST(tool.complaint({"--flag=1"}) == "tool: --flag takes no value; see tool --help\n");
  BOOST_TEST(tool.complaint({"-r"}) == "tool: -r: it has no sense; see tool --help\n");
  BOOST_TEST(tool.complaint({"-EX"}) == "tool: only one of -E, -X; see tool --help\n");
}

BOOST_AUTO_TEST_CASE(a_caller_that_gives_no_words_at_all_not_even_a_name_is_read) {
  Tool tool;
  const char* const none[] = {nullptr};
  BOOST_TEST(tool.line.read(0, none).value().empty());
}

BOOST_AUTO_TEST_CASE(a_number_is_within_its_bounds) {
  for (const char* wrong : {"0", "31", "-1", "1x", "", "99999999999999999999"}) {
    Tool tool;
    BOOST_TEST(tool.complaint({"-n", wrong}) ==
               std::string("tool: -n: a number from 1 to 30 is wanted, not ") + wrong + "; see tool --help\n");
    BOOST_TEST(tool.number == 5);
  }
  Tool tool;
  BOOST_TEST(tool.read({"-n30"}).has_value());
  BOOST_TEST(tool.number == 30);
}

BOOST_AUTO_TEST_CASE(the_help_is_made_from_the_table) {
  Tool tool;
  BOOST_TEST(tool.line.help() ==
             "usage: tool [-fx] [-t TAG] [WORD ...]\n"
             "       tool --long\n"
             "\n"
             "Does what it is told.\n"
             "  -t TAG, --tag TAG  a value\n"
             "  -q[TIME]           a value or none\n"
             "  -f, --flag         a flag\n"
             "  -n COUNT           a number\n"
             "  -d, -s ID          two letters, one value\n"
             "  -E                 a mode\n"
             "  -X                 another\n"
             "  -r                 not here\n"
             "Of these:\n"
             "  -b                 for --help alone\n"
             "  --long-name-of-an-option TEXT\n"
             "                     beside nothing\n"
             "  --help             this text\n"
             "  --version          the version\n");
}

BOOST_AUTO_TEST_CASE(no_line_of_the_help_is_wider_than_a_terminal_and_no_brackets_are_torn) {
  Tool tool;
  for (int i = 0; i < 20; ++i) {
    tool.line.usage[0] += " [-a VALUE]";
    tool.line.about += " word";
    tool.line.options[0].text += " word";
  }
  const std::string help = tool.line.help();
  BOOST_TEST(help.find("\n            [-a VALUE]") != std::string::npos);
  BOOST_TEST(help.find("\n                     word") != std::string::npos);
  for (const std::string_view text : split(help, "\n")) {
    BOOST_TEST(text.size() <= 80U);
    BOOST_TEST(!text.ends_with("[-a"));
  }
}

BOOST_AUTO_TEST_CASE(help_and_version_end_the_command_before_it_does_anything) {
  Tool tool;
  const auto help = tool.read({"-t", "1", "--help", "-t", "2", "-z"});
  BOOST_REQUIRE(!help);
  BOOST_TEST(help.error().status == EX_OK);
  BOOST_TEST(help.error().text == tool.line.help());
  BOOST_TEST(tool.taken == Words{"-t=1"}, boost::test_tools::per_element());
  const auto version = tool.read({"--version"});
  BOOST_REQUIRE(!version);
  BOOST_TEST(version.error().status == EX_OK);
  BOOST_TEST(version.error().text == "tool (Penstock) " PEN_VERSION "\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::service
