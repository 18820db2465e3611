#include "tools/verify_tool.h"

#include <boost/test/unit_test.hpp>

#include "tools/read_options.h"

namespace pen::tools {
namespace {

using Command = VerifyTool::Command;

BOOST_AUTO_TEST_SUITE(verify_tool)

BOOST_AUTO_TEST_CASE(a_command_has_its_words_and_options_stand_anywhere) {
  const auto listed = read_options<VerifyTool>({"list", "-j"});
  BOOST_REQUIRE(listed);
  BOOST_TEST(listed->json);
  const auto forgotten = read_options<VerifyTool>({"-c", "etc", "forget", "\"odd one\"@x.example"});
  BOOST_REQUIRE(forgotten);
  BOOST_CHECK(forgotten->command == Command::forget);
  BOOST_TEST(forgotten->address == "\"odd one\"@x.example");
  BOOST_TEST(forgotten->directory == "etc");
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_refused) {
  BOOST_TEST(refusal<VerifyTool>({"list", "x"}).contains("takes no argument"));
  BOOST_TEST(refusal<VerifyTool>({"show"}).contains("takes an ADDRESS"));
  BOOST_TEST(refusal<VerifyTool>({"forget", "a", "b"}).contains("takes an ADDRESS"));
  BOOST_TEST(refusal<VerifyTool>({"check", ""}).contains("not an address"));
  const std::string longest(3000, 'x');
  BOOST_TEST(refusal<VerifyTool>({"show", longest.c_str()}).contains("not an address"));
  BOOST_TEST(refusal<VerifyTool>({"nonsense"}).contains("unknown command"));
}

BOOST_AUTO_TEST_CASE(entries_are_shown_on_one_line_whatever_is_in_them) {
  const ipc::verify::Entry entry{.address = "\"odd\n\xff\"@x.example",
                                 .state = ipc::verify::State::bad,
                                 .text = "550 no\r\n250 yes",
                                 .updated = 0,
                                 .under_way = true};
  for (const bool json : {false, true}) {
    const std::string line = VerifyTool::shown(entry, json);
    BOOST_TEST(line.find('\n') == line.size() - 1);
    BOOST_TEST(line.contains("bad"));
    BOOST_TEST(line.contains("x.example"));
    BOOST_TEST(line.contains(json ? "\"under_way\":true" : "(probing)"));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
