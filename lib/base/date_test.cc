#include "lib/base/date.h"

#include <boost/test/unit_test.hpp>

namespace pen {
namespace {

BOOST_AUTO_TEST_SUITE(dates)

BOOST_AUTO_TEST_CASE(dates_have_the_form_of_the_internet) {
  BOOST_TEST((parse_date_time("1970-01-01T00:00:00Z") == WallTime{}));
  BOOST_TEST((parse_date_time("2026-12-01t08:00:00.25z") == parse_date_time("2026-12-01T09:30:00+01:30")));
  BOOST_TEST(utc_text(*parse_date_time("2028-02-29T23:59:59Z")) == "2028-02-29T23:59:59Z");
  for (const char* bad :
       {"2026-12-01", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-12-01T24:00:00Z", "2026-12-01T08:00:00",
        "2026-12-01 08:00:00Z", "2026-12-01T08:00:00.Z", "2026-12-01T08:00:00+1:00", "2026-12-01T08:00:00+01:0x",
        "2o26-12-01T08:00:00Z", "2026-12-01T08:0-:00Z", "1969-12-31T23:59:59Z", ""})
    BOOST_TEST(!parse_date_time(bad).has_value(), bad);
}

BOOST_AUTO_TEST_CASE(an_administrator_may_leave_out_seconds_or_the_time_of_day) {
  const auto at = parse_date("2027-03-01T06:30:05Z");
  BOOST_REQUIRE(at.has_value());
  BOOST_TEST(unix_seconds(*at) == 1'803'882'605);
  BOOST_TEST((parse_date("2027-03-01T06:30Z") == *at - seconds(5)));
  BOOST_TEST((parse_date("2027-03-01") == parse_date("2027-03-01T00:00:00Z")));
  BOOST_TEST(utc_day(*at) == "2027-03-01");
  for (const char* bad : {"2027-3-01", "2027-02-30", "2027-03-01T06:30", "2027-03-01T6:30Z", "2027-03-01T06:30:00Z Z",
                          "2027-03-01T-6:30Z", "2027-03- 1", "soon", ""})
    BOOST_TEST(!parse_date(bad).has_value(), bad);
}

BOOST_AUTO_TEST_CASE(local_time_that_gives_nothing_or_too_much_is_empty) {
  BOOST_TEST(local_text(WallTime{}).size() == 19U);
  const std::string nothing;
  BOOST_TEST(local_text(WallTime{}, nothing.c_str()) == "");
  BOOST_TEST(local_text(WallTime{}, std::string(300, 'x').c_str()) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen
