#include "qmgr/layout_mark.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"
#include "qmgr/payload.h"

namespace pen::qmgr {

BOOST_AUTO_TEST_SUITE(layout_mark)

BOOST_AUTO_TEST_CASE(a_queue_without_a_mark_is_read_by_every_version) {
  const pen::testing::ScratchDir dir;
  BOOST_TEST(LayoutMark(dir.path().string()).layout() == 0);
  BOOST_TEST(check_layouts(dir.path().string()).has_value());
  BOOST_TEST(check_layouts(dir.file("nothing")).has_value());
}

BOOST_AUTO_TEST_CASE(the_newest_layout_stays_noted) {
  const pen::testing::ScratchDir dir;
  LayoutMark mark(dir.path().string());
  BOOST_TEST(mark.note(kLayoutTenant).has_value());
  BOOST_TEST(mark.note(kLayoutVerp).has_value());
  BOOST_TEST(LayoutMark(dir.path().string()).layout() == kLayoutTenant);
  BOOST_TEST(check_layouts(dir.path().string()).has_value());
}

BOOST_AUTO_TEST_CASE(a_layout_that_is_not_known_is_told) {
  const pen::testing::ScratchDir dir;
  BOOST_TEST(LayoutMark(dir.path().string()).note(kNewestLayout + 1).has_value());
  const auto read = check_layouts(dir.path().string());
  BOOST_REQUIRE(!read.has_value());
  BOOST_TEST(read.error().message().contains("may have layout 9, and this version reads up to 8"));
}

BOOST_AUTO_TEST_CASE(it_is_forgotten_when_the_queue_holds_nothing) {
  const pen::testing::ScratchDir dir;
  LayoutMark before(dir.path().string());
  BOOST_TEST(before.note(kNewestLayout + 1).has_value());
  BOOST_TEST(before.forget().has_value());  // mail came meanwhile
  BOOST_TEST(!check_layouts(dir.path().string()).has_value());
  LayoutMark next(dir.path().string());
  BOOST_TEST(next.forget().has_value());
  BOOST_TEST(check_layouts(dir.path().string()).has_value());
  BOOST_TEST(next.note(kLayoutVerp).has_value());
  BOOST_TEST(LayoutMark(dir.path().string()).layout() == kLayoutVerp);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
