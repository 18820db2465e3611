#pragma once
/// A simulated internet: hosts that take mail, clusters of them, and the domains that they serve.
///
/// A few providers with many addresses hold much of the mail. Hosting companies with some hosts serve hundreds of
/// domains each. All other domains have a host of their own, some with a second one of lower preference. Everything
/// follows from the seed and the parameters, and nothing changes after construction; Network (network.h) decides what
/// a host does to a delivery.
///
/// Use:     Internet net(parameters); net.draw(random) gives a recipient's domain by its popularity.
/// Memory:  about 32 bytes a host and 4 a domain: 1 M domains on 100 k hosts take 8 MiB.
/// Source:  docs/origins.md "The scheduler"; the shares are guesses, listed in docs/scheduler-simulation.md.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/base/time.h"

namespace pen::simulation {

using HostNumber = std::uint32_t;
using ClusterNumber = std::uint32_t;
using DomainNumber = std::uint32_t;

struct InternetParameters {
  std::uint64_t seed = 1;
  std::uint32_t domains = 1'000'000;
  std::uint32_t hosts = 100'000;
  std::uint32_t providers = 20;
  double provider_mail = 0.55;  // share of recipients at the providers' own domains
  double dead = 0.02;           // shares of hosts, without the providers'
  double tarpits = 0.005;
  double greylisting = 0.05;
  double closing = 0.05;                 // hosts that close after a few messages
  milliseconds connect_timeout{30'000};  // the time a dead host costs: smtp_connect_timeout
  milliseconds tarpit_reply{20'000};
  /// So many domains with hosts of their own belong to one customer, below customer.fr; their hosts work and are
  /// ordinary.
  std::uint32_t customer = 0;
};

struct Host {
  enum class Kind : std::uint8_t { working, tarpit, dead };
  Kind kind = Kind::working;
  bool greylists = false;               // refuses a recipient's first attempt for now
  std::uint16_t window = 1;             // messages it takes without waiting for its replies
  std::uint16_t closes_after = 0;       // messages on one connection; 0: never
  std::uint16_t connections_limit = 0;  // refuses more; 0: none
  std::uint32_t round_trip = 0;         // µs
  std::uint32_t processing = 0;         // µs of one message, beside the round trips
};

struct Cluster {
  HostNumber first = 0;
  std::uint16_t primary = 1;  // hosts first … first + primary - 1
  std::uint16_t backup = 0;   // then so many of the next preference level
};

class Internet {
 public:
  explicit Internet(const InternetParameters& parameters);

  const InternetParameters& parameters() const { return parameters_; }
  const Host& host(HostNumber n) const { return hosts_[n]; }
  std::size_t hosts() const { return hosts_.size(); }
  const Cluster& cluster(ClusterNumber n) const { return clusters_[n]; }
  std::size_t clusters() const { return clusters_.size(); }
  ClusterNumber cluster_of(DomainNumber d) const { return domains_[d]; }
  std::size_t domains() const { return domains_.size(); }
  /// The providers' own domains come first: 0 is the largest provider's.
  std::uint32_t providers() const { return providers_; }

  /// A recipient's domain, by popularity.
  DomainNumber draw(Random& random) const;
  /// True: a host of the domain takes connections, at whatever level.
  bool reachable(DomainNumber d) const;
  /// True: every host is ordinary and neither greylists nor delays, so that any delay is the scheduler's doing.
  bool ordinary(DomainNumber d) const;
  /// The first domain with hosts that are all tarpits; the constructor makes sure that there is one.
  DomainNumber tarpit() const { return tarpit_; }

  /// The domains of InternetParameters::customer.
  const std::vector<DomainNumber>& customer() const { return customer_; }
  bool customers(HostNumber n) const { return n < customer_hosts_.size() && customer_hosts_[n]; }
  std::string host_name(HostNumber n) const {
    return "mx" + std::to_string(n) + (customers(n) ? ".customer.fr" : ".example.net");
  }

  /// For tests and special cases: changes one host before the simulation starts.
  Host& change(HostNumber n) { return hosts_[n]; }

 private:
  void add_cluster(std::uint32_t primary, std::uint32_t backup, Host like, Random& random);
  void vary(Host& host, Random& random) const;

  InternetParameters parameters_;
  std::uint32_t providers_ = 0;
  DomainNumber tarpit_ = 0;
  std::vector<Host> hosts_;
  std::vector<Cluster> clusters_;
  std::vector<ClusterNumber> domains_;
  std::vector<double> provider_shares_;  // cumulative
  std::vector<DomainNumber> customer_;
  std::vector<bool> customer_hosts_;
};

}  // namespace pen::simulation
