#include "lib/suite/ipc/stage_page.h"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

namespace pen::ipc {
namespace {

using delivery::Stage;

BOOST_AUTO_TEST_SUITE(stage_page)

BOOST_AUTO_TEST_CASE(what_one_side_sets_the_other_sees) {
  auto fd = make_stage_page(16);
  BOOST_REQUIRE(fd.has_value());
  StagePage qmgr, program;
  BOOST_TEST(qmgr.map(fd->get(), 16).has_value());
  BOOST_TEST(program.map(fd->get(), 16).has_value());
  program.set(3, Stage::committed);
  program.set(16, Stage::committed);  // beyond: ignored
  BOOST_TEST((qmgr.at(3) == Stage::committed));
  BOOST_TEST((qmgr.at(4) == Stage::handed));
}

BOOST_AUTO_TEST_CASE(neither_side_can_take_the_page_from_under_the_other) {
  auto fd = make_stage_page(16);
  BOOST_REQUIRE(fd.has_value());
  BOOST_TEST(::ftruncate(fd->get(), 0) != 0);
  BOOST_TEST(errno == EPERM);
  BOOST_TEST(::ftruncate(fd->get(), 32) != 0);
}

BOOST_AUTO_TEST_CASE(a_page_that_could_shrink_is_not_mapped) {
  const Fd plain(::memfd_create("stages", MFD_CLOEXEC));
  BOOST_REQUIRE(::ftruncate(plain.get(), 16) == 0);
  StagePage page;
  BOOST_TEST(page.map(plain.get(), 16).error().is_errno(EPERM));
  BOOST_TEST(!page.mapped());
}

BOOST_AUTO_TEST_CASE(a_page_smaller_than_what_is_said_of_it_is_not_mapped) {
  auto fd = make_stage_page(16);
  BOOST_REQUIRE(fd.has_value());
  StagePage page;
  BOOST_TEST(page.map(fd->get(), 17).error().is_errno(EINVAL));
  BOOST_TEST(page.map(fd->get(), 0).error().is_errno(EINVAL));
  BOOST_TEST(page.map(fd->get(), kMaxStageSlots + 1).error().is_errno(EINVAL));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::ipc
