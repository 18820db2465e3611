/// Jobs at gates (gate.h): they pass, wait in turn, are put off, begin and end.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

Tenant* GateShare::owner() const { return party->tenant; }
UrgencyTurn GateShare::turn() const { return party->turns; }

namespace {
/// A job more, or one less, of the party; its first and its last change the number of parties.
void count_at(Gate& g, const Party& party, std::size_t parties) {
  const std::size_t urgency = index_of(party.turns.urgency);
  ++g.by_urgency[urgency];
  const Tenant* const tenant = party.tenant;
  if (tenant == nullptr) return;
  TenantAtGate& t = g.tenants[tenant];
  if (t.jobs++ == 0) g.weights += t.weight = tenant->weight;
  t.parties += parties;
  ++t.by_urgency[urgency];
}
void leaves_gate(Gate& g, const Party& party, std::size_t parties) {
  const std::size_t urgency = index_of(party.turns.urgency);
  --g.by_urgency[urgency];
  const auto at = g.tenants.find(party.tenant);
  if (at == g.tenants.end()) return;
  at->second.parties -= parties;
  --at->second.by_urgency[urgency];
  if (--at->second.jobs > 0) return;
  g.weights -= at->second.weight;
  g.tenants.erase(at);
}
}  // namespace

bool Model::pass_gates(Job& j) {
  if (!shaping.on()) return true;
  bool had_turn = std::exchange(j.had_turn, false);
  if (j.passed != 0) {
    bool rests = false;
    shaping.each_gate(j, [&](const Gate& g, std::uint8_t) { rests = rests || g.held_until > clock.now; });
    if (!rests) return true;
    // A complaint came after it had passed: another host of the same receiver would only hear it again.
    leave_gates(j);
    had_turn = true;
  }
  shaping.judge(j);
  shaping.listen(j);
  Gate* closed = nullptr;
  std::uint8_t kinds = 0;
  shaping.each_gate(j, [&](Gate& g, std::uint8_t kind) {
    kinds |= kind;
    if (closed != nullptr) return;
    shaping.refresh(g);
    if ((g.waiting > 0 && !had_turn) || !shaping.open(g, false)) closed = &g;
  });
  if (closed != nullptr) {
    if (auto status = shaping.put_off(*closed, j.message->party)) {
      defer(j, *status, "none");
      return false;
    }
    wait_at(*closed, j, had_turn);
    return false;
  }
  j.passed = kinds;
  shaping.each_gate(j, [](Gate& g, std::uint8_t) { ++g.passed; });
  return true;
}

void Model::wait_at(Gate& g, Job& j, bool at_front) {
  auto& share = g.shares[j.message->party];
  count_at(g, *j.message->party, share ? 0 : 1);
  if (!share) {
    share = std::make_unique<GateShare>(&g, j.message->party);
    if (at_front)
      g.round.push_front(share->round);
    else
      g.round.push_back(share->round);
  }
  if (at_front)
    share->jobs.push_front(j.in_line);
  else
    share->jobs.push_back(j.in_line);
  ++share->count;
  ++g.waiting;
  j.gated = share.get();
  j.place = Job::Place::gated;
  shaping.set_waking(g);
}

void Model::leave_gates(Job& j) {
  if (j.gated != nullptr) {
    GateShare& share = *std::exchange(j.gated, nullptr);
    Gate& g = *share.gate;
    j.in_line.unlink();
    j.place = Job::Place::forming;
    --g.waiting;
    leaves_gate(g, *share.party, --share.count == 0 ? 1 : 0);
    if (share.count == 0) {
      g.round.remove(share.round);
      g.shares.erase(share.party);
    }
    shaping.set_waking(g);
  }
  for (unsigned kind = 0; j.passed != 0 && kind < Shaping::kKinds; ++kind) {
    const auto bit = static_cast<std::uint8_t>(1U << kind);
    if ((j.passed & bit) == 0) continue;
    j.passed = static_cast<std::uint8_t>(j.passed & ~bit);
    Gate& g = *shaping.gate_of(j, kind);
    --g.passed;
    if (g.waiting > 0) shaping.mark(g);
  }
}

bool Model::sent_back(Job& j) {
  Gate* closed = nullptr;
  shaping.each_gate(j, [&](Gate& g, std::uint8_t) {
    if (closed == nullptr && !shaping.open(g, true)) closed = &g;
  });
  if (closed == nullptr) return false;
  Connection& c = *j.connection;
  unassign(j);
  if (c.jobs() == 0) set_idle(c);
  leave_gates(j);
  if (auto status = shaping.put_off(*closed, j.message->party))
    defer(j, *status, "none");
  else
    wait_at(*closed, j, true);
  return true;
}

void Model::begin_at_gates(Job& j) {
  leave_gates(j);
  shaping.each_gate(j, [&](Gate& g, std::uint8_t kind) {
    shaping.take(g);
    if (g.deliveries() == 0) return;
    ++g.under_way;
    j.under_way |= kind;
  });
}

void Model::ended_at_gates(Job& j) {
  for (unsigned kind = 0; kind < Shaping::kKinds; ++kind) {
    if ((j.under_way & (1U << kind)) == 0) continue;
    Gate& g = *shaping.gate_of(j, kind);
    --g.under_way;
    if (g.waiting > 0) shaping.mark(g);
  }
  j.under_way = 0;
}

void Model::open_gates() {
  while (Gate* const g = shaping.next_dirty()) {
    if (draining) continue;
    for (std::size_t most = g->waiting; most > 0 && g->waiting > 0; --most) {
      shaping.refresh(*g);
      if (!shaping.open(*g, false)) break;
      GateShare& share = *g->round.front();
      Job& j = *share.jobs.front();
      g->round.rotate(1);
      leave_gates(j);
      j.had_turn = true;
      schedule(j);
    }
    shaping.set_waking(*g);
  }
}

Model::EndComplaint Model::complained_at_close(const Connection& c, bool was_opened,
                                               const mail::DeliveryStatus& status) {
  const Job* j = nullptr;
  if (!c.handed.empty())
    j = c.handed.front();
  else if (const ConnectionShare* share = c.round.front(); share != nullptr)
    j = share->waiting.front();
  // Its job may have gone to another connection: then it is of the mail that waits for the host.
  const Member* const waits = c.destination->hungry.front();
  const Cluster* const cluster = j != nullptr                ? j->route->cluster
                                 : c.last_cluster != nullptr ? c.last_cluster
                                 : waits != nullptr          ? waits->cluster
                                                             : nullptr;
  if (cluster == nullptr) return {};
  // A host that refuses to talk has not heard of a sender.
  const Message* const message = j != nullptr && was_opened ? j->message : nullptr;
  const std::string_view source = Shaping::source_of(*cluster);
  const auto verdict = shaping.complained(*cluster, *c.destination, message, source, {}, status, ceilings);
  EndComplaint out;
  if (!verdict) return out;
  out.rests = verdict->rests;
  if (verdict->blocked.count() == 0 || source.empty()) return out;
  SourceBlock block{{}, j != nullptr ? j->route->nexthop : std::string(), verdict->blocked};
  if (cluster->group->provider != nullptr) block.provider = cluster->group->name;
  if (!block.provider.empty() || j != nullptr) out.block = std::move(block);
  return out;
}

}  // namespace pen::qmgr::scheduler

namespace pen::qmgr {

using namespace scheduler;

ComplaintVerdict Scheduler::complained(JobNumber number, const MailAddresses& of, const mail::DeliveryStatus& status) {
  Model& s = *model_;
  Job* const j = s.jobs.find(number);
  if (!s.shaping.on() || j == nullptr || j->place != Job::Place::handed) return {};
  return s.shaping
      .complained(*j->route->cluster, *j->connection->destination, j->message, Shaping::source_of(*j), of, status,
                  s.ceilings)
      .value_or(ComplaintVerdict{});
}

std::vector<ShapingNews> Scheduler::take_shaping_news() { return model_->shaping.take_news(); }

bool Scheduler::order_rate(std::string_view group, const shaping::Rates& rates) {
  const bool known = model_->shaping.order(group, rates);
  model_->settle();
  return known;
}

std::size_t Scheduler::forget_limits(std::string_view group) {
  const std::size_t count = model_->shaping.forget(group);
  model_->settle();
  return count;
}

std::vector<Spent> Scheduler::take_spent(bool last) { return model_->shaping.spent().take_changes(last); }

bool Scheduler::load_spent(std::string_view key, std::string_view value) {
  return model_->shaping.spent().load(key, value);
}

void Scheduler::rate_ready(const std::string& key) {
  model_->shaping.rate_ready(key);
  model_->settle();
}

void Scheduler::rate_heard(const std::string& key, std::string_view learned, milliseconds age) {
  model_->shaping.rate_heard(key, learned, age);
  model_->settle();
}

std::string_view Scheduler::provider_of(JobNumber number) const {
  const Job* const j = model_->jobs.find(number);
  if (j == nullptr || j->route == nullptr) return {};
  const Group* const g = j->route->cluster->group;
  return g == nullptr || g->provider == nullptr ? std::string_view() : std::string_view(g->name);
}

void Scheduler::each_limit(const std::function<void(const LimitState&)>& see) { model_->shaping.each(see); }
void Scheduler::each_set_limit(const std::function<void(const LimitState&)>& see) { model_->shaping.each_named(see); }

}  // namespace pen::qmgr
