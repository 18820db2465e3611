#include "tools/import_ledger.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "lib/testing/scratch.h"

using namespace pen;
using pen::tools::ImportLedger;
using Way = ImportLedger::Way;
using Stage = ImportLedger::Stage;
namespace fs = std::filesystem;

namespace {

struct Directory {
  pen::testing::ScratchDir scratch;
  const fs::path path = scratch.path();
  ImportLedger open() const {
    auto ledger = ImportLedger::open(path);
    BOOST_REQUIRE_MESSAGE(ledger, (ledger ? "" : ledger.error().message()));
    return *std::move(ledger);
  }
  void add(const std::string& text) const { std::ofstream(path / "ledger", std::ios::app) << text; }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(import_ledger, Directory)

BOOST_AUTO_TEST_CASE(what_was_taken_is_known_after_the_process) {
  {
    auto ledger = open();
    BOOST_REQUIRE(ledger.begin({{"A@1.5", {.id = "A", .way = Way::hold}}, {"B@2.0", {.id = "4xyz"}}}));
    BOOST_REQUIRE(ledger.advance({"A@1.5"}, Stage::taken));
    BOOST_REQUIRE(ledger.advance({"A@1.5"}, Stage::released));
    BOOST_REQUIRE(ledger.advance({"B@2.0"}, Stage::taken));
  }
  const auto ledger = open();
  BOOST_REQUIRE(ledger.find("A@1.5") != nullptr);
  BOOST_CHECK(ledger.find("A@1.5")->stage == Stage::released);
  BOOST_CHECK(ledger.find("A@1.5")->way == Way::hold);
  BOOST_CHECK(ledger.find("B@2.0")->stage == Stage::taken);
  BOOST_CHECK_EQUAL(ledger.find("B@2.0")->id, "4xyz");
  BOOST_CHECK(ledger.is_used("4xyz") && !ledger.is_used("B"));
  BOOST_CHECK(ledger.find("C@3.0") == nullptr);
  BOOST_REQUIRE_EQUAL(ledger.unfinished().size(), 1);
  BOOST_CHECK_EQUAL(ledger.unfinished()[0].first, "B@2.0");
}

BOOST_AUTO_TEST_CASE(a_line_that_a_crash_cut_is_forgotten_and_written_anew) {
  BOOST_REQUIRE(open().begin({{"A@1.0", {.id = "A"}}}));
  add("b q B");
  {
    auto ledger = open();
    BOOST_CHECK(ledger.find("A@1.0") != nullptr);
    BOOST_REQUIRE(ledger.begin({{"B@2.0", {.id = "B"}}}));
  }
  BOOST_CHECK(open().find("B@2.0") != nullptr);
}

BOOST_AUTO_TEST_CASE(a_line_that_is_none_is_an_error) {
  add("b q A A@1.0\nx\n");
  const auto ledger = ImportLedger::open(path);
  BOOST_REQUIRE(!ledger);
  BOOST_CHECK(ledger.error().is(tools::LedgerError::damaged));
}

BOOST_AUTO_TEST_CASE(two_imports_at_once_are_refused) {
  const auto first = open();
  const auto second = ImportLedger::open(path);
  BOOST_REQUIRE(!second);
  BOOST_CHECK(second.error().is(tools::LedgerError::busy));
}

BOOST_AUTO_TEST_CASE(a_look_changes_nothing) {
  BOOST_CHECK(ImportLedger::open(path, true));
  BOOST_CHECK(!fs::exists(path / "ledger"));
  add("b q A A@1.0\nb q");
  BOOST_CHECK(ImportLedger::open(path, true)->find("A@1.0") != nullptr);
  BOOST_CHECK_EQUAL(fs::file_size(path / "ledger"), 15);
}

BOOST_AUTO_TEST_SUITE_END()
