/// What a scenario may expect (scenario_verbs.h).
#include <boost/test/unit_test.hpp>
#include <set>
#include <sstream>

#include "qmgr/testing/scenario_verbs.h"

namespace pen::qmgr::scenario {

namespace {

void route(World& w, const Arguments& a) {
  const auto number = w.message(a.at(0)).number;
  for (std::uint32_t i = 0; i < std::max(1U, a.number_or(1, 1)); ++i)
    w.take<RouteRecipient>([&](const RouteRecipient& r) { return r.message == number; });
}

void open(World& w, const Arguments& a, bool step_by_step, bool clear_text) {
  std::set<std::string> hosts;
  std::istringstream in(a.at(1));
  for (std::string host; std::getline(in, host, '|');) hosts.insert(host);
  w.take<OpenConnection>([&](const OpenConnection& o) {
    if (!hosts.contains(o.destination.host) || o.step_by_step != step_by_step || o.clear_text != clear_text)
      return false;
    w.name_connection(a.at(0), o.connection);
    return true;
  });
}

void hand(World& w, const Arguments& a) {
  const auto c = w.connection(a.at(0));
  const auto m = a.at(1) == "ANY" ? 0 : w.message(a.at(1)).number;
  const auto n = a.number_or(2, 0);
  w.take<HandJob>([&](const HandJob& h) {
    return h.connection == c && (m == 0 || h.message == m) && (n == 0 || h.ordinals.size() == n);
  });
}

void defer(World& w, const Arguments& a) {
  const auto m = w.message(a.at(0)).number;
  const auto n = a.number_or(1, 0);
  const std::string words = a.rest(2);
  w.take<DeferRecipients>([&](const DeferRecipients& d) {
    return d.message == m && (n == 0 || d.ordinals.size() == n) && d.status.text.find(words) != std::string::npos;
  });
}

void explain(World& w, const Arguments& a) {
  static constexpr const char* kRules[] = {"room",   "idle", "unused", "closed", "retry",
                                           "fewest", "ride", "wait",   "nothing"};
  const auto e = w.core().explain(w.resolved(a.at(0), 0));
  BOOST_TEST(kRules[static_cast<int>(e.choice)] == a.at(1));
  std::set<std::string> wanted;
  for (const std::string& host : a.list(2)) wanted.insert(w.destination(host).key());
  BOOST_CHECK_MESSAGE(std::set<std::string>(e.chosen.begin(), e.chosen.end()) == wanted, "other hosts would be chosen");
  if (e.choice == Choice::nothing) BOOST_TEST(e.level == e.levels.size());
}

void state(World& w, const Arguments& a) {
  static constexpr const char* kStates[] = {"active", "idle", "closed", "unused", "retry", "failing", "suspended"};
  std::string found = "none";
  w.core().each_destination([&](const DestinationState& d) {
    if (d.address.host == a.at(0)) found = kStates[static_cast<int>(d.classification)];
  });
  BOOST_TEST(found == a.at(1));
}

void finished(World& w, const Arguments& a) {
  const Message& m = w.message(a.at(0));
  BOOST_REQUIRE_MESSAGE(m.ended != kNever, "not finished: " << m.delivered << " delivered");
  const auto took = std::chrono::duration_cast<milliseconds>(m.ended - m.arrived);
  BOOST_CHECK_MESSAGE(took <= a.duration(2), "took " << took.count() << " ms");
}

void served(World& w, const Arguments& a) {
  const auto n = w.hosts[a.at(0)].served;
  BOOST_CHECK_MESSAGE(a.at(1) == "at_most" ? n <= a.number(2) : n >= a.number(2), "served " << n);
}

void retry(World& w, const Arguments& a) {
  const auto facts = w.table.find(w.destination(a.at(0)).key());
  BOOST_REQUIRE(facts.has_value());
  const auto in = std::chrono::duration_cast<milliseconds>(facts->next_retry - w.wall());
  BOOST_CHECK_MESSAGE(in >= a.duration(2) && in <= a.duration(4), "in " << in.count() << " ms");
}

constexpr Verb kExpectations[] = {
    {"nothing", "", "every action so far was expected", [](World& w, const Arguments&) { w.expect_nothing(); }},
    {"route", "MSG [N]", "N look-ups (1)", route},
    {"open", "CONN HOST[|HOST]", "a connection to one of them, which is CONN from now on",
     [](World& w, const Arguments& a) { open(w, a, false, false); }},
    {"step_by_step", "CONN HOST", "the same, and without pipelining",
     [](World& w, const Arguments& a) { open(w, a, true, false); }},
    {"clear_text", "CONN HOST", "the same, and without STARTTLS",
     [](World& w, const Arguments& a) { open(w, a, false, true); }},
    {"hand", "CONN MSG|ANY [COUNT]", "a job, of so many recipients", hand},
    {"close", "CONN", "it is closed by us",
     [](World& w, const Arguments& a) {
       const auto c = w.connection(a.at(0));
       w.take<CloseConnection>([c](const CloseConnection& closed) { return closed.connection == c; });
     }},
    {"defer", "MSG [COUNT [WORDS]]", "so many recipients (0: any number); what the status says", defer},
    {"explain", "DOMAIN RULE [HOST …]", "what would be chosen for a first message (`pendest explain`)", explain},
    {"state", "HOST CLASS", "as pendest shows it", state},
    {"retry", "HOST between D and D", "when a failing one may be tried again", retry},
    {"served", "HOST at_most|at_least N", "jobs, of a host that answers by itself", served},
    {"finished", "MSG within D", "after its arrival, where hosts answer by themselves", finished},
    {"connections", "N", "opened so far",
     [](World& w, const Arguments& a) { BOOST_TEST(w.core().figures().connections_opened == a.number(0)); }},
    {"delivered", "MSG N", "recipients so far",
     [](World& w, const Arguments& a) { BOOST_TEST(w.message(a.at(0)).delivered == a.number(1)); }},
    {"in_hand", "N", "jobs now",
     [](World& w, const Arguments& a) { BOOST_TEST(w.core().figures().in_hand == a.number(0)); }},
};

}  // namespace

std::span<const Verb> expectations() { return kExpectations; }

}  // namespace pen::qmgr::scenario
