#include "penapi/tokens.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "lib/testing/scratch.h"

using namespace pen;
using api::Tokens;

BOOST_AUTO_TEST_SUITE(tokens)

BOOST_AUTO_TEST_CASE(a_token_of_the_file_permits_and_nothing_else_does) {
  const auto t = Tokens::parse("# for the monitor\n0123456789abcdef\n\n  fedcba9876543210  \n", "f").value();
  BOOST_CHECK(t.permit("Bearer 0123456789abcdef") == 2);  // its line, by which orders name it
  BOOST_CHECK(t.permit("bearer  fedcba9876543210") == 4);
  for (const char* no : {"", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0",
                         "Bearer 0123456789abcdeF", "Basic 0123456789abcdef", "0123456789abcdef",
                         "Bearer 0123456789abcdef0123456789abcdef", "Bearer # for the monitor"})
    BOOST_CHECK_MESSAGE(!t.permit(no), no);
  BOOST_CHECK(!Tokens().permit("Bearer "));
}

BOOST_AUTO_TEST_CASE(a_short_or_odd_token_is_an_error_that_does_not_tell_it) {
  const auto tokens = Tokens::parse("0123456789abcdef\nshort-one\n", "/f");
  BOOST_REQUIRE(!tokens);
  BOOST_CHECK(tokens.error().message().contains("line 2"));
  BOOST_CHECK(!tokens.error().message().contains("short-one"));
  BOOST_CHECK(!Tokens::parse("0123456789 abcdefgh\n", "/f"));
}

BOOST_AUTO_TEST_CASE(a_file_that_others_can_read_is_refused) {
  const testing::ScratchDir dir;
  const std::string path = dir.path().string() + "/tokens";
  std::ofstream(path) << "0123456789abcdef\n";
  ::chmod(path.c_str(), 0640);
  BOOST_CHECK(Tokens::read(path).value().permit("Bearer 0123456789abcdef"));
  ::chmod(path.c_str(), 0644);
  BOOST_CHECK(Tokens::read(path).error().message().contains("chmod"));
  BOOST_CHECK(Tokens::read(path + "-missing").error().is_errno(ENOENT));
}

BOOST_AUTO_TEST_SUITE_END()
