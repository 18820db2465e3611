#include "tools/destination_tool.h"

#include <boost/test/unit_test.hpp>

#include "tools/read_options.h"

namespace pen::tools {
namespace {

using Command = DestinationTool::Command;

BOOST_AUTO_TEST_SUITE(destination_tool)

BOOST_AUTO_TEST_CASE(a_command_has_its_words_and_options_stand_anywhere) {
  const auto listed = read_options<DestinationTool>({"list", "-j"});
  BOOST_REQUIRE(listed);
  BOOST_CHECK(listed->command == Command::list);
  BOOST_TEST(listed->json);
  const auto suspended = read_options<DestinationTool>({"-c", "etc", "suspend", "MX.Example.COM", "until", "Monday"});
  BOOST_REQUIRE(suspended);
  BOOST_CHECK(suspended->command == Command::suspend);
  BOOST_TEST(suspended->directory == "etc");
  BOOST_TEST(suspended->destination == "mx.example.com");
  BOOST_TEST(suspended->reason == "until Monday");
  const auto explained = read_options<DestinationTool>({"explain", "a@b.example", "c@d.example"});
  BOOST_REQUIRE(explained);
  BOOST_TEST(explained->recipient == "a@b.example");
  BOOST_TEST(explained->sender == "c@d.example");
  BOOST_TEST(read_options<DestinationTool>({"explain", "a@b.example", "<>"})->sender == "");
  // As an alert names a destination.
  const auto shown = read_options<DestinationTool>({"explain", "mx.example[192.0.2.1]:25"});
  BOOST_REQUIRE(shown);
  BOOST_CHECK(shown->command == Command::show);
  BOOST_TEST(shown->destination == "[192.0.2.1]:25");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_meant_is_refused) {
  const auto refused = [](std::initializer_list<const char*> words, const char* why) {
    const std::string text = refusal<DestinationTool>(words);
    BOOST_TEST(text.find(why) != std::string::npos, text);
  };
  refused({}, "usage: pendest");
  refused({"stop"}, "unknown command: stop");
  refused({"list", "all"}, "list takes no argument");
  refused({"show"}, "show takes DEST");
  refused({"resume", "a.example", "b.example"}, "resume takes DEST");
  refused({"explain"}, "explain takes USER@DOMAIN [SENDER]");
  refused({"explain", "a@b.example", "c@d.example", "e"}, "explain takes USER@DOMAIN [SENDER]");
  refused({"explain", "a@"}, "not an address user@domain: a@");
  refused({"explain", "a@b.example", std::string(1001, 'x').c_str()}, "no sender is that long");
  refused({"forget", "192.0.2.0/24"}, "neither a host, an address nor a domain");
}

BOOST_AUTO_TEST_CASE(the_help_has_every_command) {
  const std::string help = refusal<DestinationTool>({"--help"});
  for (const char* command : {"list", "show", "suspend", "resume", "forget", "explain"})
    BOOST_TEST(help.find("\n  " + std::string(command)) != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
