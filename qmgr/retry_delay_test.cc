/// How long a deferred message waits.
#include "qmgr/retry_delay.h"

#include "qmgr/parts_fixture.h"

namespace pen::qmgr {
namespace {

struct Deferred {
  ManagerOptions options;  // 300 to 4000 seconds
  Active m;
  WallTime arrival{seconds(1'800'000'000)};
  Deferred() {
    mail::Envelope e;
    e.queue_id = "A1";
    e.arrival = arrival;
    for (const char* to : {"a@x.example", "b@x.example"})
      e.recipients.push_back({.address = to, .original = {}, .orcpt = {}, .notify = 0});
    m.set_envelope(std::move(e));
    m.remaining.add(0);
    m.remaining.add(1);
  }
  void said(std::uint32_t ordinal, const std::string& text) {
    m.notes[ordinal].status = mail::make_status(mail::Action::deferred, "4.2.1", text);
  }
  seconds at(seconds age) { return retry_delay(options, m, arrival + age); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(retry_delays, Deferred)

BOOST_AUTO_TEST_CASE(a_message_waits_as_long_as_it_is_old_within_the_bounds) {
  BOOST_TEST((at(seconds(10)) == seconds(300)));
  BOOST_TEST((at(seconds(1000)) == seconds(1000)));
  BOOST_TEST((at(seconds(90'000)) == seconds(4000)));
}

BOOST_AUTO_TEST_CASE(bounds_that_cross_make_it_the_least_one) {
  options.backoff_min = seconds(86'400);
  BOOST_TEST((at(seconds(10)) == seconds(86'400)));
  BOOST_TEST((at(seconds(90'000)) == seconds(86'400)));
}

BOOST_AUTO_TEST_CASE(the_soonest_of_the_recipients_counts) {
  said(0, "451 try again in 3000 seconds");
  BOOST_TEST((at(seconds(1000)) == seconds(1000)));  // nothing was said of the other
  said(1, "451 try again in 2000 seconds");
  BOOST_TEST((at(seconds(1000)) == seconds(2000)));
}

BOOST_AUTO_TEST_CASE(nobody_brings_us_more_often_than_four_times_as_usual) {
  said(0, "451 try again in 10 seconds");
  said(1, "451 try again in 10 seconds");
  BOOST_TEST((at(seconds(4000)) == seconds(1000)));
}

BOOST_AUTO_TEST_CASE(what_a_limit_puts_off_comes_back_when_there_is_room) {
  for (const std::uint32_t i : {0U, 1U})
    m.notes[i].status = mail::make_status(mail::Action::deferred, scheduler::kPutOff, "big, try again in 300 seconds");
  BOOST_TEST((at(seconds(4000)) == seconds(300)));
  said(1, "451 try again in 10 seconds");
  BOOST_TEST((at(seconds(4000)) == seconds(1000)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
