#include "lib/queue/shaping/quota.h"

#include <boost/test/unit_test.hpp>

#include <vector>

#include "lib/base/random.h"
#include "lib/queue/shaping/rate.h"

namespace pen::shaping {
BOOST_AUTO_TEST_SUITE(quota_windows)

namespace {
constexpr SteadyTime kStart{seconds(1'000'000)};

/// A sender with mail at hand from time to time, held by a rate and its quotas.
struct Sender {
  explicit Sender(std::string_view text) : rates(*parse_rates(text)) {
    bucket.set(rates.rate, kStart);
    for (const Quota& q : rates.quotas) windows.emplace_back().set(q);
  }
  SteadyTime opens() const {
    SteadyTime at = bucket.next();
    for (const auto& w : windows) at = std::max(at, w.opens());
    return at;
  }
  void go() {
    bucket.take(now);
    for (auto& w : windows) w.take(now);
    went.push_back(now);
  }
  /// As many as may go, until then.
  void send_until(SteadyTime then, Random* late = nullptr) {
    while (now < then) {
      if (opens() <= now)
        go();
      else
        now = std::min(then, opens() + microseconds(late != nullptr ? late->below(5000) : 0));
    }
  }
  /// The most that went within any time of this length.
  std::size_t most_within(seconds time) const {
    std::size_t most = 0, first = 0;
    for (std::size_t last = 0; last < went.size(); ++last) {
      while (went[last] - went[first] >= time) ++first;
      most = std::max(most, last - first + 1);
    }
    return most;
  }
  Rates rates;
  Bucket bucket;
  std::vector<QuotaWindow> windows;
  SteadyTime now = kStart;
  std::vector<SteadyTime> went;
};
}  // namespace

BOOST_AUTO_TEST_CASE(no_interval_of_its_length_sees_more_than_the_number) {
  Random random(11);
  for (const char* text : {"20/s,300/m", "20/s,5000/h", "10/s,7/m", "1/s,59/m", "50/s,600/m,5000/h,20000/d", "3/m,64/h",
                           "5/m,65/h", "1/s,1/d"}) {
    Sender sender(text);
    // Mail comes for a while, and then for a while there is none.
    for (int i = 0; i < 40; ++i) {
      sender.send_until(sender.now + seconds(1 + random.below(4000)), &random);
      sender.now += seconds(random.below(i % 3 == 0 ? 9000 : 30));
    }
    for (const Quota& q : sender.rates.quotas)
      BOOST_TEST(sender.most_within(q.within) <= q.most, text << " " << to_string(q));
    for (const auto& w : sender.windows) BOOST_TEST(w.parts().size() <= QuotaWindow::kParts + 1, text);
  }
}

BOOST_AUTO_TEST_CASE(all_of_the_number_is_used_while_there_is_mail) {
  for (const char* text : {"20/s,300/m", "20/s,5000/h", "10/s,7/m", "30/m,1000/h", "10/s,50000/d"}) {
    Sender sender(text);
    const Quota q = sender.rates.quotas.front();
    sender.send_until(kStart + q.within);
    BOOST_TEST(sender.went.size() == q.most, text);
    sender.send_until(kStart + q.within * 10);
    BOOST_TEST(sender.went.size() * 100 >= q.most * 10 * 98, text << ": " << sender.went.size());
    BOOST_TEST(sender.most_within(q.within) == q.most, text);
  }
}

BOOST_AUTO_TEST_CASE(up_to_as_many_as_there_are_parts_it_is_exact) {
  QuotaWindow window;
  window.set({3, seconds(60)});
  BOOST_TEST(window.ready(kStart));
  for (int i = 0; i < 3; ++i) window.take(kStart + seconds(i * 10));
  BOOST_TEST(!window.ready(kStart + seconds(59)));
  BOOST_TEST((window.opens() == kStart + seconds(60)));
  BOOST_TEST((window.opens(1) == kStart + seconds(70)));
  BOOST_TEST((window.opens(2) == kStart + seconds(80)));
  BOOST_TEST((window.opens(3) == kNever));
  BOOST_TEST(window.used(kStart + seconds(59)) == 3U);
  BOOST_TEST(window.used(kStart + seconds(60)) == 2U);
  window.take(kStart + seconds(60));
  BOOST_TEST((window.opens() == kStart + seconds(70)));
}

BOOST_AUTO_TEST_CASE(turns_and_what_goes_until_then_are_reckoned_over_many_times) {
  QuotaWindow window;
  window.set({3, seconds(60)});
  BOOST_TEST((window.reckoned(2, kStart) == kStart));
  BOOST_TEST((window.reckoned(7, kStart) == kStart + seconds(120)));
  window.take(kStart);
  window.take(kStart + seconds(10));
  const SteadyTime now = kStart + seconds(20);
  BOOST_TEST((window.reckoned(0, now) == now));
  BOOST_TEST((window.reckoned(1, now) == kStart + seconds(60)));
  BOOST_TEST((window.reckoned(4, now) == kStart + seconds(120)));
  BOOST_TEST(window.until(now, now) == 1U);
  BOOST_TEST(window.until(kStart + seconds(60), now) == 2U);
  BOOST_TEST(window.until(kStart + seconds(75), now) == 3U);
  BOOST_TEST(window.until(now + seconds(600), now) >= 30U);
  QuotaWindow none;
  BOOST_TEST((none.reckoned(100, now) == now));
  BOOST_TEST(none.ready(SteadyTime{}));
}

BOOST_AUTO_TEST_CASE(what_went_counts_on_under_another_number) {
  QuotaWindow window;
  window.set({5000, seconds(3600)});
  for (int i = 0; i < 1000; ++i) window.take(kStart + seconds(i));
  const SteadyTime now = kStart + seconds(1000);
  BOOST_TEST(window.used(now) == 1000U);
  window.set({1100, seconds(3600)});
  BOOST_TEST(window.used(now) == 1000U);
  BOOST_TEST((window.opens(99) <= now));
  BOOST_TEST((window.opens(100) >= kStart + seconds(3600)));
  window.set({10, seconds(3600)});
  BOOST_TEST(!window.ready(now));
  BOOST_TEST(window.parts().size() <= QuotaWindow::kParts + 1);
  BOOST_TEST((window.opens() > kStart + seconds(3600 + 900)));  // the last ten keep it closed
  window.set({5000, seconds(3600)});
  BOOST_TEST(window.ready(now));
  BOOST_TEST(window.used(now) == 1000U);  // they had not been forgotten
  BOOST_TEST((window.opens(3999) <= now));
  BOOST_TEST((window.opens(4000) >= kStart + seconds(3600)));
  window.add(5000, now);
  BOOST_TEST((window.opens() == now + seconds(3600)));
  window.set({});
  BOOST_TEST(window.ready(now));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::shaping
