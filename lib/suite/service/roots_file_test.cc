#include "lib/suite/service/roots_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "lib/testing/scratch.h"

namespace pen::service {
namespace {

namespace fs = std::filesystem;
constexpr uid_t kOther = 20000;

boost::test_tools::assertion_result as_root(boost::unit_test::test_unit_id) { return ::geteuid() == 0; }

struct Fixture {
  testing::ScratchDir scratch;
  const std::string directory = scratch.file("tables"), table = directory + "/t";

  Fixture() {
    BOOST_REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
    BOOST_REQUIRE(::mkdir(directory.c_str(), 0700) == 0);
    scratch.write("tables/t", "secret");
    BOOST_REQUIRE(::chmod(table.c_str(), 0600) == 0);
  }
  static std::string opened(const std::string& path) {
    const auto file = open_roots_file(path);
    if (!file) return std::to_string(file.error().sys_errno());
    if (!*file) return "somebody else's";
    char text[20];
    const ssize_t n = ::read((*file)->get(), text, sizeof text);
    return {text, n > 0 ? static_cast<std::size_t>(n) : 0};
  }
  std::string link(const std::string& name, const std::string& target, uid_t owner = 0) const {
    const std::string path = scratch.file(name);
    fs::create_symlink(target, path);
    BOOST_REQUIRE(::lchown(path.c_str(), owner, owner) == 0);
    return path;
  }
  static void change(const std::string& path, uid_t owner, mode_t mode) {
    BOOST_REQUIRE(::lchown(path.c_str(), owner, owner) == 0);
    BOOST_REQUIRE(::chmod(path.c_str(), mode) == 0);
  }
};

BOOST_FIXTURE_TEST_SUITE(roots_file, Fixture, *boost::unit_test::precondition(as_root))

BOOST_AUTO_TEST_CASE(what_root_alone_can_name_is_opened_by_links_as_well) {
  BOOST_TEST(opened(table) == "secret");
  BOOST_TEST(opened(scratch.path().string() + "/./tables//../tables/t") == "secret");
  BOOST_TEST(opened(link("by_path", table)) == "secret");
  BOOST_TEST(opened(link("relative", "tables/t")) == "secret");
  BOOST_TEST(opened(link("way", "tables") + "/t") == "secret");
}

BOOST_AUTO_TEST_CASE(nothing_is_opened_where_somebody_else_makes_names) {
  change(directory, kOther, 0700);
  BOOST_TEST(opened(table) == "somebody else's");
  BOOST_TEST(opened(link("away", table)) == "somebody else's");
  for (const mode_t mode : {0770U, 0707U, 0777U}) {
    change(directory, 0, mode);
    BOOST_TEST(opened(table) == "somebody else's");
  }
}

BOOST_AUTO_TEST_CASE(where_everybody_may_make_names_only_root_s_are_followed) {
  change(directory, 0, 01777);
  BOOST_TEST(opened(table) == "secret");
  change(table, kOther, 0600);
  BOOST_TEST(opened(table) == "somebody else's");
  change(table, 0, 0600);
  BOOST_TEST(opened(link("tables/own", table)) == "secret");
  BOOST_TEST(opened(link("tables/planted", "/etc/passwd", kOther)) == "somebody else's");
}

BOOST_AUTO_TEST_CASE(what_is_no_file_is_told) {
  BOOST_TEST(opened(directory) == std::to_string(EACCES));
  BOOST_TEST(opened(directory + "/none") == std::to_string(ENOENT));
  BOOST_TEST(opened(table + "/more") == std::to_string(ENOTDIR));
  BOOST_TEST(opened("/dev/null") == std::to_string(EACCES));
  const std::string round = link("round", scratch.file("round"));
  BOOST_TEST(opened(round) == std::to_string(ELOOP));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::service
