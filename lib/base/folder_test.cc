#include "lib/base/folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "lib/testing/scratch.h"

using namespace pen;
namespace fs = std::filesystem;

namespace {

/// A directory "in", and beside it what a user who works in it may not reach: "out/secret".
struct Place {
  pen::testing::ScratchDir scratch;
  std::string top = scratch.path().string();
  Place() {
    fs::create_directories(top + "/in");
    fs::create_directories(top + "/out");
    std::ofstream(top + "/out/secret") << "secret";
  }
  Folder in() const { return *Folder::open(top + "/in"); }
  void link(const std::string& name, const std::string& target) const {
    fs::create_symlink(target, top + "/in/" + name);
  }
  bool secret_is_there() const { return fs::file_size(top + "/out/secret") == 6; }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(folder)

BOOST_AUTO_TEST_CASE(a_name_is_one_word) {
  const Place place;
  const Folder in = place.in();
  for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                  std::string("/a"), std::string("../out/secret"), std::string("a\0b", 3)}) {
    BOOST_TEST(in.file(name).error().is_errno(EINVAL), name);
    BOOST_TEST(in.folder(name).error().is_errno(EINVAL), name);
    BOOST_TEST(in.make_file(name, 0600).error().is_errno(EINVAL), name);
    BOOST_TEST(in.make_folder(name, 0700).error().is_errno(EINVAL), name);
    BOOST_TEST(in.remove(name).error().is_errno(EINVAL), name);
    BOOST_TEST(in.remove_all(name).error().is_errno(EINVAL), name);
    BOOST_TEST(in.rename(name, in, "x").error().is_errno(EINVAL), name);
    BOOST_TEST(in.rename("x", in, name).error().is_errno(EINVAL), name);
    BOOST_TEST(in.make_link(name, "x").error().is_errno(EINVAL), name);
  }
  BOOST_TEST(place.secret_is_there());
}

BOOST_AUTO_TEST_CASE(no_link_is_followed) {
  const Place place;
  place.link("file", place.top + "/out/secret");
  place.link("directory", place.top + "/out");
  const Folder in = place.in();
  BOOST_TEST(!in.file("file").has_value());
  BOOST_TEST(!in.folder("directory").has_value());
  BOOST_TEST(!in.folder_below("directory/x").has_value());
  BOOST_TEST(in.make_file("file", 0600).error().is_errno(EEXIST));
  BOOST_TEST(in.make_folder("directory", 0700).error().is_errno(EEXIST));
  BOOST_TEST((S_ISLNK((*in.look("file"))->st_mode)));
  BOOST_TEST(in.link("directory").value() == place.top + "/out");
  BOOST_TEST(in.remove_all("directory").has_value());
  BOOST_TEST(in.remove("file").has_value());
  BOOST_TEST(in.names()->empty());
  BOOST_TEST(place.secret_is_there());
}

BOOST_AUTO_TEST_CASE(a_directory_that_was_renamed_is_still_the_one_that_was_opened) {
  const Place place;
  const Folder in = place.in();
  fs::rename(place.top + "/in", place.top + "/was");
  fs::create_directory_symlink(place.top + "/out", place.top + "/in");
  BOOST_TEST(in.make_file("new", 0600).has_value());
  BOOST_TEST(fs::exists(place.top + "/was/new"));
  BOOST_TEST(!fs::exists(place.top + "/out/new"));
}

BOOST_AUTO_TEST_CASE(neither_pipe_nor_directory_is_a_file) {
  const Place place;
  const Folder in = place.in();
  BOOST_REQUIRE(::mkfifo((place.top + "/in/pipe").c_str(), 0600) == 0);
  BOOST_TEST(in.make_folder("below", 0700).has_value());
  BOOST_TEST(in.file("pipe").error().is_errno(EACCES));
  BOOST_TEST(in.file("below").error().is_errno(EISDIR));
  BOOST_TEST(in.file("none").error().is_errno(ENOENT));
}

BOOST_AUTO_TEST_CASE(a_tree_is_removed_and_what_its_links_lead_to_stays) {
  const Place place;
  const Folder in = place.in();
  const Folder a = *in.make_folder("a", 0700);
  const Folder b = *a.make_folder("b", 0700);
  BOOST_TEST(b.make_file("file", 0600).has_value());
  BOOST_TEST(b.make_link("out", place.top + "/out").has_value());
  BOOST_TEST((*in.folder_below("a/b")).names().value().size() == 2u);
  BOOST_TEST((*in.folder_below("")).names().value().size() == 1u);
  BOOST_TEST(in.remove_all("a").has_value());
  BOOST_TEST(in.remove_all("a").has_value());
  BOOST_TEST(in.names()->empty());
  BOOST_TEST(place.secret_is_there());
}

BOOST_AUTO_TEST_SUITE_END()
