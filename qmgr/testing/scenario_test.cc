/// Every tests/scenario/*.scn is a test case of its name; their language has a page that is true.
#include <boost/test/unit_test.hpp>

#include "qmgr/testing/scenario_verbs.h"

namespace pen::qmgr::scenario {

static void run(const std::filesystem::path& file) {
  World world;
  for (const Statement& s : read_scenario(file)) {
    BOOST_TEST_CONTEXT(s.where << ":" << s.text) { perform(world, s); }
  }
}

BOOST_AUTO_TEST_SUITE(scenario)
static const Cases cases("tests/scenario", run);
BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(scenario_language)
BOOST_AUTO_TEST_CASE(its_page_is_what_the_tables_say) { check_page("tests/scenario/README.md", language_page()); }
BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr::scenario
