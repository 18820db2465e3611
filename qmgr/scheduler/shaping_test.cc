/// Shaping in virtual time: rates, rests and connections that are found and kept to.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "qmgr/scheduler/shaping_fixture.h"

namespace pen::qmgr {

BOOST_AUTO_TEST_SUITE(scheduler_shaping)

namespace {
/// So many in a minute, and a twentieth of that at once.
struct HiddenRate {
  explicit HiddenRate(double r) : per_minute(r), burst(std::max(r / 20, 1.0)), tokens(burst) {}
  double per_minute, burst, tokens;
  SteadyTime last{seconds(100'000)};
  bool takes(SteadyTime now) {
    tokens = std::min(burst,
                      tokens + per_minute / 60 * std::chrono::duration<double>(now - std::exchange(last, now)).count());
    if (tokens < 1) return false;
    tokens -= 1;
    return true;
  }
};

/// A receiver's bound that nobody tells: is one more taken now?
using Bound = std::function<bool(SteadyTime)>;

Bound per_second(double rate) {
  return [hidden = std::make_shared<HiddenRate>(rate * 60)](SteadyTime now) { return hidden->takes(now); };
}
/// So many between one full minute and the next, however they come.
Bound per_full_minute(std::uint64_t count) {
  return [count, window = std::int64_t{0}, taken = std::uint64_t{0}](SteadyTime now) mutable {
    const std::int64_t is = now.time_since_epoch() / minutes(1);
    if (std::exchange(window, is) != is) taken = 0;
    return taken < count && ++taken > 0;
  };
}

/// More mail than a bound allows, of twenty senders that bring more as it goes.
struct Flood {
  /// pace: of pauses and rises. The quicker it is, the fewer messages a run takes to settle.
  Flood(Mode mode, seconds pace, Bound b) : world(mode), bound(std::move(b)) {
    world.shaping.pace.pause = world.shaping.pace.increase = pace;
    world.answer = [this](auto&&, auto&&, SteadyTime now) { return bound(now) ? "" : kTooMuch; };
    world.keeps_offering = true;
    for (int i = 0; i < 20; ++i)
      world.offer("s" + std::to_string(i) + ".example", 30, static_cast<SourceNumber>(i + 1));
  }
  struct Span {
    std::uint64_t delivered = 0, refused = 0;
    double used = 0;  // of the bound
  };
  Span run(seconds time, double rate) {
    const std::uint64_t before = delivered(), refused = world.refusals;
    world.run(time);
    Span s{delivered() - before, world.refusals - refused, 0};
    s.used = static_cast<double>(s.delivered) / (rate * static_cast<double>(time.count()));
    BOOST_TEST_MESSAGE(rate << "/s for " << time.count() << " s: " << s.delivered << " delivered (" << 100 * s.used
                            << " %), " << s.refused << " refused, limit " << world.limit_of("big"));
    return s;
  }
  std::uint64_t delivered() const {
    std::uint64_t n = 0;
    for (const auto& [domain, count] : world.delivered) n += count;
    return n;
  }
  Receivers world;
  Bound bound;
};
}  // namespace

BOOST_AUTO_TEST_CASE(a_rate_that_nobody_told_is_found) {
  struct {
    double rate;
    seconds pace;
    std::uint32_t intervals;  // in which it is found
  } const cases[] = {{0.5, seconds(300), 60}, {5, seconds(60), 60}, {50, seconds(10), 60}};
  for (const auto& c : cases) {
    Flood flood(Mode::yes, c.pace, per_second(c.rate));
    const auto search = flood.run(c.pace * c.intervals, c.rate);
    BOOST_TEST(search.refused < 120U, c.rate << ": " << search.refused);
    const auto found = flood.run(c.pace * 2 * c.intervals, c.rate);
    BOOST_TEST(found.used >= 0.95, c.rate << ": " << found.used);
    BOOST_TEST(found.used <= 1.01, c.rate << ": " << found.used);
    BOOST_TEST(found.refused <= found.delivered / 50 + 20, c.rate << ": " << found.refused);
  }
}

BOOST_AUTO_TEST_CASE(most_refusals_do_not_come_when_a_rate_is_learned) {
  Flood learned(Mode::yes, seconds(60), per_second(1)), not_learned(Mode::no, seconds(60), per_second(1));
  const auto with = learned.run(std::chrono::hours(4), 1), without = not_learned.run(std::chrono::hours(4), 1);
  BOOST_TEST(with.refused * 20 <= without.refused, with.refused << " and " << without.refused);
  BOOST_TEST(with.delivered > without.delivered);
}

BOOST_AUTO_TEST_CASE(a_rate_is_followed_that_moves) {
  Flood flood(Mode::yes, seconds(60), per_second(2));
  flood.run(std::chrono::hours(2), 2);
  flood.bound = per_second(4);
  flood.run(std::chrono::hours(2), 4);
  BOOST_TEST(flood.run(std::chrono::hours(2), 4).used >= 0.95);
  flood.bound = per_second(1.5);
  flood.run(std::chrono::hours(1), 1.5);
  const auto less = flood.run(std::chrono::hours(2), 1.5);
  BOOST_TEST(less.used >= 0.95);
  BOOST_TEST(less.refused <= 100U, less.refused);
}

BOOST_AUTO_TEST_CASE(what_a_receiver_counts_by_full_minutes_is_found) {
  Flood flood(Mode::yes, seconds(300), per_full_minute(60));
  flood.run(std::chrono::hours(5), 1);
  const auto found = flood.run(std::chrono::hours(12), 1);
  BOOST_TEST(found.used >= 0.95);
  BOOST_TEST(found.refused <= 100U, found.refused);
}

BOOST_AUTO_TEST_CASE(who_takes_nothing_is_asked_ever_less_often) {
  Flood flood(Mode::yes, seconds(300), [](SteadyTime) { return false; });
  flood.world.run(std::chrono::hours(1));
  const auto first_hour = flood.world.refusals;
  BOOST_TEST(first_hour <= 50U, first_hour);  // 40 were under way at the first complaint
  flood.world.run(std::chrono::hours(8));
  const auto before = flood.world.refusals;
  flood.world.run(std::chrono::hours(24));
  BOOST_TEST(flood.world.refusals - before <= 24U, flood.world.refusals - before);
  // And is found again when it takes mail: within the longest rest, and the hours that a rate takes to climb.
  flood.bound = per_second(0.2);
  flood.world.run(shaping::kLongestRest + std::chrono::hours(4));
  BOOST_TEST(flood.run(std::chrono::hours(12), 0.2).used >= 0.90);
}

BOOST_AUTO_TEST_CASE(only_what_the_reply_names_goes_slower) {
  Receivers world(Mode::yes);
  HiddenRate of_one(60);
  world.answer = [&](auto&&, const std::string& domain, SteadyTime now) {
    return domain != "flood.example" || of_one.takes(now) ? "" : kTooMuchOfDomain;
  };
  world.offer("flood.example", 5000, 1);
  for (int minute = 0; minute < 60; ++minute) {
    world.offer("calm.example", 5, 2);
    world.run(seconds(60));
    BOOST_TEST(world.delivered["calm.example"] == static_cast<std::uint64_t>(5 * (minute + 1)));
  }
  BOOST_TEST(world.put_off["calm.example"] == 0U);
  world.offer("flood.example", 1, 1);  // all of its mail may be put off just now
  BOOST_TEST(world.limit_of("big", "d=flood.example") != "none");
  BOOST_TEST(world.limit_of("big") == "none");
  BOOST_TEST(world.told("shaping: big signed by flood.example rests for 300 s"));
  BOOST_TEST(world.refusals < 60U);
}

BOOST_AUTO_TEST_CASE(what_is_complained_of_a_signing_domain_holds_for_what_it_signs) {
  Receivers world(Mode::yes);
  world.signers = {{"a.example", "esp.example"}, {"b.example", "esp.example"}, {"c.example", "other.example"}};
  world.answer = [](auto&&, const std::string& domain, SteadyTime) {
    return domain == "a.example" ? kTooMuchOfDomain : "";
  };
  world.offer("a.example", 1, 1);
  world.run(seconds(5));
  BOOST_TEST(world.told("shaping: big signed by esp.example rests for 300 s"));
  BOOST_TEST(world.limit_of("big", "a.example") == "none");
  world.offer("b.example", 3, 2);  // signed by the same
  world.offer("c.example", 3, 3);
  world.offer("d.example", 3, 4);
  world.offer("esp.example", 3, 5);  // its own, signed by itself
  world.run(seconds(60));
  BOOST_TEST(world.delivered["b.example"] + world.delivered["esp.example"] == 0U);
  BOOST_TEST(world.delivered["c.example"] == 3U);
  BOOST_TEST(world.delivered["d.example"] == 3U);
  world.answer = [](auto&&...) { return ""; };
  world.run(std::chrono::hours(2));
  BOOST_TEST(world.delivered["a.example"] == 1U);
  BOOST_TEST(world.delivered["b.example"] == 3U);
  BOOST_TEST(world.delivered["esp.example"] == 3U);
}

BOOST_AUTO_TEST_CASE(a_complaint_of_an_envelope_s_domain_spares_what_its_signer_signs_for_others) {
  Receivers world(Mode::yes);
  world.signers = {{"bad.example", "esp.example"}, {"good.example", "esp.example"}};
  world.answer = [](auto&&, const std::string& domain, SteadyTime) {
    return domain == "bad.example" ? "550 5.7.1 not from your (customer)" : "";
  };
  world.offer("bad.example", 3, 1);
  world.offer("good.example", 3, 2);
  world.run(seconds(10));
  BOOST_TEST(world.told("warning: shaping: big of bad.example takes nothing"));
  BOOST_TEST(world.delivered["good.example"] == 3U);
  // Nor does what the signer sends itself.
  world.answer = [](auto&&, const std::string& domain, SteadyTime) {
    return domain == "esp.example" ? "550 5.7.1 not from your (customer)" : "";
  };
  world.offer("esp.example", 3, 3);
  world.run(seconds(5));
  world.offer("good.example", 3, 2);
  world.run(seconds(10));
  BOOST_TEST(world.told("warning: shaping: big of esp.example takes nothing"));
  BOOST_TEST(world.delivered["good.example"] == 6U);
}

BOOST_AUTO_TEST_CASE(a_block_has_mail_wait_that_else_would_go_back) {
  Receivers world(Mode::yes);
  bool blocked = true;
  world.answer = [&](auto&&...) { return blocked ? "550 5.7.1 messages from there weren't sent (S3150)" : ""; };
  world.offer("a.example", 50, 1);
  world.run(seconds(60));
  BOOST_TEST(world.failed["a.example"] == 0U);
  BOOST_TEST(world.refusals <= 20U, world.refusals);  // what was under way
  BOOST_TEST(world.told("warning: shaping: big takes nothing: its mail waits for 3600 s"));
  world.offer("b.example", 1, 2);
  world.run(seconds(1));
  BOOST_TEST(world.put_off["b.example"] == 1U);
  BOOST_TEST(world.reasons.back().contains("rests after a complaint"));
  BOOST_TEST(mail::stated_delay(world.reasons.back()).has_value());
  blocked = false;
  world.run(std::chrono::hours(3));
  BOOST_TEST(world.delivered["a.example"] == 50U);
  BOOST_TEST(world.delivered["b.example"] == 1U);
  BOOST_TEST(world.limit_of("big") == "none");
}

BOOST_AUTO_TEST_CASE(a_refusal_to_talk_is_taken_as_one_of_a_message) {
  const struct {
    const char *words, *told;
    seconds rest;
  } cases[] = {
      {kTooMuch, "shaping: big rests for 300 s, then gets 1/m: rule big-rate", seconds(300)},
      {"550 5.7.1 not from there (S3150)", "warning: shaping: big takes nothing: its mail waits for 3600 s",
       minutes(60)},
  };
  for (const bool limited : {false, true}) {
    for (const auto& c : cases) {
      Receivers world(Mode::yes);
      if (limited)  // then jobs have passed its gate when the complaint comes
        world.shaping.limit = [](const std::string& name) {
          return ShapingOptions::Limit{.rates =
                                           name == "provider:big" ? shaping::Rate::per_second(20) : shaping::Rate{}};
        };
      world.limits.destination_concurrency = 1;
      world.refuses_to_talk = c.words;
      world.offer("a.example", 20, 1);
      world.run(seconds(60));
      BOOST_TEST(world.told(c.told), c.words);
      BOOST_TEST(world.news.size() == 1U);
      // The other host is not asked, unless it was at the same time.
      BOOST_TEST(world.refusals <= 2U, c.words << ": " << world.refusals);
      BOOST_TEST(world.rests("big").count() >= c.rest.count() - 61);
      world.offer("b.example", 1, 2);
      world.run(seconds(1));
      BOOST_TEST(world.put_off["b.example"] + world.refusals <= 3U);
      world.refuses_to_talk.clear();
      world.run(c.rest - seconds(70));
      BOOST_TEST(world.delivered.empty(), c.words);
      world.run(std::chrono::hours(4));
      BOOST_TEST(world.delivered["a.example"] == 20U, c.words << ": " << world.delivered["a.example"]);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_host_that_refuses_to_talk_complains_of_no_sender) {
  Receivers world(Mode::yes);
  world.refuses_to_talk = kTooMuchOfDomain;
  world.offer("a.example", 1, 1);
  world.run(seconds(10));
  BOOST_TEST(world.news.empty());
  BOOST_TEST(world.limit_of("big", "a.example") == "none");
}

BOOST_AUTO_TEST_CASE(only_a_block_of_the_source_takes_the_source_away) {
  Receivers world(Mode::yes);
  world.answer = [&](auto&&, const std::string& domain, SteadyTime) {
    return domain == "bad.example" ? "550 5.7.1 not from your (customer)" : "";
  };
  world.offer("bad.example", 5, 1);
  world.run(seconds(5));
  world.offer("good.example", 5, 2);
  world.run(seconds(5));
  BOOST_TEST(world.told("warning: shaping: big of bad.example takes nothing: its mail waits for 3600 s"));
  BOOST_TEST(world.blocked.count() == 0);
  BOOST_TEST(world.delivered["good.example"] == 5U);
  world.answer = [](auto&&...) { return "550 5.7.1 messages from there weren't sent (S3150)"; };
  world.offer("good.example", 1, 2);
  world.run(seconds(5));
  BOOST_TEST(world.blocked.count() == 3600);
}

BOOST_AUTO_TEST_CASE(other_hosts_do_not_wait_for_a_provider) {
  Receivers world(Mode::yes);
  world.answer = [](const std::string& host, auto&&...) { return host.ends_with(".big.example") ? kTooMuch : ""; };
  world.offer("a.example", 30, 1);
  world.run(seconds(5));
  world.offer("a.example", 5, 1, "small.example");
  world.run(seconds(5));
  BOOST_TEST(world.delivered["a.example"] == 5U);
}

BOOST_AUTO_TEST_CASE(who_only_observes_slows_nothing) {
  Receivers world(Mode::observe);
  HiddenRate hidden(30);
  world.answer = [&](auto&&, auto&&, SteadyTime now) { return hidden.takes(now) ? "" : kTooMuch; };
  world.offer("a.example", 100, 1);
  world.run(seconds(30));
  BOOST_TEST(world.limit_of("big") == "none");
  BOOST_TEST(world.refusals > 50U);
  BOOST_TEST(world.told("shaping = observe: a.example to big would go slower"));
  BOOST_TEST(world.news.size() == 1U);
  Receivers off(Mode::no);
  off.answer = [](auto&&...) { return kTooMuch; };
  off.offer("a.example", 10, 1);
  off.run(seconds(30));
  BOOST_TEST(off.news.empty());
}

BOOST_AUTO_TEST_CASE(what_the_administrator_set_is_kept_to_and_dealt_in_turns) {
  Receivers world(Mode::no);
  world.limits.destination_concurrency = 20;
  world.shaping.limit = [](const std::string& name) -> ShapingOptions::Limit {
    if (name == "provider:big") return {shaping::Rate::per_minute(60), 3};
    return {};
  };
  world.offer("flood.example", 5000, 1);
  world.run(seconds(60));
  world.offer("calm.example", 10, 2);
  world.run(seconds(60));
  BOOST_TEST(world.delivered["calm.example"] == 10U);
  BOOST_TEST(world.delivered["flood.example"] >= 105U);
  world.run(seconds(480));
  const auto sum = world.delivered["flood.example"] + world.delivered["calm.example"];
  BOOST_TEST(sum <= 602U, sum);
  BOOST_TEST(sum >= 590U, sum);
  BOOST_TEST(world.most_connections <= 3U);
  BOOST_TEST(world.refusals == 0U);
  BOOST_TEST(world.reasons.back().contains("may have 1/s"));
  // Nobody asks in between: a few events for each delivery, and none when there is nothing to do.
  BOOST_TEST(world.ticks < 20 * sum, world.ticks);
  // Whatever was put off comes back in time for its turn.
  world.run(std::chrono::hours(2));
  BOOST_TEST(world.delivered["flood.example"] == 5000U);
}

BOOST_AUTO_TEST_CASE(limits_of_the_rules_file_hold_where_delivery_limit_maps_have_none) {
  for (const bool in_maps : {false, true}) {
    Receivers world(Mode::no);
    BOOST_REQUIRE(
        shaping::read_rules("provider big .big.example rate=20/s,300/m connections=3\n", "own", world.shaping.rules));
    world.shaping.limit = [in_maps](const std::string& name) {
      return in_maps && name == "provider:big" ? ShapingOptions::Limit{.rates = shaping::Rate::per_second(2)}
                                               : ShapingOptions::Limit{};
    };
    if (!in_maps) world.shaping.limit = nullptr;
    world.limits.destination_concurrency = 10;
    world.offer("a.example", 1000, 1);
    world.offer("a.example", 100, 1, "small.example");
    world.run(seconds(60));
    std::string set;
    std::uint32_t connections = 0;
    world.core().each_limit([&](const LimitState& s) {
      if (s.group != "big") return;
      set = to_string(s.set);
      connections = s.connections;
    });
    BOOST_TEST(set == (in_maps ? "2/s" : "20/s,300/m"));
    BOOST_TEST(connections == (in_maps ? 0U : 3U));
    const auto n = world.delivered["a.example"] - 100;
    BOOST_TEST(n >= (in_maps ? 117U : 290U), n);
    BOOST_TEST(n <= (in_maps ? 123U : 300U), n);
  }
}

BOOST_AUTO_TEST_CASE(a_rate_is_dealt_to_tenants_however_many_senders_they_have) {
  for (const std::uint32_t weight : {100U, 300U}) {
    Receivers world(Mode::no);
    world.options.tenants = true;
    world.options.tenant_weight = [weight](std::string_view name) { return name == "calm.example" ? weight : 100U; };
    world.shaping.limit = [](const std::string& name) {
      return ShapingOptions::Limit{.rates = name == "provider:big" ? shaping::Rate::per_minute(60) : shaping::Rate{}};
    };
    world.keeps_offering = true;
    for (SourceNumber i = 0; i < 50; ++i) {
      const std::string sender = "s" + std::to_string(i) + ".flood.example";
      world.tenants[sender] = "flood";
      world.offer(sender, 20, i + 1);
    }
    world.offer("calm.example", 300, 100);
    world.run(minutes(10));
    const auto of = [&](bool calm) {
      std::uint64_t n = 0;
      for (const auto& [domain, count] : world.delivered) n += (domain == "calm.example") == calm ? count : 0;
      return n;
    };
    const auto calm = of(true), flood = of(false);
    world.run(minutes(60));
    const double share =
        static_cast<double>(of(true) - calm) / static_cast<double>(of(true) - calm + of(false) - flood);
    BOOST_TEST(of(true) - calm + of(false) - flood >= 3500U);
    const double due = weight / (100.0 + weight);
    BOOST_TEST(share > due - 0.05, weight << ": " << share);
    BOOST_TEST(share < due + 0.05, weight << ": " << share);
  }
}

/// A source may send two messages a second there. A newsletter fills the line; what is urgent passes it.
BOOST_AUTO_TEST_CASE(urgent_mail_is_first_before_a_rate_limit) {
  Receivers world(Mode::yes);
  world.limits.rate_limit = shaping::Rate::per_second(2);
  world.urgency = {{"news.example", Urgency::bulk}, {"reset.example", Urgency::urgent}};
  world.offer("news.example", 10'000, 1);
  world.run(seconds(30));
  const auto before = world.delivered["news.example"];
  for (int i = 0; i < 20; ++i) {
    world.offer("reset.example", 1, 2);
    world.run(seconds(5));
    BOOST_TEST(world.delivered["reset.example"] == static_cast<std::uint64_t>(i + 1));
  }
  BOOST_TEST(world.put_off["reset.example"] == 0U);
  // Two a second for 100 seconds, less what was urgent.
  BOOST_TEST(world.delivered["news.example"] - before >= 200 - 20 - 4U);
}

BOOST_AUTO_TEST_CASE(a_backlog_goes_at_the_rate_that_is_allowed_from_its_first_to_its_last_message) {
  Receivers world(Mode::no);
  world.shaping.limit = [](const std::string& name) -> ShapingOptions::Limit {
    return name == "provider:big" ? ShapingOptions::Limit{shaping::Rate::per_second(2), 0} : ShapingOptions::Limit{};
  };
  world.offer("a.example", 14'400, 1);  // two hours of it
  for (int quarter = 1; quarter <= 7; ++quarter) {
    world.run(minutes(15));
    BOOST_TEST(world.delivered["a.example"] >= static_cast<std::uint64_t>(1800 * quarter * 97 / 100), quarter);
    BOOST_TEST(world.delivered["a.example"] <= static_cast<std::uint64_t>(1800 * quarter + 10), quarter);
  }
  world.run(minutes(30));
  BOOST_TEST(world.delivered["a.example"] == 14'400U);
  BOOST_TEST_MESSAGE("put off " << world.put_off["a.example"]);
  BOOST_TEST(world.put_off["a.example"] <= 5 * 14'400U);
}

BOOST_AUTO_TEST_CASE(a_line_before_a_gate_gets_the_connections_that_its_limit_needs) {
  // What has passed is little: one connection would have it done within connection_least_gain.
  const struct {
    const char* name;
    ShapingOptions::Limit limit;
    std::uint64_t per_second;
  } cases[] = {{"provider:big", {shaping::Rate::per_second(17), 0}, 17}, {"domain:m.example", {{}, 3}, 30}};
  for (const auto& c : cases) {
    Receivers world(Mode::no);
    world.shaping.limit = [&c](const std::string& name) { return name == c.name ? c.limit : ShapingOptions::Limit{}; };
    world.offer("a.example", 2000, 1);
    world.run(seconds(10));
    const auto before = world.delivered["a.example"];
    world.run(seconds(30));
    const auto in_time = world.delivered["a.example"] - before;
    BOOST_TEST(in_time >= c.per_second * 30 * 95 / 100, c.name << ": " << in_time);
  }
}

BOOST_AUTO_TEST_CASE(limits_hold_for_a_domain_a_tenant_and_a_destination) {
  for (const std::string name : {"domain:m.example", "tenant:a.example", "smtp"}) {
    Receivers world(Mode::no);
    world.options.tenants = name.starts_with("tenant");
    if (name == "smtp")
      world.limits.rate_limit = shaping::Rate::per_minute(60);
    else
      world.shaping.limit = [name](const std::string& asked) -> ShapingOptions::Limit {
        return asked == name ? ShapingOptions::Limit{shaping::Rate::per_minute(60), 2} : ShapingOptions::Limit{};
      };
    world.service = milliseconds(200);
    world.offer("a.example", 100, 1);
    world.offer("a.example", 100, 1, "small.example");
    world.offer("b.example", 100, 2, "other.example");
    world.run(seconds(30));
    const auto of_a = world.delivered["a.example"];
    BOOST_TEST(of_a >= (name == "tenant:a.example" ? 28U : name == "smtp" ? 42U : 128U), name << ": " << of_a);
    BOOST_TEST(of_a <= (name == "tenant:a.example" ? 32U : name == "smtp" ? 48U : 132U), name << ": " << of_a);
    // To another domain at the same provider: the destination is one, the domain is not.
    if (name == "smtp")
      BOOST_TEST(of_a + world.delivered["b.example"] <= 63U);
    else
      BOOST_TEST(world.delivered["b.example"] == 100U, name);
  }
}

BOOST_AUTO_TEST_CASE(as_many_connections_are_opened_as_a_provider_bears) {
  Receivers world(Mode::yes);
  world.connections_borne = 2;
  world.limits.destination_concurrency = 10;
  world.keeps_offering = true;
  world.offer("a.example", 200, 1);
  world.run(seconds(300));
  BOOST_TEST(world.told("gets at most 2 connections"));
  const auto refused = world.refusals;
  world.run(seconds(550));
  BOOST_TEST(world.refusals - refused <= 2U, world.refusals - refused);
  BOOST_TEST(world.most_connections == 2U);
  // And more when it bears more.
  world.connections_borne = 4;
  world.run(std::chrono::hours(2));
  BOOST_TEST(world.most_connections == 4U);
}

BOOST_AUTO_TEST_CASE(the_connections_that_a_provider_bears_are_made_full_use_of) {
  for (const milliseconds leaves : {milliseconds(0), milliseconds(200)}) {
    Receivers world(Mode::yes);
    world.leaves = leaves;
    world.connections_borne = 3;
    world.limits.destination_concurrency = 10;
    world.keeps_offering = true;
    for (int i = 0; i < 5; ++i) world.offer("s" + std::to_string(i) + ".example", 20, static_cast<SourceNumber>(i + 1));
    const auto delivered = [&] {
      std::uint64_t n = 0;
      for (const auto& [domain, count] : world.delivered) n += count;
      return n;
    };
    world.run(seconds(700));
    const auto before = delivered(), refused = world.refusals;
    world.run(seconds(1800));
    const double bound = 3 * 1800 / 0.1;  // each has a message for 100 ms
    BOOST_TEST_MESSAGE(delivered() - before << " of " << bound << ", refused " << world.refusals - refused);
    // A host that counts connections that are ending refuses their successors: that costs time, but is no word about
    // the number.
    BOOST_TEST(static_cast<double>(delivered() - before) >= (leaves == milliseconds(0) ? 0.95 : 0.4) * bound);
    BOOST_TEST(!world.told("at most 2 connections"));
    BOOST_TEST(world.refusals - refused <= 30U, world.refusals - refused);
    BOOST_TEST(world.limit_of("big") == "none");  // no rate is taken for it
  }
}

BOOST_AUTO_TEST_CASE(what_was_learned_outlives_the_scheduler_and_can_be_forgotten) {
  Receivers world(Mode::yes);
  HiddenRate hidden(60);
  world.answer = [&](auto&&, auto&&, SteadyTime now) { return hidden.takes(now) ? "" : kTooMuch; };
  world.offer("a.example", 500, 1);
  world.run(seconds(900));
  const std::string learned = world.limit_of("big");
  BOOST_TEST(learned != "none");
  world.restart();
  world.offer("a.example", 1, 1);
  BOOST_TEST(world.limit_of("big") == learned);
  BOOST_TEST(world.core().order_rate("big", shaping::Rate::per_hour(2)));
  BOOST_TEST(!world.core().order_rate("nobody", shaping::Rate::per_hour(2)));
  world.restart();
  world.offer("a.example", 1, 1);
  std::size_t orders = 0;
  world.core().each_limit([&](const LimitState& s) { orders += s.learned.ordered > 0 ? 1 : 0; });
  BOOST_TEST(orders == 1U);
  BOOST_TEST(world.core().forget_limits("big") == 2U);
  BOOST_TEST(world.core().forget_limits("big") == 0U);
  BOOST_TEST(world.limit_of("big") == "none");
}

BOOST_AUTO_TEST_CASE(a_recipient_that_gets_too_much_rests_alone) {
  Receivers world(Mode::yes);
  bool too_much = true;
  world.answer = [&](auto&&...) { return too_much ? "450 4.2.1 receiving mail too quickly" : ""; };
  world.offer("a.example", 1, 1);
  world.run(seconds(10));
  too_much = false;
  world.offer("a.example", 1, 1);
  world.offer("a.example", 1, 1, "n.example");
  world.run(seconds(10));
  BOOST_TEST(world.delivered["a.example"] == 1U);
  BOOST_TEST(world.reasons.back().contains("too much comes for him: try again in 119"));
  world.run(seconds(3000));
  BOOST_TEST(world.delivered["a.example"] == 3U);
}

BOOST_AUTO_TEST_CASE(a_fault_of_the_sender_s_domain_slows_nobody_and_is_told_once_an_hour) {
  Receivers world(Mode::yes);
  world.answer = [](auto&&, const std::string& domain, SteadyTime) {
    return domain == "unsigned.example" ? "550 5.7.26 unauthenticated" : "";
  };
  for (int i = 0; i < 20; ++i) {
    world.offer("unsigned.example", 1, 1);
    world.offer("good.example", 1, 2);
    world.run(seconds(60));
  }
  BOOST_TEST(world.failed["unsigned.example"] == 20U);
  BOOST_TEST(world.delivered["good.example"] == 20U);
  BOOST_TEST(world.news.size() == 1U);
  BOOST_TEST(world.told("warning: shaping: big complains of how unsigned.example is set up"));
  world.run(seconds(3600));
  world.offer("unsigned.example", 1, 1);
  world.run(seconds(60));
  BOOST_TEST(world.news.size() == 2U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
