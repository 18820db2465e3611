#include "lib/queue/shaping/rate.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/random.h"

namespace pen::shaping {
BOOST_AUTO_TEST_SUITE(buckets)

BOOST_AUTO_TEST_CASE(a_bucket_holds_a_flow_to_its_rate_whenever_somebody_asks) {
  Random random(7);
  for (const char* text : {"1/m", "90/m", "20/s", "1000/s"}) {
    Bucket bucket;
    const SteadyTime start{seconds(1000)};
    const Rate rate = *parse_rate(text);
    bucket.set(rate, start);
    std::uint64_t taken = 0;
    SteadyTime now = start;
    while (now < start + seconds(600)) {
      if (bucket.ready(now)) {
        bucket.take(now);
        ++taken;
      } else {
        now = bucket.next() + microseconds(random.below(2000));  // a timer is late
      }
    }
    const auto most = rate.in(seconds(600));
    BOOST_TEST(taken <= most + most / 10'000 + 2, text << ": " << taken);
    BOOST_TEST(taken >= most - most / 100 - 1, text << ": " << taken);
  }
}

BOOST_AUTO_TEST_CASE(silence_saves_up_no_burst) {
  Bucket bucket;
  SteadyTime now{seconds(1)};
  bucket.set(Rate::per_second(10), now);
  now += seconds(3600);
  bucket.take(now);
  BOOST_TEST(!bucket.ready(now));
  BOOST_TEST((bucket.next() == now + milliseconds(50)));
  now = bucket.next();
  bucket.take(now);
  BOOST_TEST((bucket.next() == now + milliseconds(100)));
}

BOOST_AUTO_TEST_CASE(a_quicker_rate_does_not_wait_for_the_slow_one) {
  Bucket bucket;
  const SteadyTime now{seconds(1)};
  bucket.set(Rate::per_hour(1), now);
  bucket.take(now);
  bucket.set(Rate::per_second(10), now);
  BOOST_TEST(!bucket.ready(now));
  BOOST_TEST(bucket.ready(now + milliseconds(100)));
  bucket.set({}, now);
  BOOST_TEST(bucket.ready(now));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::shaping
