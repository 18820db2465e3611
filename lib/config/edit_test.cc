#include "lib/config/edit.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>

#include "lib/config/problem.h"
#include "lib/testing/scratch.h"

namespace pen::config {
namespace {

std::string edited(std::string_view text, std::vector<Edit> edits) {
  const auto result = edit_main_cf(text, edits);
  return result ? *result : "error: " + result.error().message();
}
Edit set(std::string name, std::string value) { return {Edit::Kind::set, std::move(name), std::move(value)}; }

}  // namespace

BOOST_AUTO_TEST_SUITE(edit_test)

BOOST_AUTO_TEST_CASE(a_setting_is_changed_where_it_stands_and_the_rest_stays) {
  BOOST_TEST(edited("# head\na = 1\n\nb=2 # x\n", {set("a", "9 8")}) == "# head\na = 9 8\n\nb=2 # x\n");
}
BOOST_AUTO_TEST_CASE(continuation_lines_go_and_comments_between_them_stay) {
  BOOST_TEST(edited("a = 1,\n  2\n# why\n  3\n# after\nb = 1", {set("a", "x")}) == "a = x\n# why\n# after\nb = 1\n");
}
BOOST_AUTO_TEST_CASE(a_new_setting_is_added_at_the_end) {
  BOOST_TEST(edited("a = 1", {set("b", "2"), set("c", "")}) == "a = 1\nb = 2\nc =\n");
}
BOOST_AUTO_TEST_CASE(of_two_places_the_one_that_counts_is_changed_and_the_other_goes) {
  BOOST_TEST(edited("a = 1\nb = 1\na = 2\n", {set("a", "3")}) == "b = 1\na = 3\n");
}
BOOST_AUTO_TEST_CASE(a_setting_is_commented_out_with_all_its_lines) {
  BOOST_TEST(edited("a = 1\n  2\nb = 1\n", {{Edit::Kind::comment_out, "a", ""}}) == "#a = 1\n#  2\nb = 1\n");
}
BOOST_AUTO_TEST_CASE(a_setting_is_removed_with_all_its_lines) {
  BOOST_TEST(edited("a = 1\n  2\nb = 1\n", {{Edit::Kind::remove, "a", ""}}) == "b = 1\n");
  BOOST_TEST(edited("a = 1\n", {{Edit::Kind::remove, "b", ""}}) == "a = 1\n");
}
BOOST_AUTO_TEST_CASE(what_main_cf_cannot_hold_is_refused) {
  BOOST_TEST(edit_main_cf("", {set("a b", "1")}).error().is(ConfigError::bad_value));
  BOOST_TEST(edit_main_cf("", {set("a", "1\nb = 2")}).error().is(ConfigError::bad_value));
}
BOOST_AUTO_TEST_CASE(a_file_is_replaced_with_its_mode_kept_and_nothing_left_behind) {
  const pen::testing::ScratchDir dir;
  const std::string path = dir.write("main.cf", "old");
  BOOST_REQUIRE(::chmod(path.c_str(), 0640) == 0);
  std::filesystem::create_symlink(path, dir.file("link"));
  BOOST_REQUIRE(replace_file(dir.file("link"), "new\n").has_value());
  std::ifstream in(path);
  BOOST_TEST(std::string(std::istreambuf_iterator<char>(in), {}) == "new\n");
  struct stat now{};
  BOOST_REQUIRE(::stat(path.c_str(), &now) == 0);
  BOOST_TEST((now.st_mode & 0777U) == 0640U);
  BOOST_TEST(std::filesystem::is_symlink(dir.file("link")));
  BOOST_TEST(!std::filesystem::exists(path + ".tmp"));
}
BOOST_AUTO_TEST_CASE(another_edit_under_way_is_not_overwritten) {
  const pen::testing::ScratchDir dir;
  const std::string path = dir.write("main.cf", "old");
  dir.write("main.cf.tmp", "theirs");
  BOOST_TEST(replace_file(path, "new").error().is_errno(EEXIST));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::config
