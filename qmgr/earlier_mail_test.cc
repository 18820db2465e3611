/// Which messages that are handed in are looked for in the queue.
#include "qmgr/earlier_mail.h"

#include "lib/mail/queue_id.h"
#include "lib/testing/suite.h"
#include "qmgr/manager_fixture.h"

namespace pen::qmgr {
BOOST_AUTO_TEST_SUITE(earlier_mail)

namespace {
struct Clocked : Fixture {
  async::Loop loop{outside.clock};
  EarlierMail earlier{loop, *qmgr->manager_};

  /// Whether mail counts as new whose id was made so long ago by the clock as it is.
  bool is_new(std::chrono::microseconds ago) const {
    testing::ManualClock then = outside.clock;
    then.step_wall(-ago);
    return earlier.is_new(mail::QueueIdGenerator(then, Random(3)).next());
  }
};
}  // namespace

PEN_FIXTURE(Clocked)

BOOST_AUTO_TEST_CASE(mail_is_new_that_was_made_after_the_start) {
  outside.clock.advance(seconds(100));
  BOOST_TEST(is_new(seconds(0)));
  BOOST_TEST(is_new(seconds(99)));
  BOOST_TEST(!is_new(seconds(101)));
  BOOST_TEST(is_new(seconds(-59)));
  BOOST_TEST(!is_new(seconds(-61)));  // what is made by such a clock says nothing
  BOOST_TEST(!earlier.is_new("4A1B2C3D"));
}

BOOST_AUTO_TEST_CASE(while_the_clock_is_behind_what_it_was_at_the_start_mail_of_the_last_minute_is_new) {
  outside.clock.step_wall(-std::chrono::hours(1));
  BOOST_TEST(is_new(seconds(0)));
  BOOST_TEST(is_new(seconds(59)));
  BOOST_TEST(!is_new(seconds(61)));
  BOOST_TEST(!is_new(-std::chrono::hours(1)));  // of the time before it was set back
  outside.clock.advance(std::chrono::hours(1) + seconds(30));
  BOOST_TEST(is_new(seconds(29)));
  BOOST_TEST(!is_new(seconds(31)));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::qmgr
