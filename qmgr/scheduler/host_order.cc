#include "qmgr/scheduler/host_order.h"

#include <algorithm>

#include "qmgr/scheduler/connection.h"

namespace pen::qmgr::scheduler {

namespace {
/// So many transactions in a row must fail: one may have been the message's fault.
constexpr std::uint32_t kTakesNothing = 2;
/// At so many messages in a row it breaks off: to two it may well object in such a way.
constexpr std::uint32_t kBreaksOff = 3;
/// After that a host may have changed its mind about several domains.
constexpr std::chrono::hours kOneDomain{24};
}  // namespace

void HostOrder::took_nothing(Destination& d) {
  destdb::Facts& f = d.facts;
  if (asked_last(d)) return;  // one outage counts once
  if (++f.deferrals >= kTakesNothing) {
    // A message that met it comes back within backoff_max, and is to find it remembered.
    f.asked_last_until = clock_.wall + 2 * options_.backoff_max;
    note(d);
  }
  memory_.keep(d);
}

void HostOrder::broke_off(Destination& d, std::uint64_t message) {
  if (clock_.wall - d.broke_off > options_.backoff_max) d.broken_off = 0;
  // A message that comes back and meets it again says nothing new.
  if (d.broken_off == 0 || d.broken_at != message) ++d.broken_off;
  d.broken_at = message;
  d.broke_off = clock_.wall;
  took_nothing(d);
}

void HostOrder::took_something(Destination& d) const {
  if (d.facts.deferrals == 0) return;
  d.facts.deferrals = 0;
  d.facts.asked_last_until = {};
  memory_.keep(d);
}

bool HostOrder::breaks_again(const Destination& d) {
  return d.broken_off >= kBreaksOff &&
         std::none_of(d.connections.begin(), d.connections.end(),
                      [](const Connection* c) { return c->state == Connection::State::open; });
}

void HostOrder::takes_one_domain(Destination& d) {
  d.facts.one_domain_until = clock_.wall + kOneDomain;
  note(d);
  memory_.keep(d);
}

bool HostOrder::one_domain(const Cluster& c) const {
  if (clock_.wall >= one_domain_until_) return false;
  return std::any_of(c.levels.begin(), c.levels.end(), [this](const auto& level) {
    return std::any_of(level.begin(), level.end(), [this](const auto& member) {
      return member->destination->facts.one_domain_until > clock_.wall;
    });
  });
}

void HostOrder::note(const Destination& d) {
  takes_nothing_until_ = std::max(takes_nothing_until_, d.facts.asked_last_until);
  one_domain_until_ = std::max(one_domain_until_, d.facts.one_domain_until);
}

}  // namespace pen::qmgr::scheduler
