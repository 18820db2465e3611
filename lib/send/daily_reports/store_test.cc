#include "lib/send/daily_reports/store.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "lib/testing/scratch.h"

using namespace pen;

namespace {
struct Counted {
  std::int64_t day = 0;
  std::string domain;
  std::uint64_t count = 0;
  std::vector<std::string> reached;
  PEN_FIELDS(day, domain, count, reached)
};
using Store = pen::daily_reports::Store<Counted>;

Counted day(std::int64_t number, const std::string& domain, std::uint64_t count) {
  return {.day = number, .domain = domain, .count = count, .reached = {}};
}
}  // namespace

BOOST_AUTO_TEST_SUITE(daily_reports_store)

BOOST_AUTO_TEST_CASE(what_was_written_is_there_after_a_restart) {
  pen::testing::ScratchDir dir;
  const std::string path = dir.path().string() + "/reports";
  {
    auto store = Store::open(path, "reports");
    BOOST_REQUIRE(store.has_value());
    BOOST_TEST((*store)->load()->empty());
    BOOST_REQUIRE((*store)
                      ->write({{5, "a.example", day(5, "a.example", 1)},
                               {5, "b.example", day(5, "b.example", 2)},
                               {4, "c.example", day(4, "c.example", 3)}})
                      .has_value());
    BOOST_REQUIRE((*store)
                      ->write({{5, "a.example", std::nullopt},
                               {9, "z.example", std::nullopt},
                               {5, "b.example", day(5, "b.example", 20)}})
                      .has_value());
  }
  auto store = Store::open(path, "reports");
  BOOST_REQUIRE(store.has_value());
  const auto days = *(*store)->load();
  BOOST_REQUIRE(days.size() == 2u);
  BOOST_TEST(days[0].domain == "c.example");  // oldest first
  BOOST_TEST(days[1].domain == "b.example");
  BOOST_TEST(days[1].count == 20u);
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_set_aside_and_made_anew) {
  pen::testing::ScratchDir dir;
  const std::string path = dir.path().string() + "/reports";
  {
    auto store = Store::open(path, "reports");
    BOOST_REQUIRE(store.has_value());
    BOOST_REQUIRE((*store)->write({{5, "a.example", day(5, "a.example", 1)}}).has_value());
  }
  std::ofstream(path + "/data.mdb", std::ios::in | std::ios::out).write("garbage garbage garbage", 23);
  auto store = Store::open(path, "reports");
  BOOST_REQUIRE(store.has_value());
  BOOST_TEST((*store)->warning().find("set aside") != std::string::npos);
  BOOST_TEST((*store)->load()->empty());
  BOOST_TEST(::access((path + "/damaged/data.mdb").c_str(), F_OK) == 0);
  BOOST_TEST((*store)->write({{5, "a.example", day(5, "a.example", 1)}}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
