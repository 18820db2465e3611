// Dates of keys, and which keys sign at which time.
#include "lib/trust/signing/key_dates.h"

#include <boost/test/unit_test.hpp>
#include <map>

#include "lib/base/date.h"

BOOST_AUTO_TEST_SUITE(key_dates)

namespace {

using namespace pen;
using namespace pen::signing;

constexpr const char* kTable =
    "# the change of keys of December\n"
    "old - 2026-12-01\n"
    "New 2026-12-01T00:00Z 2027-03-01   # in lower case or not\n"
    "next 2027-03-01T06:30:00Z -\n";

std::string due(const std::string& at, std::map<std::string, RecordSeen> records = {},
                std::vector<std::string> names = {"old", "new", "next"}) {
  const auto table = KeyDateTable::parse(kTable, "dates");
  BOOST_REQUIRE(table.has_value());
  std::string out;
  for (const std::size_t i :
       keys_due(names, *table, [&](std::string_view name) { return records[std::string(name)]; }, *parse_date(at)))
    out += (out.empty() ? "" : " ") + names[i];
  return out;
}
constexpr auto kThere = RecordSeen::there, kMissing = RecordSeen::missing;

}  // namespace

BOOST_AUTO_TEST_CASE(keys_follow_each_other_by_date) {
  const std::map<std::string, RecordSeen> all{{"new", kThere}, {"next", kThere}};
  BOOST_TEST(due("2026-11-30T23:59:59Z", all) == "old");
  BOOST_TEST(due("2026-12-01", all) == "new");
  BOOST_TEST(due("2027-02-28", all) == "new");
  BOOST_TEST(due("2027-03-01T06:30Z", all) == "next");
}

BOOST_AUTO_TEST_CASE(between_two_keys_the_last_one_goes_on) {
  BOOST_TEST(due("2027-03-01T03:00Z", {{"new", kThere}, {"next", kThere}}) == "new");
}

BOOST_AUTO_TEST_CASE(a_key_without_its_record_does_not_sign) {
  BOOST_TEST(due("2026-12-01", {{"new", kMissing}}) == "old");
  BOOST_TEST(due("2026-12-20", {{"new", kMissing}}) == "old");
  BOOST_TEST(due("2026-12-01T00:00:01Z") == "old");  // nobody has asked yet
  BOOST_TEST(due("2026-12-02", {}) == "new");        // it has signed for a day: this is a restart
  BOOST_TEST(due("2027-03-02", {{"new", kThere}, {"next", kMissing}}) == "new");
}

BOOST_AUTO_TEST_CASE(keys_without_dates_sign_always_and_beside_others) {
  BOOST_TEST(due("2026-11-01", {}, {"ed", "old", "new"}) == "ed old");
  BOOST_TEST(due("2026-12-20", {{"new", kThere}}, {"ed", "old", "new"}) == "ed new");
  BOOST_TEST(due("2026-12-20", {{"new", kMissing}}, {"ed", "old", "new"}) == "ed old");
}

BOOST_AUTO_TEST_CASE(a_key_that_is_over_goes_on_where_there_is_no_other) {
  BOOST_TEST(due("2030-01-01", {}, {"old"}) == "old");
}

BOOST_AUTO_TEST_CASE(a_key_without_another_signs_though_dns_lacks_its_record) {
  BOOST_TEST(due("2026-12-20", {{"new", kMissing}}, {"new"}) == "new");  // as after a restart, with DNS in trouble
  BOOST_TEST(due("2026-12-01", {{"new", RecordSeen::unanswered}}, {"new"}) == "new");
  BOOST_TEST(due("2026-12-01", {}, {"new", "next"}) == "new");
  BOOST_TEST(due("2026-12-20", {{"new", kMissing}}, {"new", "next"}) == "new");
}

BOOST_AUTO_TEST_CASE(before_all_first_dates_the_first_key_signs) {
  BOOST_TEST(due("2020-01-01", {}, {"new"}) == "new");
  BOOST_TEST(due("2020-01-01", {}, {"next", "new"}) == "new");
}

BOOST_AUTO_TEST_CASE(of_keys_that_wait_for_their_records_the_latest_signs) {
  const auto table =
      KeyDateTable::parse("a 2026-01-01 -\nb 2026-06-01 -\nb-ed 2026-06-01 -\nc 2027-01-01 -\n", "dates");
  BOOST_REQUIRE(table.has_value());
  const std::vector<std::string> names{"a", "b", "b-ed", "c"};
  const auto none = [](std::string_view) { return kMissing; };
  BOOST_TEST(keys_due(names, *table, none, *parse_date("2026-08-01")) == (std::vector<std::size_t>{1, 2}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(silence_of_dns_proves_no_record_however_long_it_lasts) {
  BOOST_TEST(due("2026-12-01", {{"new", RecordSeen::unanswered}}) == "old");
  BOOST_TEST(due("2026-12-20", {{"new", RecordSeen::unanswered}}) == "old");
}

BOOST_AUTO_TEST_CASE(lines_that_make_no_sense_are_named) {
  for (const char* bad :
       {"a 2026-12-01\n", "a - -  x\n", "a 2026-13-01 -\n", "a 2026-02-30 -\n", "a soon -\n", "a 2026-12-01T25:00Z -\n",
        "a 2026-12-01T06:00 -\n", "a 2026-12-02 2026-12-01\n", "a - -\nA - -\n"}) {
    const auto table = KeyDateTable::parse(bad, "dates");
    BOOST_TEST(!table.has_value(), bad);
    BOOST_TEST(table.error().message().contains("dates:"), table.error().message());
  }
}

BOOST_AUTO_TEST_SUITE_END()
