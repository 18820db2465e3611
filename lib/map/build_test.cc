#include "lib/map/build.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::map {
BOOST_AUTO_TEST_SUITE(build_of_tables)

namespace {

namespace fs = std::filesystem;

struct Place {
  testing::ScratchDir dir;
  std::string path = dir.file("table");

  static std::string text_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static mode_t mode_of(const std::string& file) {
    struct stat st{};
    BOOST_REQUIRE(::stat(file.c_str(), &st) == 0);
    return st.st_mode & 07777;
  }
  static Result<void> write(const std::string& fresh, const std::string& text) {
    std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out) return fail_errno("write", EIO);
    return {};
  }
};

}  // namespace

PEN_FIXTURE(Place)

BOOST_AUTO_TEST_CASE(the_old_file_is_there_until_the_new_one_is_whole) {
  BOOST_TEST(replace_file(path, 0640, [&](const std::string& fresh) { return write(fresh, "old"); }).has_value());
  const auto fails = [&](const std::string& fresh) -> Result<void> {
    BOOST_TEST(text_of(path) == "old");
    PEN_TRY(write(fresh, "a part"));
    return fail_errno("write", ENOSPC);
  };
  BOOST_TEST(replace_file(path, 0600, fails).error().is_errno(ENOSPC));
  BOOST_TEST(text_of(path) == "old");
  BOOST_TEST(mode_of(path) == 0640U);
  BOOST_TEST(std::distance(fs::directory_iterator(dir.path()), {}) == 1);
}

BOOST_AUTO_TEST_CASE(a_link_in_place_of_the_new_file_leads_neither_content_nor_mode_elsewhere) {
  const std::string secret = dir.file("secret"), folder = dir.file("theirs");
  BOOST_REQUIRE(write(secret, "somebody else's").has_value());
  fs::permissions(secret, fs::perms::owner_read);
  fs::create_directory(folder);
  const auto swapped = [&](const std::string& fresh) -> Result<void> {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const fs::path name = entry.path();
      fs::remove(name);
      fs::create_symlink(secret, name);
    }
    return write(fresh, "content");
  };
  (void)replace_file(folder + "/table", 0644, swapped);
  BOOST_TEST(text_of(secret) == "somebody else's");
  BOOST_TEST(mode_of(secret) == 0400U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::map
