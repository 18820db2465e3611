#include "lib/mail/queue_id.h"

#include <boost/test/unit_test.hpp>
#include <set>

#include "lib/testing/manual_clock.h"

using namespace pen;
using namespace pen::mail;

BOOST_AUTO_TEST_SUITE(queue_id)

BOOST_AUTO_TEST_CASE(an_id_tells_the_time_it_was_made) {
  testing::ManualClock clock;
  QueueIdGenerator ids(clock, Random(1));
  const std::string id = ids.next();
  BOOST_TEST(is_queue_id(id));
  BOOST_TEST(id.size() >= 12u);
  BOOST_TEST((queue_id_time(id) == clock.wall_now()));
}

BOOST_AUTO_TEST_CASE(ids_differ_when_the_clock_stands_still_or_goes_back) {
  testing::ManualClock clock;
  QueueIdGenerator ids(clock, Random(1));
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    if (i % 100 == 99) clock.step_wall(-seconds(3600));
    BOOST_TEST(seen.insert(ids.next()).second);
  }
}

BOOST_AUTO_TEST_CASE(ids_of_processes_started_in_the_same_microsecond_differ) {
  testing::ManualClock clock;
  QueueIdGenerator a(clock, Random(1));
  QueueIdGenerator b(clock, Random(2));
  BOOST_TEST(a.next() != b.next());
}

BOOST_AUTO_TEST_CASE(only_letters_and_digits_pass_for_an_id) {
  BOOST_TEST(is_queue_id("4bGNsx3Ynxz1kGz8"));
  BOOST_TEST(!is_queue_id(""));
  BOOST_TEST(!is_queue_id("../../etc/passwd"));
  BOOST_TEST(!is_queue_id("abc def"));
  BOOST_TEST(!is_queue_id(std::string(kMaxQueueId + 1, 'a')));
  BOOST_TEST(!queue_id_time("ABCDEF").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
