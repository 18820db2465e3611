#include "lib/receive/resolve/probe_sender.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using pen::resolve::ProbeSender;

BOOST_AUTO_TEST_SUITE(probe_sender)

BOOST_AUTO_TEST_CASE(the_sender_is_completed_and_may_be_null) {
  const WallTime now{seconds(1'000'000)};
  BOOST_TEST(ProbeSender("double-bounce", seconds(0), "example.org").at(now) == "double-bounce@example.org");
  BOOST_TEST(ProbeSender("a@b.example", seconds(0), "example.org").at(now) == "a@b.example");
  for (const char* null : {"", "<>", " <> "}) {
    BOOST_TEST(ProbeSender(null, seconds(300), "example.org").at(now).empty());
    BOOST_TEST(!ProbeSender(null, seconds(300), "example.org").accepts("", now));
  }
}

BOOST_AUTO_TEST_CASE(a_sender_that_depends_on_the_time_is_good_for_two_spans) {
  const ProbeSender sender("double-bounce", seconds(300), "example.org");
  const WallTime now{seconds(300 * 1000)};
  const std::string first = sender.at(now);
  BOOST_TEST(first.starts_with("double-bounce"));
  BOOST_TEST(first.ends_with("@example.org"));
  BOOST_TEST(first != "double-bounce@example.org");
  BOOST_TEST(sender.at(now + seconds(299)) == first);
  BOOST_TEST(sender.at(now + seconds(300)) != first);
  BOOST_TEST(sender.accepts(first, now + seconds(599)));
  BOOST_TEST(sender.accepts("DOUBLE" + first.substr(6), now));
  BOOST_TEST(!sender.accepts(first, now + seconds(600)));
  BOOST_TEST(!sender.accepts("double-bounce@example.org", now));
}

BOOST_AUTO_TEST_SUITE_END()
