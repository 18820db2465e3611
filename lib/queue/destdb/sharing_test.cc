/// Tests for sharing: groups of facts, leases, and how one host uses the statements of others.
#include "lib/queue/destdb/sharing.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>

namespace pen::destdb {
BOOST_AUTO_TEST_SUITE(sharing)

namespace {

const WallTime kNow{std::chrono::hours(24 * 365 * 55)};
const std::string kKey = "smtp|192.0.2.1|25";

Facts failing(WallTime until) {
  Facts f;
  f.failures = 2;
  f.next_retry = until;
  f.trouble = 1;
  f.dsn = "4.4.1";
  f.reason = "connection refused";
  f.used = kNow;
  return f;
}

struct Host {
  ClusterSharing sharing{ClusterSharing::Options{}};
  SteadyTime now{std::chrono::hours(1)};
  WallTime wall = kNow;
  std::vector<ClusterSharing::Effect> effects;
  std::vector<ClusterSharing::Request> requests;

  Host() { set(); }
  void set() { sharing.set_time(now, wall); }
  void step() {
    sharing.tick();
    for (auto& r : sharing.take_requests()) requests.push_back(std::move(r));
    for (auto& e : sharing.take_effects()) effects.push_back(std::move(e));
  }
  void advance(milliseconds by) {
    now += by;
    wall += by;
    set();
    step();
  }
  void up() {
    sharing.up();
    step();
  }
  void want(std::uint64_t connection, std::uint32_t limit, const Facts* known = nullptr) {
    sharing.want(connection, kKey, limit, known);
    step();
  }
  template <class R>
  R request() {
    for (auto it = requests.begin(); it != requests.end(); ++it) {
      if (!std::holds_alternative<R>(*it)) continue;
      R found = std::get<R>(*it);
      requests.erase(it);
      return found;
    }
    BOOST_FAIL("no such request");
    return {};
  }
  ClusterSharing::AskLease ask() { return request<ClusterSharing::AskLease>(); }
  void answer(const ClusterSharing::AskLease& a, LeaseAnswer lease, ClusterSharing::Told told = {}) {
    sharing.answered(a.id, lease, told);
    step();
  }
  template <class E>
  std::vector<E> took() {
    std::vector<E> out;
    std::erase_if(effects, [&](auto& e) {
      if (!std::holds_alternative<E>(e)) return false;
      out.push_back(std::get<E>(e));
      return true;
    });
    return out;
  }
  std::vector<std::uint64_t> opened() {
    std::vector<std::uint64_t> out;
    for (auto& o : took<ClusterSharing::Open>()) out.push_back(o.connection);
    return out;
  }
  std::vector<std::uint64_t> refused() {
    std::vector<std::uint64_t> out;
    for (auto& o : took<ClusterSharing::Refuse>()) out.push_back(o.connection);
    return out;
  }
};

using Numbers = std::vector<std::uint64_t>;

ClusterSharing::Told told(std::uint64_t version, Group g, const Facts& f, WallTime changed) {
  return {version, {{std::string(group_name(g)), encode_group(g, f, changed)}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_group_comes_back_as_it_was_and_alone) {
  Facts f = failing(kNow + std::chrono::minutes(5));
  f.tolerated_connections = 7;
  f.tolerated_until = kNow + std::chrono::minutes(1);
  f.messages_per_connection = 20;
  f.closed_after = 20;
  f.last_connect = kNow;
  f.pipelining = true;
  f.service_time = milliseconds(30);
  f.shown = "mx.example[192.0.2.1]:25";
  f.step_by_step_until = kNow + std::chrono::hours(1);
  f.clear_text_until = kNow + std::chrono::hours(1);
  Facts built;
  for (const Group g : kAllGroups) {
    BOOST_TEST(!same_group(g, f, built));
    const auto got = decode_group(g, encode_group(g, f, kNow), kNow);
    BOOST_REQUIRE(got.has_value());
    BOOST_TEST((got->changed == kNow));
    BOOST_TEST(same_group(g, got->facts, f));
    for (const Group other : kAllGroups)
      if (other != g) BOOST_TEST(same_group(other, got->facts, Facts{}));
    copy_group(g, got->facts, built);
    BOOST_TEST((group_of(group_name(g)) == g));
  }
  f.used = {};
  BOOST_TEST((built == f));
  BOOST_TEST(!group_of("v").has_value());
}

BOOST_AUTO_TEST_CASE(words_of_others_that_make_no_sense_are_no_facts) {
  const auto believed = [](Group g, const Facts& f, WallTime changed) {
    return decode_group(g, encode_group(g, f, changed), kNow).has_value();
  };
  Facts f = failing(kNow + std::chrono::hours(1));
  BOOST_TEST(believed(Group::failure, f, kNow));
  BOOST_TEST(believed(Group::failure, f, kNow + std::chrono::minutes(4)));
  BOOST_TEST(!believed(Group::failure, f, kNow + std::chrono::minutes(6)));
  f.next_retry = kNow + std::chrono::hours(24 * 11);
  BOOST_TEST(!believed(Group::failure, f, kNow));
  f = failing(kNow);
  f.dsn = "4.4.1\n";
  BOOST_TEST(!believed(Group::failure, f, kNow));
  f = failing(kNow);
  f.failures = 2'000'000;
  BOOST_TEST(!believed(Group::failure, f, kNow));
  f = {};
  f.tolerated_connections = 2'000'000;
  BOOST_TEST(!believed(Group::ceiling, f, kNow));
  f = {};
  f.service_time = microseconds(-1);
  BOOST_TEST(!believed(Group::state, f, kNow));
  f = {};
  f.last_close = kNow + std::chrono::hours(1);
  BOOST_TEST(!believed(Group::state, f, kNow));
  f = failing(kNow);
  f.reason = "a\r\nb\x1b[31m";
  const auto got = decode_group(Group::failure, encode_group(Group::failure, f, kNow), kNow);
  BOOST_REQUIRE(got.has_value());
  BOOST_TEST(got->facts.reason == "a??b?[31m");
  BOOST_TEST(!decode_group(Group::failure, "", kNow).has_value());
  BOOST_TEST(!decode_group(Group::failure, "2abc", kNow).has_value());
  BOOST_TEST(!decode_group(Group::failure, std::string(5000, '1'), kNow).has_value());
  const std::string whole = encode_group(Group::failure, failing(kNow), kNow);
  for (std::size_t cut = 0; cut < whole.size(); ++cut)  // it is rejected or accepted, and never read beyond its end
    (void)decode_group(Group::failure, whole.substr(0, cut), kNow);
}

BOOST_AUTO_TEST_CASE(numbers_that_cannot_be_are_no_answer) {
  const auto ok = [](std::int64_t g, std::int64_t o, std::int64_t m, std::int64_t w, std::int64_t l) {
    const std::int64_t n[5] = {g, o, m, w, l};
    return LeaseAnswer::checked(n, 2).has_value();
  };
  BOOST_TEST(ok(2, 3, 1, 1, 0));
  BOOST_TEST(!ok(3, 3, 1, 1, 0));
  BOOST_TEST(!ok(-1, 3, 1, 1, 0));
  BOOST_TEST(!ok(0, 2'000'000, 1, 1, 0));
  BOOST_TEST(!ok(0, 0, 0, 1, 0));
}

BOOST_AUTO_TEST_CASE(who_has_more_than_his_part_gives_back_half_of_it_at_a_time) {
  const auto lease = [](std::uint32_t others, std::uint32_t members, std::uint32_t waiting, std::uint32_t least) {
    return LeaseAnswer{0, others, members, waiting, least};
  };
  const auto long_ago = std::chrono::minutes(1);
  BOOST_TEST(surplus(20, 20, lease(0, 0, 0, 0), long_ago) == 0U);  // alone
  BOOST_TEST(surplus(20, 20, lease(0, 1, 0, 0), long_ago) == 0U);  // nobody waits
  BOOST_TEST(surplus(20, 20, lease(0, 1, 1, 0), long_ago) == 5U);  // its share is ten
  BOOST_TEST(surplus(11, 20, lease(9, 1, 1, 9), long_ago) == 1U);
  BOOST_TEST(surplus(10, 20, lease(10, 1, 1, 9), long_ago) == 0U);
  BOOST_TEST(surplus(20, 20, lease(20, 1, 0, 0), long_ago) == 10U);  // after an outage both hosts have all
  BOOST_TEST(surplus(0, 20, lease(20, 1, 1, 0), long_ago) == 0U);
  // Fewer connections than hosts: they take turns.
  BOOST_TEST(surplus(1, 1, lease(0, 1, 1, 0), seconds(1)) == 0U);
  BOOST_TEST(surplus(1, 1, lease(0, 1, 1, 0), seconds(5)) == 1U);
  BOOST_TEST(surplus(1, 2, lease(1, 2, 1, 0), seconds(5)) == 1U);
  BOOST_TEST(surplus(1, 2, lease(1, 1, 0, 0), seconds(5)) == 0U);
}

BOOST_AUTO_TEST_CASE(without_a_server_everything_is_granted_at_once) {
  Host h;
  h.want(1, 1);
  h.want(2, 1);
  BOOST_TEST(h.opened() == (Numbers{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(h.requests.empty());
  h.up();  // the server learns what is held
  const auto ask = h.ask();
  BOOST_TEST(ask.held == 2U);
  BOOST_TEST(ask.wanted == 0U);
}

BOOST_AUTO_TEST_CASE(a_connection_waits_for_its_lease_and_gets_it_or_not) {
  Host h;
  h.up();
  h.want(1, 3);
  h.want(2, 3);
  BOOST_TEST(h.opened().empty());
  const auto ask = h.ask();
  BOOST_TEST(ask.wanted == 1U);
  BOOST_TEST(ask.limit == 3U);
  h.answer(ask, {1, 1, 1, 0, 0});
  BOOST_TEST(h.opened() == (Numbers{1}), boost::test_tools::per_element());
  const auto next = h.ask();  // the second was wanted while the request for the first was open
  BOOST_TEST(next.held == 1U);
  BOOST_TEST(next.wanted == 1U);
  h.answer(next, {0, 2, 1, 0, 0});
  BOOST_TEST(h.refused() == (Numbers{2}), boost::test_tools::per_element());
  const auto heard = h.took<ClusterSharing::Elsewhere>();
  BOOST_REQUIRE(!heard.empty());
  BOOST_TEST(heard.back().connections == 2U);
  BOOST_TEST(h.took<ClusterSharing::LookAgain>().empty());
  h.advance(kAskAgain);
  BOOST_TEST(h.took<ClusterSharing::LookAgain>().size() == 1U);
  h.advance(kAskAgain);
  BOOST_TEST(h.took<ClusterSharing::LookAgain>().empty());
}

BOOST_AUTO_TEST_CASE(what_was_refused_is_looked_at_again_as_soon_as_one_of_ours_is_closed) {
  Host h;
  h.up();
  h.want(1, 1);
  h.answer(h.ask(), {1, 0, 0, 0, 0});
  h.want(2, 1);
  h.answer(h.ask(), {0, 0, 0, 0, 0});
  BOOST_TEST(h.refused() == (Numbers{2}), boost::test_tools::per_element());
  h.sharing.gone(1);
  h.step();
  BOOST_TEST(h.took<ClusterSharing::LookAgain>().size() == 1U);
  BOOST_TEST(h.ask().held == 0U);
}

BOOST_AUTO_TEST_CASE(mail_does_not_wait_for_a_slow_server_and_asks_none_before_it_answers_again) {
  Host h;
  h.up();
  h.want(1, 3);
  h.advance(milliseconds(199));
  BOOST_TEST(h.opened().empty());
  h.advance(milliseconds(1));
  BOOST_TEST(h.opened() == (Numbers{1}), boost::test_tools::per_element());
  h.want(2, 3);
  BOOST_TEST(h.opened() == (Numbers{2}), boost::test_tools::per_element());
  const auto ask = h.ask();
  BOOST_TEST(h.requests.empty());  // one request at a time for a destination
  h.answer(ask, {1, 0, 0, 0, 0});
  BOOST_TEST(h.ask().held == 2U);  // connections taken without it while it was away
  h.want(3, 3);
  BOOST_TEST(h.opened().empty());
}

BOOST_AUTO_TEST_CASE(a_lease_that_came_too_late_or_is_not_used_is_given_back) {
  Host h;
  h.up();
  h.want(1, 3);
  const auto ask = h.ask();
  BOOST_TEST(h.sharing.cancel(1));
  h.step();
  h.answer(ask, {1, 0, 0, 0, 0});
  BOOST_TEST(h.opened().empty());
  const auto back = h.ask();
  BOOST_TEST(back.held == 0U);
  BOOST_TEST(back.wanted == 0U);
  h.answer(back, {0, 0, 0, 0, 0});
  BOOST_TEST(h.requests.empty());
  BOOST_TEST((h.sharing.next_wake() == kNever));
}

BOOST_AUTO_TEST_CASE(leases_are_said_again_before_they_end_and_others_get_their_part) {
  Host h;
  h.up();
  for (std::uint64_t c = 1; c <= 4; ++c) h.want(c, 4);
  h.answer(h.ask(), {1, 0, 0, 0, 0});
  h.answer(h.ask(), {3, 0, 0, 0, 0});
  BOOST_TEST(h.opened().size() == 4U);
  h.advance(milliseconds(4999));
  BOOST_TEST(h.requests.empty());
  h.advance(milliseconds(1));
  const auto again = h.ask();
  BOOST_TEST(again.held == 4U);
  h.answer(again, {0, 0, 1, 1, 0});
  const auto back = h.took<ClusterSharing::GiveBack>();
  BOOST_REQUIRE(back.size() == 1U);
  BOOST_TEST(back[0].keep == 3U);
}

BOOST_AUTO_TEST_CASE(what_one_learned_the_other_knows_before_it_connects) {
  Host h;
  h.up();
  h.want(1, 20);
  const Facts down = failing(kNow + std::chrono::minutes(5));
  h.answer(h.ask(), {1, 0, 0, 0, 0}, told(3, Group::failure, down, kNow));
  BOOST_TEST(h.refused() == (Numbers{1}), boost::test_tools::per_element());
  const auto learned = h.took<ClusterSharing::Learned>();
  BOOST_REQUIRE(learned.size() == 1U);
  BOOST_TEST(same_group(Group::failure, learned[0].facts, down));
  BOOST_TEST(h.ask().version == 3U);
}

BOOST_AUTO_TEST_CASE(a_learned_ceiling_counts_over_all_hosts) {
  Host h;
  h.up();
  Facts f;
  f.tolerated_connections = 2;
  f.tolerated_until = kNow + std::chrono::minutes(5);
  h.want(1, 20);
  h.answer(h.ask(), {1, 2, 1, 0, 0}, told(1, Group::ceiling, f, kNow));
  BOOST_TEST(h.refused() == (Numbers{1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(own_failures_do_not_refuse_what_the_scheduler_wants_to_try) {
  Host h;  // as in a flush
  h.up();
  const Facts own = failing(kNow + std::chrono::minutes(5));
  h.want(1, 1, &own);
  h.answer(h.ask(), {1, 0, 0, 0, 0}, told(1, Group::failure, own, own.used));
  BOOST_TEST(h.opened() == (Numbers{1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(who_is_connected_does_not_believe_that_it_cannot_be) {
  Host h;
  h.up();
  h.want(1, 20);
  h.answer(h.ask(), {1, 0, 0, 0, 0});
  Facts works;
  works.last_connect = kNow;
  h.sharing.changed(kKey, works);
  h.want(2, 20);
  h.answer(h.ask(), {1, 0, 0, 0, 0},
           told(9, Group::failure, failing(kNow + std::chrono::minutes(5)), kNow + seconds(1)));
  BOOST_TEST(h.took<ClusterSharing::Learned>().empty());
  BOOST_TEST(h.opened() == (Numbers{1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(failures_are_told_at_once_and_measures_now_and_then) {
  Host h;
  h.up();
  h.want(1, 20);
  h.answer(h.ask(), {1, 0, 0, 0, 0});
  Facts f;
  f.last_connect = kNow;
  h.sharing.changed(kKey, f);
  h.step();
  BOOST_TEST(h.requests.empty());
  f.failures = 1;
  f.next_retry = kNow + std::chrono::minutes(5);
  h.sharing.changed(kKey, f);
  h.step();
  const auto tell = h.request<ClusterSharing::TellFacts>();
  BOOST_TEST(tell.groups.size() == 2U);  // facts that waited are sent along
  h.sharing.answered(tell.id, 1);
  f.last_close = kNow + seconds(1);
  h.sharing.changed(kKey, f);
  h.step();
  BOOST_TEST(h.requests.empty());
  h.advance(milliseconds(4990));
  BOOST_TEST(h.requests.empty());
  h.advance(milliseconds(20));
  BOOST_TEST(!h.requests.empty());
}

BOOST_AUTO_TEST_CASE(trouble_of_this_host_alone_is_not_told) {
  Host h;
  h.up();
  h.want(1, 20);
  h.answer(h.ask(), {1, 0, 0, 0, 0});
  h.sharing.changed(kKey, failing(kNow + seconds(60)), true);
  h.step();
  BOOST_TEST(h.requests.empty());
}

BOOST_AUTO_TEST_CASE(a_server_that_lost_its_memory_is_told_again_and_newer_words_stand) {
  Host h;
  h.up();
  const Facts own = failing(kNow + std::chrono::minutes(5));
  h.want(1, 20, &own);
  h.answer(h.ask(), {1, 0, 0, 0, 0});  // version 0: there are no facts
  auto tell = h.request<ClusterSharing::TellFacts>();
  BOOST_REQUIRE(tell.groups.size() == 1U);
  BOOST_TEST(tell.groups[0].first == "f");
  h.sharing.answered(tell.id, 1);
  // An older statement of another host does not replace it, and is corrected.
  h.want(2, 20);
  Facts old = failing(kNow);
  h.answer(h.ask(), {0, 0, 0, 0, 0}, told(2, Group::failure, old, kNow - std::chrono::hours(1)));
  BOOST_TEST(h.took<ClusterSharing::Learned>().empty());
  tell = h.request<ClusterSharing::TellFacts>();
  BOOST_TEST(tell.groups[0].first == "f");
}

BOOST_AUTO_TEST_CASE(an_outage_frees_what_waits_and_the_numbers_are_said_anew_after_it) {
  Host h;
  h.up();
  h.want(1, 5);
  h.answer(h.ask(), {1, 4, 1, 0, 0});
  h.want(2, 5);
  h.effects.clear();
  h.sharing.down();
  h.step();
  BOOST_TEST(h.opened() == (Numbers{2}), boost::test_tools::per_element());
  const auto heard = h.took<ClusterSharing::Elsewhere>();
  BOOST_REQUIRE(heard.size() == 1U);
  BOOST_TEST(heard[0].connections == 0U);
  BOOST_TEST(h.took<ClusterSharing::LookAgain>().size() == 1U);
  h.requests.clear();
  h.sharing.changed(kKey, failing(kNow + seconds(60)));
  h.advance(std::chrono::minutes(1));
  BOOST_TEST(h.requests.empty());
  h.up();
  BOOST_TEST(h.ask().held == 2U);
  BOOST_TEST(h.request<ClusterSharing::TellFacts>().groups.size() == 1U);
}

BOOST_AUTO_TEST_CASE(answers_of_an_earlier_connection_change_nothing) {
  Host h;
  h.up();
  h.want(1, 5);
  const auto ask = h.ask();
  h.sharing.down();
  h.up();
  h.effects.clear();
  h.answer(ask, {0, 5, 1, 0, 0});
  BOOST_TEST(h.effects.empty());
}

BOOST_AUTO_TEST_CASE(doubts_are_asked_about_now_and_then) {
  Host h;
  h.up();
  const Facts own = failing(kNow + std::chrono::minutes(5));
  for (int i = 0; i < 5; ++i) h.sharing.doubted(kKey, own);
  h.step();
  const auto ask = h.ask();
  BOOST_TEST(ask.wanted == 0U);
  BOOST_TEST(h.requests.empty());
  Facts back;
  back.last_connect = kNow;
  h.answer(ask, {0, 1, 1, 0, 0}, told(4, Group::failure, back, kNow + seconds(1)));
  const auto learned = h.took<ClusterSharing::Learned>();
  BOOST_REQUIRE(learned.size() == 1U);
  BOOST_TEST(learned[0].facts.failures == 0U);
  h.sharing.doubted(kKey, own);
  h.step();
  BOOST_TEST(h.requests.empty());
  h.advance(milliseconds(1999));
  BOOST_TEST(h.requests.empty());
  h.advance(milliseconds(1));
  BOOST_TEST(h.ask().version == 4U);
  h.advance(seconds(10));
  BOOST_TEST(h.requests.empty());
}

BOOST_AUTO_TEST_CASE(memory_and_requests_are_bounded) {
  ClusterSharing::Options o;
  o.entries = 100;
  o.under_way = 10;
  ClusterSharing s(o);
  s.set_time(SteadyTime{std::chrono::hours(1)}, kNow);
  s.up();
  for (std::uint64_t c = 1; c <= 1000; ++c) s.want(c, "d" + std::to_string(c), 5, nullptr);
  BOOST_TEST(s.entries() == 100U);
  BOOST_TEST(s.take_requests().size() <= 10U);
  std::size_t opened = 0;
  for (const auto& e : s.take_effects()) opened += std::holds_alternative<ClusterSharing::Open>(e) ? 1 : 0;
  BOOST_TEST(opened == 900U);  // no room to share them: own knowledge decides
  for (std::uint64_t c = 1; c <= 1000; ++c) s.gone(c);
  s.down();  // no answer is open any more
  s.want(2000, "one more", 5, nullptr);
  BOOST_TEST(s.entries() == 100U);
  BOOST_TEST(!s.elsewhere("d1").has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::destdb
