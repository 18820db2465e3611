#include "tools/log_tool.h"

#include <boost/test/unit_test.hpp>

#include "tools/read_options.h"

namespace pen::tools {
namespace {

BOOST_AUTO_TEST_SUITE(log_tool)

BOOST_AUTO_TEST_CASE(a_line_has_its_priority_its_tag_and_its_words) {
  const auto o = read_options<LogTool>({"-iv", "-p", "warn", "-t", "backup", "all", "is", "well"});
  BOOST_REQUIRE(o);
  BOOST_CHECK(o->level == log::Level::warning);
  BOOST_TEST(o->tag == "backup");
  BOOST_TEST(o->words == (std::vector<std::string>{"all", "is", "well"}), boost::test_tools::per_element());
  BOOST_CHECK(read_options<LogTool>({"text"})->level == log::Level::info);
}

BOOST_AUTO_TEST_CASE(an_unknown_priority_is_refused) {
  BOOST_TEST(refusal<LogTool>({"-p", "loud"}) == "penlog: not a priority: loud; see penlog --help\n");
  for (const char* name : {"info", "warn", "warning", "error", "fatal", "panic"})
    BOOST_TEST(LogTool::level_of(name).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
