#include "bench/scheduler/workers.h"

#include <algorithm>

#include "lib/base/check.h"

namespace pen::simulation {

namespace {

constexpr std::size_t kAddresses = 5;  // smtp_mx_address_limit

std::uint64_t look_up_key(MessageNumber m, std::uint32_t ordinal) { return (m << 24U) ^ ordinal; }

}  // namespace

std::vector<Task> tasks_of(const World& world, MessageNumber message, const Ordinals& recipients, std::uint32_t most) {
  std::vector<Task> tasks;
  std::unordered_map<DomainNumber, std::size_t> open;
  for (const std::uint32_t ordinal : recipients) {
    const DomainNumber d = world.domain_of(message, ordinal);
    const auto [at, fresh] = open.try_emplace(d, tasks.size());
    if (!fresh && most != 0 && tasks[at->second].ordinals.size() >= most) at->second = tasks.size();
    if (at->second == tasks.size()) tasks.push_back({message, d, {}});
    tasks[at->second].ordinals.push_back(ordinal);
  }
  return tasks;
}

void Workers::start(Task&& task) {
  PEN_CHECK(free() > 0);
  ++busy_;
  const MessageNumber m = task.message;
  const std::uint32_t ordinal = task.ordinals.front();
  auto worker = std::make_unique<Worker>();
  worker->task = std::move(task);
  looking_[look_up_key(m, ordinal)] = std::move(worker);
  world_.look_up(m, ordinal);
}

void Workers::looked_up(MessageNumber m, std::uint32_t ordinal) {
  auto node = looking_.extract(look_up_key(m, ordinal));
  PEN_CHECK(!node.empty());
  proceed(std::move(node.mapped()));
}

ConnectionNumber Workers::from_cache(const Cluster& cluster, HostNumber& host) {
  for (HostNumber h = cluster.first; h < cluster.first + cluster.primary; ++h) {
    const auto at = cache_.find(h);
    if (at == cache_.end()) continue;
    const ConnectionNumber c = at->second.back();  // the one used most recently
    at->second.pop_back();
    if (at->second.empty()) cache_.erase(at);
    idle_since_.erase(c);
    host = h;
    return c;
  }
  return 0;
}

void Workers::proceed(std::unique_ptr<Worker> worker) {
  const Internet& net = world_.internet();
  const Cluster& cluster = net.cluster(net.cluster_of(worker->task.domain));
  if (!worker->chosen) {
    worker->chosen = true;
    HostNumber host = 0;
    if (const ConnectionNumber c = from_cache(cluster, host); c != 0) {
      hand(c, std::move(worker));
      return;
    }
    const auto add = [&](HostNumber first, std::uint32_t count) {
      std::vector<HostNumber> level;
      for (std::uint32_t i = 0; i < count; ++i) level.push_back(first + i);
      for (std::size_t i = level.size(); i > 1; --i) std::swap(level[i - 1], level[random_.below(i)]);
      worker->candidates.insert(worker->candidates.end(), level.begin(), level.end());
    };
    add(cluster.first, cluster.primary);
    add(cluster.first + cluster.primary, cluster.backup);
    if (worker->candidates.size() > kAddresses) worker->candidates.resize(kAddresses);
    std::reverse(worker->candidates.begin(), worker->candidates.end());
  }
  if (worker->candidates.empty()) {
    --busy_;
    world_.deferred(worker->task.message, worker->task.ordinals);
    owner_.finished(worker->task, true);
    return;
  }
  const HostNumber host = worker->candidates.back();
  worker->candidates.pop_back();
  const ConnectionNumber c = next_connection_++;
  connections_[c] = {host, std::move(worker)};
  world_.open(c, host);
}

void Workers::hand(ConnectionNumber connection, std::unique_ptr<Worker> worker) {
  Used& used = connections_.at(connection);
  used.worker = std::move(worker);
  world_.hand(connection, connection, used.worker->task.message, used.worker->task.ordinals);
}

void Workers::opened(ConnectionNumber connection) {
  Used& used = connections_.at(connection);
  hand(connection, std::move(used.worker));
}

void Workers::closed(ConnectionNumber connection, bool was_opened) {
  auto node = connections_.extract(connection);
  PEN_CHECK(!node.empty());
  if (was_opened) {  // this was its last reply: it goes to the cache
    auto at = cache_.find(node.mapped().host);
    if (at != cache_.end()) {
      std::erase(at->second, connection);
      if (at->second.empty()) cache_.erase(at);
    }
    idle_since_.erase(connection);
    PEN_CHECK(node.mapped().worker == nullptr, "a host that closes with a delivery in hand");
    return;
  }
  proceed(std::move(node.mapped().worker));
}

void Workers::done(ConnectionNumber connection) {
  Used& used = connections_.at(connection);
  const std::unique_ptr<Worker> worker = std::move(used.worker);
  cache_[used.host].push_back(connection);
  idle_.push_back({connection, world_.now()});
  idle_since_[connection] = world_.now();
  --busy_;
  owner_.finished(worker->task, false);
}

void Workers::tick() {
  while (!idle_.empty() && idle_.front().since + limits_.idle_age <= world_.now()) {
    const Idle old = idle_.front();
    idle_.pop_front();
    const auto at = idle_since_.find(old.connection);
    if (at == idle_since_.end() || at->second != old.since) continue;
    idle_since_.erase(at);
    const auto used = connections_.find(old.connection);
    auto cached = cache_.find(used->second.host);
    std::erase(cached->second, old.connection);
    if (cached->second.empty()) cache_.erase(cached);
    connections_.erase(used);
    world_.close(old.connection);
  }
}

SteadyTime Workers::next_wake() const { return idle_.empty() ? kNever : idle_.front().since + limits_.idle_age; }

}  // namespace pen::simulation
