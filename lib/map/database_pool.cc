#include "lib/map/database_pool.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <tuple>
#include <utility>

#include "lib/base/text.h"
#include "lib/map/database_modules.h"

namespace pen::map::database {

struct Pools::Host {
  struct Rest {
    std::unique_ptr<Connection> connection;
    SteadyTime close_at;
  };
  std::string name;
  bool socket = false;
  SteadyTime retry_at{};  // not tried before
  std::chrono::nanoseconds back_off{0};
  std::vector<Rest> idle;  // the one used last is at the end
};

struct Pools::Pool {
  std::string type;
  Driver* driver = nullptr;
  std::vector<std::unique_ptr<Host>> hosts;
  std::chrono::nanoseconds idle_interval{}, retry_interval{};
  std::size_t open = 0;  // connections, those being made among them
  SteadyTime answered{};
  SteadyTime failed{};  // when all hosts failed last
  Error failure = Error(MapError::unreadable);
};

namespace {

bool is_socket(const std::string& type, const std::string& host) {
  if (host.starts_with("unix:") || host.starts_with('/')) return true;
  return type == "mysql" && host == "localhost";  // the client library takes that for its socket
}

Error failure_of(const std::string& host, const Report& report) {
  const bool late = report.outcome == Outcome::timed_out;
  std::string text = host + ": " + (report.why.empty() && late ? "no answer" : printable(report.why, 400));
  return Error(MapError::unreadable, std::move(text), late ? ETIMEDOUT : 0);
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

/// Whether one more connection may be made. Connections at rest make room; they go into `closed`.
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
  return std::ranges::any_of(pools_, [&](const auto& entry) { return close_one(*entry.second); });
}

/// One question to one host.
class Pools::Attempt {
 public:
  Attempt(Pools& pools, Pool& pool, Host& host, const Table& table, const std::string& key, const std::string* store,
          SteadyTime since)
      : pools_(pools), pool_(pool), host_(host), table_(table), key_(key), store_(store), since_(since) {}

  /// nullopt: the pool failed while this waited for a connection.
  std::optional<Report> ask(SteadyTime deadline) {
    bool rested_once = false;
    for (std::size_t tries = 1;;) {
      bool rested = false;
      std::unique_ptr<Connection> connection;
      if (const auto without = take(connection, rested, deadline))
        return without->outcome == Outcome::done ? std::nullopt : without;
      values_.emplace(table_, key_);
      const Lookup lookup{table_.settings,
                          [this](std::string_view parameter, const Quote& quote) {
                            return table_.templates.at(std::string(parameter)).expand(KeyParts(key_), quote);
                          },
                          [this](std::string_view value) { return values_->add(value); },
                          std::min(deadline, pools_.clock_.now() + table_.try_patience), store_};
      Report report = connection->ask(lookup);
      const bool keep = report.reusable && (report.outcome == Outcome::done || report.outcome == Outcome::refused);
      give_back(std::move(connection), keep);
      const bool late = report.outcome == Outcome::timed_out;
      if (report.outcome != Outcome::lost && !late) return report;
      if (rested && !late) drop_idle();
      // The server closes what was idle for long, and everything when it is restarted: that is no try.
      if (rested && !late && !std::exchange(rested_once, true)) continue;
      if (tries++ >= table_.tries || !pause(deadline)) return report;
    }
  }
  Value take_value() { return std::move(*values_).take(); }

 private:
  /// Waits between two tries. False: no time is left, or the pool has failed.
  bool pause(SteadyTime deadline) {
    if (pools_.clock_.now() + table_.pause >= deadline) return false;
    std::unique_lock lock(pools_.mutex_);
    return !pools_.room_.wait_for(lock, table_.pause, [this] { return pool_.failed >= since_; });
  }

  /// A connection, or why there is none; done: the pool failed meanwhile.
  std::optional<Report> take(std::unique_ptr<Connection>& connection, bool& rested, SteadyTime deadline) {
    std::vector<std::unique_ptr<Connection>> closed;
    {
      std::unique_lock lock(pools_.mutex_);
      for (;;) {
        if ((connection = pools_.idle_of(host_))) {
          rested = true;
          return std::nullopt;
        }
        if (pool_.failed >= since_) return Report{};
        if (pools_.make_room(pool_, closed)) break;
        const auto left = deadline - pools_.clock_.now();
        if (left <= left.zero()) return Report{Outcome::timed_out, "all connections are busy"};
        pools_.room_.wait_for(lock, left);
      }
      ++pool_.open;
      ++pools_.open_;
      ++pools_.counts_.connects;
    }
    closed.clear();
    Report report{Outcome::lost, "cannot connect"};
    connection = pool_.driver->connect(table_.settings, host_.name,
                                       std::min(deadline, pools_.clock_.now() + connect_limit()), report);
    if (connection) return std::nullopt;
    if (report.outcome == Outcome::done) report.outcome = Outcome::lost;
    give_back(nullptr, false);
    return report;
  }

  std::chrono::nanoseconds connect_limit() const {
    return std::min<std::chrono::nanoseconds>(pools_.limits_.connect, table_.try_patience);
  }

  void give_back(std::unique_ptr<Connection> connection, bool keep) {
    if (!keep) connection.reset();
    const std::lock_guard lock(pools_.mutex_);
    if (keep) {
      const SteadyTime close_at = pools_.clock_.now() + pool_.idle_interval;
      host_.idle.push_back({std::move(connection), close_at});
      ++pools_.counts_.idle;
      if (close_at < pools_.wake_at_) {
        pools_.wake_at_ = close_at;
        pools_.idled_.notify_one();
      }
    } else {
      --pool_.open;
      --pools_.open_;
    }
    pools_.room_.notify_all();
  }

  void drop_idle() {
    std::vector<Host::Rest> dropped;  // ends after the lock
    const std::lock_guard lock(pools_.mutex_);
    dropped.swap(host_.idle);
    pools_.counts_.idle -= dropped.size();
    pool_.open -= dropped.size();
    pools_.open_ -= dropped.size();
  }

  Pools& pools_;
  Pool& pool_;
  Host& host_;
  const Table& table_;
  const std::string& key_;
  const std::string* store_;
  SteadyTime since_;
  std::optional<Values> values_;
};

Result<void> Pools::store(const Table& table, const std::string& key, const std::string& value, SteadyTime since) {
  if (auto stored = ask(table, key, &value, since); !stored) return std::unexpected(std::move(stored).error());
  return {};
}

Value Pools::ask(const Table& table, const std::string& key, const std::string* store, SteadyTime since) {
  PEN_TRY_ASSIGN(Driver* const driver, drivers_(table.type));
  const SteadyTime deadline = since + table.patience;
  const SteadyTime began = clock_.now();
  std::vector<Host*> hosts;
  Pool* pool = nullptr;
  {
    const std::lock_guard lock(mutex_);
    pool = &pool_of(table);
    pool->driver = driver;
    if (pool->failed >= since) return std::unexpected(pool->failure);
    hosts = order(*pool, table.leave_out_only_host);
    if (hosts.empty()) return std::unexpected(pool->failure);
  }
  const auto leave_out = [&](Host& host) {
    host.back_off = std::min(pool->retry_interval, std::max(2 * host.back_off, limits_.first_back_off));
    host.retry_at = clock_.now() + host.back_off;
  };
  std::vector<Host*> refused;
  Error last(MapError::unreadable, "no time is left", ETIMEDOUT);
  for (std::size_t i = 0; i < hosts.size() && clock_.now() < deadline; ++i) {
    Host& host = *hosts[i];
    const SteadyTime now = clock_.now();
    Attempt attempt(*this, *pool, host, table, key, store, since);
    const auto report = attempt.ask(now + (deadline - now) / static_cast<int>(hosts.size() - i));
    const std::lock_guard lock(mutex_);
    if (!report) return std::unexpected(pool->failure);
    if (report->outcome == Outcome::done) {
      pool->answered = clock_.now();
      host.back_off = {};
      host.retry_at = {};
      for (Host* other : refused) leave_out(*other);
      return attempt.take_value();
    }
    ++counts_.failures;
    last = failure_of(host.name, *report);
    if (report->outcome == Outcome::refused) {
      refused.push_back(&host);
    } else {
      leave_out(host);
    }
  }
  const std::lock_guard lock(mutex_);
  pool->failure = last;
  if (refused.empty() && pool->answered < began) {
    pool->failed = clock_.now();
    room_.notify_all();
  }
  return std::unexpected(std::move(last));
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
    if (!over.empty()) room_.notify_all();
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
