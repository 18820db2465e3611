#include "tools/file_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lib/suite/service/as_account.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::tools;
namespace fs = std::filesystem;
namespace utf = boost::unit_test;

namespace {

boost::test_tools::assertion_result as_root(utf::test_unit_id) { return ::geteuid() == 0; }

constexpr uid_t kOther = 54321;  // an account that owns nothing else

struct Trees {
  pen::testing::ScratchDir scratch;
  const fs::path top = scratch.path();
  Trees() {
    ::chmod(top.c_str(), 0711);
    for (const char* d : {"from", "to", "out"}) fs::create_directories(top / d);
    put("out/secret", "secret", 0600);
  }
  void put(const std::string& name, const std::string& text, mode_t mode = 0640) const {
    fs::create_directories((top / name).parent_path());
    std::ofstream(top / name) << text;
    ::chmod((top / name).c_str(), mode);
  }
  void give(const std::string& name) const { BOOST_REQUIRE(::lchown((top / name).c_str(), kOther, kOther) == 0); }
  Folder folder(const std::string& name) const { return *Folder::open((top / name).string()); }
  std::string text(const std::string& name) const {
    std::ifstream in(top / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  struct stat status(const std::string& name) const {
    struct stat st{};
    BOOST_REQUIRE_MESSAGE(::lstat((top / name).c_str(), &st) == 0, name);
    return st;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(file_copy, Trees)

BOOST_AUTO_TEST_CASE(a_copy_has_what_the_tree_had) {
  put("from/a/b/file", "text", 0604);
  fs::create_symlink("b/file", top / "from/a/link");
  ::mkfifo((top / "from/pipe").c_str(), 0600);
  put("from/left", "out");
  put("from/hole", "x");
  BOOST_REQUIRE(::truncate((top / "from/hole").c_str(), 1 << 20) == 0);
  const auto copied =
      copy_tree(folder("from"), folder("to"),
                {.skip = [](const std::string& inside, const auto&) { return inside == "left"; }, .instead = {}});
  BOOST_REQUIRE(copied.has_value());
  BOOST_TEST(copied->left_out.empty());
  BOOST_TEST(text("to/a/b/file") == "text");
  BOOST_TEST((status("to/a/b/file").st_mode & 07777) == 0604u);
  BOOST_TEST(fs::read_symlink(top / "to/a/link").string() == "b/file");
  BOOST_TEST(!fs::exists(top / "to/pipe"));
  BOOST_TEST(!fs::exists(top / "to/left"));
  BOOST_TEST(status("to/hole").st_size == 1 << 20);
  BOOST_TEST(status("to/hole").st_blocks <= status("from/hole").st_blocks);
}

BOOST_AUTO_TEST_CASE(another_accounts_directory_shows_what_that_account_may_read, *utf::precondition(as_root)) {
  put("from/theirs/file", "theirs", 0600);
  put("from/theirs/roots", "roots", 0600);
  give("from/theirs/file");
  fs::create_directory_symlink(top / "out", top / "from/theirs/link");
  BOOST_REQUIRE(::link((top / "out/secret").c_str(), (top / "from/theirs/second-name").c_str()) == 0);
  give("from/theirs");
  put("from/ours", "ours", 0600);
  const auto copied = copy_tree(folder("from"), folder("to"));
  BOOST_REQUIRE(copied.has_value());
  BOOST_TEST(text("to/ours") == "ours");
  BOOST_TEST(text("to/theirs/file") == "theirs");
  BOOST_TEST(status("to/theirs/file").st_uid == kOther);
  BOOST_TEST(status("to/theirs").st_uid == kOther);
  BOOST_TEST(fs::is_symlink(top / "to/theirs/link"));
  // Root's files under a name in there: neither copied nor passed over without a word.
  BOOST_TEST(!fs::exists(top / "to/theirs/second-name"));
  BOOST_TEST(!fs::exists(top / "to/theirs/roots"));
  BOOST_REQUIRE(copied->left_out.size() == 2u);
  BOOST_TEST(copied->left_out[0].find("theirs/roots: Permission denied") != std::string::npos, copied->left_out[0]);
  BOOST_TEST(copy_file(folder("from/theirs"), "roots", folder("to"), "x").error().is_errno(EACCES));
}

BOOST_AUTO_TEST_CASE(a_tree_is_given_away_and_nothing_that_its_links_lead_to, *utf::precondition(as_root)) {
  put("from/a/file", "text");
  fs::create_symlink(top / "out/secret", top / "from/a/link");
  fs::create_directory_symlink(top / "out", top / "from/b");
  BOOST_REQUIRE(give_tree(folder("from"), kOther, kOther).has_value());
  for (const char* name : {"from", "from/a", "from/a/file"}) BOOST_TEST(status(name).st_uid == kOther, name);
  for (const char* name : {"out", "out/secret"}) BOOST_TEST(status(name).st_uid == 0u, name);
}

BOOST_AUTO_TEST_CASE(root_makes_nothing_where_another_account_can_rename_it, *utf::precondition(as_root)) {
  ::chmod((top / "from").c_str(), 0755);
  BOOST_TEST(expect_ours(folder("from")).has_value());
  ::chmod((top / "from").c_str(), 0775);
  BOOST_TEST(expect_ours(folder("from")).error().is_errno(EPERM));
  ::chmod((top / "from").c_str(), 0755);
  give("from");
  BOOST_TEST(expect_ours(folder("from")).error().is_errno(EPERM));
}

BOOST_AUTO_TEST_CASE(a_file_is_written_whole_and_no_link_is_written_through) {
  fs::create_symlink(top / "out/secret", top / "to/x.new");
  fs::create_symlink(top / "out/secret", top / "to/x");
  BOOST_REQUIRE(write_file(folder("to"), "x", "text").has_value());
  BOOST_TEST(text("to/x") == "text");
  BOOST_TEST(text("out/secret") == "secret");
}

BOOST_AUTO_TEST_CASE(work_in_an_account_has_its_rights_for_good_and_tells_how_it_ended, *utf::precondition(as_root)) {
  const service::Account other{kOther, kOther};
  const auto ids = service::in_account(other, []() -> Result<void> {
    uid_t real = 0, effective = 0, saved = 0;
    ::getresuid(&real, &effective, &saved);
    if (real == kOther && effective == kOther && saved == kOther && ::seteuid(0) != 0) return {};
    return fail_errno("still root", EINVAL);
  });
  BOOST_TEST(ids.has_value());
  BOOST_TEST(::geteuid() == 0u);
  const auto refused = service::in_account(other, [this]() -> Result<void> {
    const int fd = ::open((top / "out/secret").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_errno("open the secret");
    ::close(fd);
    return {};
  });
  BOOST_TEST(refused.error().is_errno(EACCES));
  BOOST_TEST(refused.error().message() == "open the secret: Permission denied");
  BOOST_TEST(service::in_account(other, []() -> Result<void> { ::_exit(0); }).has_value());
  BOOST_TEST(service::in_account(other, []() -> Result<void> { ::_exit(3); }).error().is_errno(ECHILD));
}

BOOST_AUTO_TEST_SUITE_END()
