#include "lib/trust/srs/secrets.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::srs;

namespace {

struct File {
  testing::ScratchDir dir;
  std::string path = dir.file("secrets");

  Result<std::vector<std::string>> read(std::string_view content, mode_t mode = 0600) {
    dir.write("secrets", content);
    BOOST_REQUIRE(::chmod(path.c_str(), mode) == 0);
    return read_secrets(path);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(srs_secrets, File)

BOOST_AUTO_TEST_CASE(each_line_is_a_secret_and_the_first_comes_first) {
  const auto secrets = read("now\r\n\n  before that \nlast", 0640);
  BOOST_TEST_REQUIRE(secrets.has_value());
  BOOST_TEST(*secrets == (std::vector<std::string>{"now", "before that", "last"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_file_that_others_can_read_or_change_is_refused) {
  for (const mode_t mode : {0604U, 0644U, 0602U, 0601U}) BOOST_TEST(read("x", mode).error().is(SecretsError::readable));
  BOOST_TEST(read("x", 0660).error().is(SecretsError::writable));
  BOOST_TEST(read("x", 0400).has_value());
}

BOOST_AUTO_TEST_CASE(a_file_without_a_secret_is_an_error_that_names_it) {
  for (const char* content : {"", "\n \n\t\n"}) {
    const auto none = read(content);
    BOOST_TEST_REQUIRE(!none);
    BOOST_TEST(none.error().is(SecretsError::empty));
    BOOST_TEST(none.error().message().starts_with(path));
  }
  BOOST_TEST(read_secrets(path + ".none").error().is_errno(ENOENT));
  BOOST_TEST(read_secrets(dir.path().string()).error().is(SecretsError::not_a_file));
}

BOOST_AUTO_TEST_CASE(what_is_read_is_bounded) {
  BOOST_TEST(read(std::string(70'000, 'x')).error().is(SecretsError::too_large));
  BOOST_TEST(read(std::string(1001, 'x')).error().is(SecretsError::too_large));
  std::string many;
  for (int i = 0; i < 100; ++i) many += std::to_string(i) + "\n";
  BOOST_TEST(read(many).value().size() == 100U);
  BOOST_TEST(read(many + "one more\n").error().is(SecretsError::too_large));
}

BOOST_AUTO_TEST_SUITE_END()
