#include "lib/mail/attempt.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/metrics/page.h"

namespace pen::mail {
BOOST_AUTO_TEST_SUITE(attempt_test)

BOOST_AUTO_TEST_CASE(an_attempt_is_counted_with_its_delays_and_a_probe_is_not) {
  using metrics::Agent;
  using metrics::Phase;
  const Fd page = metrics::create_page("smtp/inet").value();
  BOOST_REQUIRE(metrics::adopt_page(page));
  const Delays delays{.before_active = milliseconds(3), .active = seconds(2), .setup = {}, .transmission = seconds(70)};
  count_attempt(Agent::lmtp, delays, Action::failed, Purpose::mail);
  count_attempt(Agent::lmtp, delays, Action::failed, Purpose::verification);
  metrics::Sums sums(metrics::kSlots);
  BOOST_REQUIRE(metrics::Reader::open(metrics::reader_of(page.get()).value()).value().add_to(sums));
  const metrics::Family& attempts = metrics::family(metrics::Id::delivery_attempts);
  const metrics::Family& delay = metrics::family(metrics::Id::delivery_delay);
  BOOST_TEST(sums[attempts.first + metrics::detail::index_of(Agent::lmtp, metrics::Fate::bounced)] == 1U);
  const auto sum_in = [&](Phase phase) {
    const auto at = delay.first + metrics::detail::index_of(Agent::lmtp, phase) * delay.slots_each();
    return sums[at + delay.slots_each() - 1];
  };
  BOOST_TEST(sum_in(Phase::before_queue_manager) == 3'000U);
  BOOST_TEST(sum_in(Phase::queue_manager) == 2'000'000U);
  BOOST_TEST(sum_in(Phase::connection_setup) == 0U);
  BOOST_TEST(sum_in(Phase::transmission) == 70'000'000U);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::mail
