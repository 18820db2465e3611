#include "bench/scheduler/internet.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"

namespace pen::simulation {

namespace {

/// A random number, log-uniform: most hosts are near or quick, some are far or slow.
std::uint32_t between(Random& random, double least, double most) {
  return static_cast<std::uint32_t>(least * std::pow(most / least, random.unit()));
}

}  // namespace

Internet::Internet(const InternetParameters& parameters) : parameters_(parameters) {
  PEN_CHECK(parameters.hosts >= 10 && parameters.domains >= 10, "an internet of ten hosts at least");
  Random random(parameters.seed);
  hosts_.reserve(parameters.hosts);
  // Providers: up to a fiftieth of all hosts, quick, behind limits.
  providers_ = std::min(parameters.providers, std::max(1U, parameters.hosts / 50));
  double total = 0;
  for (std::uint32_t i = 0; i < providers_; ++i) {
    total += 1.0 / (i + 1);
    provider_shares_.push_back(total);
    Host like;
    like.round_trip = between(random, 10'000, 120'000);
    like.processing = between(random, 10'000, 100'000);
    like.window = 20;
    like.connections_limit = static_cast<std::uint16_t>(10 + random.below(40));
    like.closes_after = static_cast<std::uint16_t>(random.chance(0.5) ? 100 : 0);
    const std::uint64_t most = std::clamp<std::uint64_t>(parameters.hosts / 500, 2, 24);
    add_cluster(static_cast<std::uint32_t>(2 + random.below(most - 1)), 0, like, random);
  }
  for (double& share : provider_shares_) share /= total;
  // Hosting companies: about a twentieth of the hosts.
  const std::size_t hosting_end = hosts_.size() + parameters.hosts / 20;
  const auto hosting_first = static_cast<ClusterNumber>(clusters_.size());
  while (hosts_.size() < hosting_end) {
    Host like;
    like.round_trip = between(random, 5'000, 200'000);
    like.processing = between(random, 20'000, 300'000);
    like.window = 10;
    like.connections_limit = static_cast<std::uint16_t>(10 + random.below(90));
    add_cluster(static_cast<std::uint32_t>(1 + random.below(4)), random.chance(0.3) ? 1 : 0, like, random);
  }
  const auto own_first = static_cast<ClusterNumber>(clusters_.size());
  while (hosts_.size() < parameters.hosts) {
    Host like;
    like.round_trip = between(random, 5'000, 300'000);
    like.processing = between(random, 20'000, 1'000'000);
    like.window = random.chance(0.8) ? 10 : 1;
    like.connections_limit = static_cast<std::uint16_t>(2 + random.below(20));
    add_cluster(1, hosts_.size() + 1 < parameters.hosts && random.chance(0.25) ? 1 : 0, like, random);
  }
  // At least one tarpit, alone in its cluster.
  const auto last = static_cast<ClusterNumber>(clusters_.size() - 1);
  for (HostNumber h = clusters_[last].first; h < hosts_.size(); ++h) {
    hosts_[h].kind = Host::Kind::tarpit;
    hosts_[h].greylists = false;
  }
  // Domains: one for each own cluster, a tenth of the rest hosted by providers, the others by hosting companies.
  domains_.reserve(parameters.domains);
  for (std::uint32_t i = 0; i < providers_; ++i) domains_.push_back(i);
  tarpit_ = static_cast<DomainNumber>(domains_.size());
  domains_.push_back(last);
  for (ClusterNumber c = own_first; c < last && domains_.size() < parameters.domains; ++c) domains_.push_back(c);
  while (domains_.size() < parameters.domains) {
    domains_.push_back(random.chance(0.1) ? static_cast<ClusterNumber>(random.below(providers_))
                                          : hosting_first + static_cast<ClusterNumber>(
                                                                random.below(std::max(1U, own_first - hosting_first))));
  }
  // Mix popular and unpopular domains.
  for (std::size_t i = domains_.size() - 1; i > tarpit_ + 1; --i)
    std::swap(domains_[i], domains_[tarpit_ + 1 + random.below(i - tarpit_)]);
  if (parameters.customer > 0) customer_hosts_.resize(hosts_.size());
  for (DomainNumber d = tarpit_ + 1; d < domains_.size(); ++d) {
    const Cluster& c = clusters_[domains_[d]];
    if (customer_.size() == parameters.customer) break;
    if (domains_[d] < own_first || domains_[d] == last || c.primary + c.backup > 1) continue;
    customer_.push_back(d);
    customer_hosts_[c.first] = true;
    hosts_[c.first].kind = Host::Kind::working;
    hosts_[c.first].greylists = false;
  }
}

void Internet::add_cluster(std::uint32_t primary, std::uint32_t backup, Host like, Random& random) {
  const bool provider = clusters_.size() < providers_;
  Cluster c;
  c.first = static_cast<HostNumber>(hosts_.size());
  c.primary = static_cast<std::uint16_t>(primary);
  c.backup = static_cast<std::uint16_t>(backup);
  clusters_.push_back(c);
  for (std::uint32_t i = 0; i < primary + backup; ++i) {
    hosts_.push_back(like);
    if (!provider) vary(hosts_.back(), random);
  }
}

void Internet::vary(Host& host, Random& random) const {
  const InternetParameters& p = parameters_;
  const double kind = random.unit();
  if (kind < p.dead) {
    host.kind = Host::Kind::dead;
  } else if (kind < p.dead + p.tarpits) {
    host.kind = Host::Kind::tarpit;
  }
  // Always drawn, so that another share of dead hosts changes nothing else about the other hosts.
  host.greylists = random.chance(p.greylisting);
  const auto few = static_cast<std::uint16_t>(1 + random.below(10));
  if (random.chance(p.closing)) host.closes_after = few;
}

DomainNumber Internet::draw(Random& random) const {
  const double u = random.unit();
  if (u < parameters_.provider_mail) {
    const double share = u / parameters_.provider_mail;
    const auto at = std::lower_bound(provider_shares_.begin(), provider_shares_.end(), share);
    return static_cast<DomainNumber>(std::min<std::ptrdiff_t>(at - provider_shares_.begin(), providers_ - 1));
  }
  // The rest by the cube of a uniform number: the first thousandth of the domains gets a tenth of this mail.
  const double v = random.unit();
  const auto rest = static_cast<double>(domains_.size() - providers_ - 1);
  return providers_ + 1 + static_cast<DomainNumber>(std::min(v * v * v * rest, rest - 1));
}

bool Internet::reachable(DomainNumber d) const {
  const Cluster& c = clusters_[domains_[d]];
  for (HostNumber h = c.first; h < c.first + c.primary + c.backup; ++h) {
    if (hosts_[h].kind != Host::Kind::dead) return true;
  }
  return false;
}

bool Internet::ordinary(DomainNumber d) const {
  const Cluster& c = clusters_[domains_[d]];
  for (HostNumber h = c.first; h < c.first + c.primary + c.backup; ++h) {
    if (hosts_[h].kind != Host::Kind::working || hosts_[h].greylists) return false;
  }
  return true;
}

}  // namespace pen::simulation
