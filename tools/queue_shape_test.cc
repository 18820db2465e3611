#include "tools/queue_shape.h"

#include <boost/test/unit_test.hpp>

namespace pen::tools {

namespace {
const WallTime kNow{seconds(1'000'000'000)};

ipc::queue::Entry entry(minutes age, std::string sender, std::vector<std::string> domains) {
  ipc::queue::Entry e;
  e.arrival = kNow - age;
  e.sender = std::move(sender);
  e.domains = std::move(domains);
  return e;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(queue_shape)

BOOST_AUTO_TEST_CASE(ages_double_or_go_in_equal_steps) {
  BOOST_TEST(
      (shape_ages(minutes(5), 4, false) == std::vector<minutes>{minutes(5), minutes(10), minutes(20), minutes(40)}));
  BOOST_TEST((shape_ages(minutes(5), 3, true) == std::vector<minutes>{minutes(5), minutes(10), minutes(15)}));
  BOOST_TEST(shape_ages(minutes(5), 0, true).empty());
}

BOOST_AUTO_TEST_CASE(the_widest_columns_there_can_be_are_counted_right) {
  const auto ages = shape_ages(minutes(1'000'000), 29, false);
  BOOST_TEST(ages.back().count() == 1'000'000LL << 28);
  Shape shape({.ages = ages, .by_sender = false}, kNow);
  for (const int age : {0, 999'999, 1'000'000, 2'500'000})
    shape.add(entry(minutes(age), "a@x.example", {"one.example"}));
  BOOST_TEST(
      shape.json().starts_with(R"({"domain":"one.example","messages":4,"ages":[{"minutes":1000000,"messages":2},)"
                               R"({"minutes":2000000,"messages":1},{"minutes":4000000,"messages":1},)"
                               R"({"minutes":8000000,"messages":0},)"));
}

BOOST_AUTO_TEST_CASE(messages_are_counted_by_domain_and_age) {
  Shape shape({.ages = shape_ages(minutes(5), 2, false), .by_sender = false}, kNow);
  shape.add(entry(minutes(0), "a@x.example", {"One.example"}));
  shape.add(entry(minutes(5), "a@x.example", {"one.example", "two.example"}));
  shape.add(entry(minutes(700), "", {"two.example"}));
  shape.add(entry(minutes(9), "a@x.example", {"two.example"}));
  shape.add(entry(minutes(-3), "a@x.example", {"three.example"}));  // the clock was set back
  const std::string indent(40 - 11, ' ');
  BOOST_TEST(shape.table() == std::string(40, ' ') + " T 5 10 10+\n" + std::string(35, ' ') + "TOTAL 6 2  3   1\n" +
                                  indent + "two.example 3 0  2   1\n" + indent + "one.example 2 1  1   0\n" +
                                  std::string(27, ' ') + "three.example 1 1  0   0\n");
  BOOST_TEST(shape.json().starts_with(R"({"domain":"two.example","messages":3,"ages":[{"minutes":5,"messages":0},)"
                                      R"({"minutes":10,"messages":2},{"minutes":null,"messages":1}]})"
                                      "\n"));
}

BOOST_AUTO_TEST_CASE(messages_are_counted_by_the_senders_domain) {
  Shape shape({.ages = {minutes(5)}, .by_sender = true}, kNow);
  shape.add(entry(minutes(0), "a@X.example", {"one.example", "two.example"}));
  shape.add(entry(minutes(0), "", {"one.example"}));
  shape.add(entry(minutes(0), "root", {"one.example"}));
  const std::string table = shape.table();
  for (const char* name : {"x.example 1", "MAILER-DAEMON 1", "root 1", "TOTAL 3"})
    BOOST_TEST(table.find(name) != std::string::npos, name << " in " << table);
  BOOST_TEST(table.find("one.example") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(parent_domains_with_enough_subdomains_have_rows) {
  Shape shape({.ages = {}, .by_sender = false, .parents = 2, .rows = 0, .width = 0}, kNow);
  for (const char* domain :
       {"a.one.example", "b.one.example", "b.one.example", "x.two.example", "deep.a.one.example", "three.example"})
    shape.add(entry(minutes(0), "", {domain}));
  const std::string table = shape.table();
  // .one.example has a.one.example, b.one.example and .a.one.example; .two.example and .a.one.example have one each.
  BOOST_TEST(table.find(" .one.example 4  4\n") != std::string::npos, table);
  BOOST_TEST(table.find(" b.one.example 2  2\n") != std::string::npos, table);
  BOOST_TEST(table.find("TOTAL 6  6\n") != std::string::npos, table);
  for (const char* none : {" .two.example", " .a.one.example", " .example"})
    BOOST_TEST(table.find(none) == std::string::npos, none << " in " << table);
}

BOOST_AUTO_TEST_CASE(only_the_largest_domains_are_shown_when_so_many_are_asked_for) {
  Shape shape({.ages = {}, .by_sender = false, .parents = 0, .rows = 1, .width = 0}, kNow);
  for (const char* domain : {"one.example", "two.example", "two.example"}) shape.add(entry(minutes(0), "", {domain}));
  BOOST_TEST(shape.table().find("two.example 2") != std::string::npos);
  BOOST_TEST(shape.table().find("one.example") == std::string::npos);
  BOOST_TEST(shape.table().find("TOTAL 3") != std::string::npos);
  BOOST_TEST(shape.json().find("one.example") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_name_too_long_for_the_width_loses_its_beginning) {
  const std::string label(100, 'x');
  Shape shape({.ages = {minutes(5)}, .by_sender = false, .parents = 1, .rows = 0, .width = 80}, kNow);
  shape.add(entry(minutes(0), "", {"a." + label + ".example"}));
  const std::string table = shape.table();
  for (std::size_t at = 0; at < table.size(); at = table.find('\n', at) + 1)
    BOOST_TEST(table.find('\n', at) - at == 80U);
  BOOST_TEST(table.find("\n+xxx") != std::string::npos, table);
  BOOST_TEST(table.find("\n.+xxx") != std::string::npos, table);
  BOOST_TEST(table.find("xxx.example 1 1  0\n") != std::string::npos, table);
}

BOOST_AUTO_TEST_CASE(a_domain_cannot_forge_lines) {
  Shape shape({.ages = {minutes(5)}, .by_sender = false}, kNow);
  shape.add(entry(minutes(0), "a@x.example", {"evil\n\x1b[2Jexample"}));
  const std::string table = shape.table();
  BOOST_TEST(std::count(table.begin(), table.end(), '\n') == 3);
  BOOST_TEST(table.find('\x1b') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_empty_queue_has_a_shape) {
  const Shape shape({.ages = {minutes(5)}, .by_sender = false}, kNow);
  BOOST_TEST(shape.table().find("TOTAL 0 0  0\n") != std::string::npos);
  BOOST_TEST(shape.json().empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::tools
