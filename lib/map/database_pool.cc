#include "lib/map/database_pool.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <tuple>
#include <utility>

#include "lib/base/check.h"
#include "lib/map/database_look_up.h"
#include "lib/map/database_modules.h"
#include "lib/map/database_pool_state.h"

namespace pen::map::database {

namespace {

bool is_socket(const std::string& type, const std::string& host) {
  if (host.starts_with("unix:") || host.starts_with('/')) return true;
  return type == "mysql" && host == "localhost";  // the client library takes that for its socket
}

}  // namespace

Pools::Pools(const Clock& clock, FindDriver drivers, Limits limits, std::uint64_t seed)
    : clock_(clock), drivers_(std::move(drivers)), limits_(limits), random_(seed) {}
Pools::~Pools() = default;

Pools& Pools::of_process() {
  // Lives as long as the process: the thread uses it, and client libraries are not called after main() has ended.
  static Pools* const only = [] {
    auto* pools = new Pools(system_clock(), find_driver, Limits(), secure_random_u64());
    std::thread([pools] {
      for (;;) {
        const SteadyTime next = pools->close_idle();
        const auto sooner = [pools, next] { return pools->wake_at_ < next; };
        std::unique_lock lock(pools->mutex_);
        if (next == kNever) {
          pools->idled_.wait(lock, sooner);
        } else {
          pools->idled_.wait_for(lock, next - pools->clock_.now(), sooner);
        }
      }
    }).detach();
    return pools;
  }();
  return *only;
}

Pools::Pool& Pools::pool_of(const Table& table) {
  auto& pool = pools_[table.pool];
  if (pool) return *pool;
  pool = std::make_unique<Pool>();
  pool->type = table.type;
  pool->idle_interval = table.idle_interval;
  pool->retry_interval = table.retry_interval;
  for (const std::string& name : table.hosts) {
    auto host = std::make_unique<Host>();
    host->name = name;
    host->socket = is_socket(table.type, name);
    pool->hosts.push_back(std::move(host));
  }
  ++counts_.pools;
  return *pool;
}

/// The hosts to try, in their order. Empty: each is left out for a time.
std::vector<Pools::Host*> Pools::order(Pool& pool, bool leave_out_only_host) {
  struct Candidate {
    bool new_connection, tcp;
    std::uint64_t place;
    Host* host;
  };
  const bool as_written = pool.type == "ldap";
  std::vector<Candidate> candidates;
  for (const auto& host : pool.hosts) {
    if ((pool.hosts.size() > 1 || leave_out_only_host) && host->retry_at > clock_.now()) continue;
    candidates.push_back({host->idle.empty(), !as_written && !host->socket,
                          as_written ? candidates.size() : random_.next(), host.get()});
  }
  std::ranges::sort(candidates, {}, [](const Candidate& c) { return std::tuple(c.new_connection, c.tcp, c.place); });
  std::vector<Host*> out;
  for (const Candidate& candidate : candidates) out.push_back(candidate.host);
  return out;
}

std::unique_ptr<Connection> Pools::idle_of(Host& host) {
  if (host.idle.empty()) return nullptr;
  auto connection = std::move(host.idle.back().connection);
  host.idle.pop_back();
  --counts_.idle;
  return connection;
}

/// Whether one more connection may be made. Connections at rest make room; they go into `closed`. A pool that has none
/// may always make its first: pools that hang with all their connections must not keep the others from answering.
bool Pools::make_room(Pool& pool, std::vector<std::unique_ptr<Connection>>& closed) {
  const auto close_one = [&](Pool& of) {
    for (const auto& host : of.hosts) {
      if (host->idle.empty()) continue;
      closed.push_back(std::move(host->idle.front().connection));
      host->idle.erase(host->idle.begin());
      --counts_.idle;
      --of.open;
      --open_;
      return true;
    }
    return false;
  };
  if (pool.open >= limits_.per_pool && !close_one(pool)) return false;
  if (open_ < limits_.in_all) return true;
  return std::ranges::any_of(pools_, [&](const auto& entry) { return close_one(*entry.second); }) || pool.open == 0;
}

/// A connection came free, or a pool failed. Under the lock.
void Pools::tell_room() {
  ++room_told_;
  room_.notify_all();
  for (LookUp* waiting : std::exchange(waiting_, {})) waiting->wake();
}

Value Pools::finish(LookUp& look_up) {
  for (;;) switch (look_up.next()) {
      case Steps::Next::thread:
        look_up.in_thread();
        break;
      case Steps::Next::room: {
        std::unique_lock lock(mutex_);
        room_.wait_for(lock, look_up.until() - clock_.now(), [&] { return room_told_ != look_up.seen_; });
        break;
      }
      case Steps::Next::descriptor:
        PEN_CHECK(false, "steps are for who gives a function to wake them");
        break;
      case Steps::Next::done:
        return look_up.take();
    }
}

Value Pools::look_up(TablePtr table, std::string key, SteadyTime since) {
  LookUp look_up(*this, std::move(table), {.key = std::move(key), .store = std::nullopt, .since = since}, {});
  return finish(look_up);
}

Result<void> Pools::store(TablePtr table, std::string key, std::string value, SteadyTime since) {
  LookUp look_up(*this, std::move(table), {.key = std::move(key), .store = std::move(value), .since = since}, {});
  if (auto stored = finish(look_up); !stored) return std::unexpected(std::move(stored).error());
  return {};
}

SteadyTime Pools::close_idle() {
  std::vector<Host::Rest> over;
  SteadyTime next = kNever;
  {
    const std::lock_guard lock(mutex_);
    const SteadyTime now = clock_.now();
    for (const auto& [name, pool] : pools_) {
      for (const auto& host : pool->hosts) {
        const auto kept = std::ranges::partition(host->idle, [now](const auto& rest) { return rest.close_at > now; });
        const auto count = kept.size();
        over.insert(over.end(), std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end()));
        host->idle.erase(kept.begin(), kept.end());
        counts_.idle -= count;
        pool->open -= count;
        open_ -= count;
        for (const auto& rest : host->idle) next = std::min(next, rest.close_at);
      }
    }
    wake_at_ = next;
    if (!over.empty()) tell_room();
  }
  return next;
}

Pools::Counts Pools::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.open = open_;
  return counts;
}

}  // namespace pen::map::database
