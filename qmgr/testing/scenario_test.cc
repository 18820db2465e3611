/// Every tests/scenario/*.scn is a test case of its name; their language has a page that is true.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "qmgr/testing/scenario_verbs.h"

namespace pen::qmgr::scenario {
namespace {

const std::filesystem::path kFolder = "tests/scenario";

void run(const std::filesystem::path& file) {
  World world;
  for (const Statement& s : read_scenario(file)) {
    BOOST_TEST_CONTEXT(s.where << ":" << s.text) { perform(world, s); }
  }
}

/// A case for each file, before the tests begin.
struct Cases {
  Cases() {
    std::vector<std::filesystem::path> files;
    std::error_code none;  // run elsewhere: --list_content
    for (const auto& f : std::filesystem::directory_iterator(kFolder, none)) {
      if (f.path().extension() == ".scn") files.push_back(f.path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& f : files) {
      boost::unit_test::ut_detail::auto_test_unit_registrar(
          boost::unit_test::make_test_case([f] { run(f); }, f.stem().string(), f.string(), 1),
          boost::unit_test::decorator::collector_t::instance());
    }
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(scenario)
const Cases cases;
BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(scenario_language)

// PEN_SCENARIO_PAGE=update writes it (target scenario_page_update).
BOOST_AUTO_TEST_CASE(its_page_is_what_the_tables_say) {
  const auto page = kFolder / "README.md";
  if (const char* update = std::getenv("PEN_SCENARIO_PAGE"); update != nullptr && std::string(update) == "update")
    std::ofstream(page) << language_page();
  std::ifstream in(page);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  BOOST_CHECK_MESSAGE(text == language_page(), page << " is stale: build the target scenario_page_update");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr::scenario
