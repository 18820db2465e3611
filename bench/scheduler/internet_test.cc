#include "bench/scheduler/internet.h"

#include <boost/test/unit_test.hpp>
#include <map>

#include "bench/scheduler/network.h"
#include "bench/scheduler/workload.h"

namespace pen::simulation {
namespace {

InternetParameters small() {
  InternetParameters p;
  p.hosts = 2000;
  p.domains = 20'000;
  return p;
}

BOOST_AUTO_TEST_CASE(the_same_seed_makes_the_same_internet_and_another_does_not) {
  const Internet a(small()), b(small());
  InternetParameters other = small();
  other.seed = 2;
  const Internet c(other);
  bool differs = false;
  for (HostNumber h = 0; h < a.hosts(); ++h) {
    BOOST_REQUIRE_EQUAL(a.host(h).round_trip, b.host(h).round_trip);
    differs |= a.host(h).round_trip != c.host(h).round_trip;
  }
  BOOST_TEST(differs);
  BOOST_TEST(a.hosts() == 2000U);
  BOOST_TEST(a.domains() == 20'000U);
}

BOOST_AUTO_TEST_CASE(few_providers_take_most_mail) {
  const Internet net(small());
  Random random(7);
  std::map<DomainNumber, int> drawn;
  int providers = 0;
  for (int i = 0; i < 10'000; ++i) {
    const DomainNumber d = net.draw(random);
    BOOST_REQUIRE_LT(d, net.domains());
    ++drawn[d];
    providers += d < net.providers();
  }
  BOOST_TEST(providers > 5200);
  BOOST_TEST(providers < 5800);
  BOOST_TEST(drawn[0] > drawn[net.providers() - 1] * 5);
  BOOST_TEST(drawn.size() > 1000U);
}

BOOST_AUTO_TEST_CASE(clusters_lie_within_the_hosts_and_every_domain_has_one) {
  const Internet net(small());
  std::size_t hosts = 0;
  for (ClusterNumber c = 0; c < net.clusters(); ++c) {
    const Cluster& k = net.cluster(c);
    BOOST_REQUIRE_EQUAL(k.first, hosts);
    BOOST_REQUIRE_GE(k.primary, 1);
    hosts += k.primary + k.backup;
  }
  BOOST_TEST(hosts == net.hosts());
  for (DomainNumber d = 0; d < net.domains(); ++d) BOOST_REQUIRE_LT(net.cluster_of(d), net.clusters());
}

BOOST_AUTO_TEST_CASE(the_shares_of_dead_and_greylisting_hosts_are_kept) {
  InternetParameters p = small();
  p.hosts = 20'000;
  p.dead = 0.3;
  p.greylisting = 0.1;
  const Internet net(p);
  int dead = 0, greylist = 0;
  for (HostNumber h = 0; h < net.hosts(); ++h) {
    dead += net.host(h).kind == Host::Kind::dead;
    greylist += net.host(h).greylists;
  }
  BOOST_TEST(dead > 5500);
  BOOST_TEST(dead < 6200);
  BOOST_TEST(greylist > 1700);
  BOOST_TEST(greylist < 2200);
  BOOST_TEST(!net.ordinary(net.tarpit()));
  BOOST_TEST(net.reachable(net.tarpit()));
}

BOOST_AUTO_TEST_CASE(a_stream_is_the_same_whatever_comes_beside_it) {
  const Internet net(small());
  Stream singles{"singles", seconds(0), 50, 10};
  Stream other{"other", seconds(1), 5, 0, 20};
  Workload alone(net, {singles}, 1), beside(net, {singles, other}, 1);
  std::vector<std::pair<SteadyTime, std::vector<DomainNumber>>> a, b;
  SteadyTime last{};
  while (!alone.ended()) {
    const Arrival m = alone.take();
    a.emplace_back(m.at, m.domains);
  }
  while (!beside.ended()) {
    const Arrival m = beside.take();
    BOOST_TEST((m.at >= last));
    last = m.at;
    if (m.stream == 0) b.emplace_back(m.at, m.domains);
    if (m.stream == 1) BOOST_TEST(m.domains.size() == 20U);
  }
  BOOST_TEST((a == b));
  BOOST_TEST(a.size() == 50U);
}

BOOST_AUTO_TEST_CASE(streams_find_the_addressees_that_they_ask_for) {
  InternetParameters p = small();
  p.dead = 0.3;
  const Internet net(p);
  Stream dead{"dead", seconds(0), 1, 0, 200};
  dead.to = Stream::To::dead;
  Stream live = dead;
  live.to = Stream::To::reachable;
  for (const DomainNumber d : Workload(net, {dead}, 1).take().domains) BOOST_TEST(!net.reachable(d));
  for (const DomainNumber d : Workload(net, {live}, 1).take().domains) BOOST_TEST(net.reachable(d));
}

/// Records the network's events, in words.
struct Peers : Network::Listener {
  explicit Peers(Host like) : net(small()) {
    net.change(0) = like;
    network.emplace(net, events, *this);
  }
  void connection_opened(ConnectionNumber c, const Host&) override { note("opened", c); }
  void connection_closed(ConnectionNumber c, bool opened, ipc::delivery::Trouble,
                         const std::vector<JobNumber>& unstarted) override {
    note(opened ? "closed" : "refused", c);
    left = unstarted;
  }
  void result(ConnectionNumber c, const Host&, Network::Delivery&& d, microseconds) override {
    note("done" + std::to_string(d.job), c);
  }
  void note(const std::string& what, ConnectionNumber c) {
    const auto ms = std::chrono::duration_cast<milliseconds>(now.time_since_epoch()).count();
    told += what + "#" + std::to_string(c) + "@" + std::to_string(ms) + " ";
  }
  void open(ConnectionNumber c) { network->open(now, c, 0); }
  void hand(ConnectionNumber c, JobNumber job) { network->hand(now, c, {job, 0, {0}, {}}); }
  std::string run(std::size_t most = 1000) {
    for (; most > 0 && !events.empty(); --most) {
      const Event e = events.take();
      now = e.at;
      network->happened(now, e);
    }
    return std::exchange(told, {});
  }
  Internet net;
  Events events;
  std::optional<Network> network;
  SteadyTime now{};
  std::string told;
  std::vector<JobNumber> left;
};

Host near() {
  Host h;
  h.round_trip = 10'000;
  h.processing = 5'000;
  return h;
}

BOOST_AUTO_TEST_CASE(a_connection_takes_three_round_trips_and_a_delivery_two) {
  Peers p(near());
  p.open(1);
  BOOST_TEST(p.run() == "opened#1@30 ");
  p.hand(1, 7);
  BOOST_TEST(p.run() == "done7#1@55 ");
}

BOOST_AUTO_TEST_CASE(round_trips_of_deliveries_in_the_window_overlap) {
  Peers p(near());
  p.open(1);
  p.run();
  p.hand(1, 7);
  p.hand(1, 8);
  BOOST_TEST(p.run() == "done7#1@55 done8#1@60 ");
}

BOOST_AUTO_TEST_CASE(a_host_closes_after_its_messages_and_the_rest_is_unstarted) {
  Host h = near();
  h.closes_after = 1;
  Peers p(h);
  p.open(1);
  p.run();
  p.hand(1, 7);
  p.hand(1, 8);
  BOOST_TEST(p.run() == "done7#1@55 closed#1@55 ");
  BOOST_TEST(p.left.size() == 1U);
  BOOST_TEST(p.left.at(0) == 8U);
  BOOST_TEST(p.network->open_to(0) == 0U);
  BOOST_TEST(p.network->serving() == 0U);
}

BOOST_AUTO_TEST_CASE(one_connection_over_the_limit_is_refused_until_another_closes) {
  Host h = near();
  h.connections_limit = 1;
  Peers p(h);
  p.open(1);
  p.open(2);
  BOOST_TEST(p.run() == "opened#1@30 refused#2@30 ");
  p.network->close(1);
  p.open(3);
  BOOST_TEST(p.run() == "opened#3@60 ");
}

BOOST_AUTO_TEST_CASE(a_dead_host_costs_the_timeout_and_a_tarpit_delays_all) {
  Host h = near();
  h.kind = Host::Kind::dead;
  Peers dead(h);
  dead.open(1);
  BOOST_TEST(dead.run() == "refused#1@30000 ");
  h.kind = Host::Kind::tarpit;
  Peers slow(h);
  slow.open(1);
  BOOST_TEST(slow.run() == "opened#1@20030 ");
  slow.hand(1, 7);
  BOOST_TEST(slow.run() == "done7#1@40055 ");
}

BOOST_AUTO_TEST_CASE(closing_waits_for_what_is_in_hand) {
  Peers p(near());
  p.open(1);
  p.run();
  p.hand(1, 7);
  p.network->close(1);
  BOOST_TEST(p.network->open_to(0) == 1U);
  BOOST_TEST(p.run() == "done7#1@55 ");
  BOOST_TEST(p.network->open_to(0) == 0U);
}

BOOST_AUTO_TEST_CASE(events_of_one_time_come_in_the_order_they_were_added) {
  Events e;
  e.add(SteadyTime(seconds(2)), Event::Kind::sample, 3);
  e.add(SteadyTime(seconds(1)), Event::Kind::sample, 1);
  e.add(SteadyTime(seconds(1)), Event::Kind::sample, 2);
  BOOST_TEST(e.take().a == 1U);
  BOOST_TEST(e.take().a == 2U);
  BOOST_TEST(e.take().a == 3U);
  BOOST_TEST(e.empty());
}

}  // namespace
}  // namespace pen::simulation
