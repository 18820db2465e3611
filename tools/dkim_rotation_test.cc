// What pendkim rotate writes.
#include "tools/dkim_rotation.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/date.h"
#include "lib/trust/signing/key_dates.h"

BOOST_AUTO_TEST_SUITE(dkim_rotation)

using namespace pen;
using namespace pen::tools;

BOOST_AUTO_TEST_CASE(the_new_key_stands_behind_the_old_one_in_each_line) {
  std::size_t added = 0;
  BOOST_TEST(with_successor("# senders\n*@a.example old\n*@b.example  ed,OLD:jo@b.example # two\n*@c.example other\n"
                            "*@d.example old,new\n\nbroken",
                            {"old"}, "new", added) ==
             "# senders\n*@a.example old,new\n*@b.example  ed,OLD:jo@b.example,new:jo@b.example # two\n"
             "*@c.example other\n*@d.example old,new\n\nbroken\n");
  BOOST_TEST(added == 2u);
}

BOOST_AUTO_TEST_CASE(a_line_with_two_old_keys_gets_the_new_one_once) {
  std::size_t added = 0;
  BOOST_TEST(with_successor("*@a.example one,two\n", {"one", "two"}, "new", added) == "*@a.example one,new,two\n");
}

BOOST_AUTO_TEST_CASE(dates_follow_each_other) {
  const WallTime december = *parse_date("2026-12-01");
  const std::string first = with_dates("", {"old"}, "new", december);
  BOOST_TEST(first == "old - 2026-12-01T00:00:00Z\nnew 2026-12-01T00:00:00Z -\n");
  const std::string second = with_dates(first + "# kept\n", {"new"}, "next", *parse_date("2027-03-01T06:00Z"));
  BOOST_TEST(second ==
             "old - 2026-12-01T00:00:00Z\nnew 2026-12-01T00:00:00Z 2027-03-01T06:00:00Z\n# kept\n"
             "next 2027-03-01T06:00:00Z -\n");
  BOOST_TEST(signing::KeyDateTable::parse(second, "dates").has_value());
}

BOOST_AUTO_TEST_CASE(a_key_table_grows_by_a_line) {
  BOOST_TEST(with_key("a a.example:s:/a", "b", "b.example:t:/b") == "a a.example:s:/a\nb b.example:t:/b\n");
  BOOST_TEST(with_key("", "b", "b.example:t:/b") == "b b.example:t:/b\n");
}

BOOST_AUTO_TEST_CASE(a_selector_is_the_month_of_its_first_day) {
  BOOST_TEST(selector_of(*parse_date("2027-01-31")) == "s202701");
}

BOOST_AUTO_TEST_SUITE_END()
