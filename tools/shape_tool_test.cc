#include "tools/shape_tool.h"

#include <boost/test/unit_test.hpp>

#include "tools/read_options.h"

namespace pen::tools {
namespace {

using ipc::queue::bit_of;
using ipc::queue::Place;

BOOST_AUTO_TEST_SUITE(shape_tool)

BOOST_AUTO_TEST_CASE(without_options_ten_columns_of_what_is_incoming_and_active) {
  const auto o = read_options<ShapeTool>({});
  BOOST_REQUIRE(o);
  BOOST_TEST(o->shape.ages.size() == 9U);
  BOOST_CHECK(o->shape.ages.front() == minutes(5) && o->shape.ages[1] == minutes(10));
  BOOST_TEST(o->shape.parents == 0U);
  BOOST_TEST(o->filter.places == (bit_of(Place::incoming) | bit_of(Place::active)));
}

BOOST_AUTO_TEST_CASE(columns_rows_and_queues_are_as_asked_for) {
  const auto o = read_options<ShapeTool>(
      {"-lps", "-b3", "-t", "7", "-m", "2", "-n4", "-w", "90", "-N", "6", "--domain", "@example.com", "deferred"});
  BOOST_REQUIRE(o);
  BOOST_CHECK((o->shape.ages == std::vector<minutes>{minutes(7), minutes(14)}));
  BOOST_TEST(o->shape.by_sender);
  BOOST_TEST(o->shape.parents == 2U);
  BOOST_TEST(o->shape.rows == 4U);
  BOOST_TEST(o->shape.width == 90U);
  BOOST_TEST(o->batch == 6U);
  BOOST_TEST(o->filter.domain == "example.com");
  BOOST_TEST(o->filter.places == bit_of(Place::deferred));
}

BOOST_AUTO_TEST_CASE(numbers_out_of_bounds_and_what_is_no_queue_are_refused) {
  BOOST_TEST(refusal<ShapeTool>({"-b", "31"}).starts_with("penshape: -b: a number from 1 to 30"));
  BOOST_TEST(refusal<ShapeTool>({"-w", "79"}).starts_with("penshape: -w: a number from 80"));
  BOOST_TEST(refusal<ShapeTool>({"spam"}).starts_with("penshape: not a queue: spam"));
  BOOST_TEST(refusal<ShapeTool>({"--older", "soon"}).starts_with("penshape: not a time: soon"));
  BOOST_TEST(refusal<ShapeTool>({"--reply", ""}).starts_with("penshape: an empty condition"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
