#include "penapi/survey.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "lib/base/log.h"
#include "lib/queue/destdb/facts.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/sessions/status.h"
#include "penapi/server.h"

namespace pen::api {

using async::Task;

void QueueState::add(WallTime now, WallTime arrival, std::uint64_t size) {
  ++messages;
  bytes += size;
  if (oldest == WallTime{} || arrival < oldest) oldest = arrival;
  ++sizes[static_cast<std::size_t>(std::ranges::lower_bound(kSizes, size) - kSizes.begin())];
  const double age = std::max(0.0, std::chrono::duration<double>(now - arrival).count());
  age_sum += age;
  ++ages[static_cast<std::size_t>(
      std::ranges::lower_bound(kWaits, age, {}, [](std::uint64_t bound) { return static_cast<double>(bound); }) -
      kWaits.begin())];
}

void QueueView::add(WallTime now, const ipc::queue::Entry& e) {
  using ipc::queue::Place;
  const auto place = static_cast<std::size_t>(e.place);
  if (place < kPlaces) states[place].add(now, e.arrival, e.size);
  const auto older = [](WallTime& oldest, WallTime at) {
    if (oldest == WallTime{} || at < oldest) oldest = at;
  };
  if (e.attempt == 1 && (e.place == Place::active || e.place == Place::incoming)) older(untried, e.arrival);
  if (e.place == Place::deferred && e.next_try != WallTime{} && e.next_try < now) older(due, e.next_try);
}

namespace {
bool busier(const DestinationFigures& a, const DestinationFigures& b) {
  return a.weight() != b.weight() ? a.weight() > b.weight() : a.failures > b.failures;
}
bool worse(const DestinationFigures& a, const DestinationFigures& b) {
  return a.failures != b.failures ? a.failures > b.failures : a.weight() > b.weight();
}
/// Puts one into a heap of `limit`; the least of all falls out again.
std::optional<DestinationFigures> put(std::vector<DestinationFigures>& heap, std::size_t limit, auto more,
                                      DestinationFigures d) {
  heap.push_back(std::move(d));
  std::ranges::push_heap(heap, more);
  if (heap.size() <= limit) return std::nullopt;
  std::ranges::pop_heap(heap, more);
  std::optional<DestinationFigures> least(std::move(heap.back()));
  heap.pop_back();
  return least;
}
}  // namespace

void Busiest::add(DestinationFigures d) {
  const std::size_t for_troubled = (limit_ + 1) / 2;
  if (d.failures > 0) {
    auto least = put(troubled_, for_troubled, worse, std::move(d));
    if (!least && troubled_.size() + busy_.size() <= limit_) return;
    if (!least) {  // it has taken the place of a busy one
      std::ranges::pop_heap(busy_, busier);
      least = std::move(busy_.back());
      busy_.pop_back();
    }
    d = *std::move(least);
  }
  const auto least = put(busy_, limit_ - troubled_.size(), busier, std::move(d));
  if (!least) return;
  other_.connections += least->connections;
  other_.jobs += least->jobs;
  other_.failures += least->failures;
}

std::vector<DestinationFigures> Busiest::take() {
  std::ranges::sort(busy_, busier);
  std::ranges::sort(troubled_, worse);
  std::ranges::move(troubled_, std::back_inserter(busy_));
  return std::move(busy_);
}

Survey::Survey(Server& server)
    : server_(server), looked_(server.loop), asked_(server.loop), state_asked_(server.loop) {}

Task<Seen> Survey::look() {
  async::Loop& loop = server_.loop;
  if (!under_way_ && loop.now() >= again_) {
    under_way_ = true;
    looked_.reset();
    loop.spawn("survey", go_through(this));
  }
  if (asking_) {
    (void)co_await asked_.wait();  // not long: ask_quick() is bounded
  } else if (quick_at_ == SteadyTime::min() || loop.now() - quick_at_ >= kQuick) {
    asking_ = true;
    asked_.reset();
    co_await ask_quick();
    quick_at_ = loop.now();
    asking_ = false;
    asked_.set();
  }
  if (queue_->looked == WallTime{} && quick_.qmgr_problem.empty())
    (void)co_await looked_.wait({.deadline = loop.now() + kFirst});
  Seen seen = quick_;
  seen.queue = queue_;
  co_return seen;
}

Task<std::shared_ptr<const Troubled>> Survey::troubled() {
  if (troubled_ && server_.loop.now() - troubled_at_ < kTroubled) co_return troubled_;
  auto found = std::make_shared<Troubled>();
  // Two that come at once may both ask.
  const auto done = co_await server_.ask(ipc::destinations::Find{.request = 1, .name = {}, .troubled = kMostTroubled},
                                         [&](ipc::destinations::FromQmgr& m) {
                                           if (!std::holds_alternative<ipc::destinations::Backend>(m))
                                             found->worst.push_back(std::move(m));
                                           return true;
                                         });
  if (!done)
    found->problem = done.error().message();
  else if (*done)
    found->all = (*done)->count;
  troubled_ = found;
  troubled_at_ = server_.loop.now();
  co_return found;
}

namespace {
Task<Answering> status_of_qmgr(Server& server) {
  Answering out;
  const auto done = co_await server.ask(
      ipc::queue::AskStatus{.request = 1},
      [&](ipc::queue::FromQmgr& m) {
        if (auto* status = std::get_if<ipc::queue::Status>(&m))
          for (auto& line : status->lines) out.qmgr.insert_or_assign(std::move(line.name), std::move(line.value));
        return true;
      },
      Survey::kAnswer);
  if (!done) out.problem = done.error().message();
  co_return out;
}
}  // namespace

Task<void> Survey::ask_state(Survey* self) {
  self->answering_ = co_await status_of_qmgr(self->server_);
  self->answering_at_ = self->server_.loop.now();
  self->asking_state_ = false;
  self->state_asked_.set();
}

Task<Answering> Survey::answering() {
  async::Loop& loop = server_.loop;
  const bool fresh = answering_at_ != SteadyTime::min() && loop.now() - answering_at_ < kQuick;
  if (!fresh && !asking_state_) {
    asking_state_ = true;
    state_asked_.reset();
    loop.spawn("state of qmgr", ask_state(this));
  }
  if (asking_state_) (void)co_await state_asked_.wait({.deadline = loop.now() + kProbe});
  co_return answering_;
}

Task<void> Survey::ask_quick() {
  Seen now;
  Answering state = co_await status_of_qmgr(server_);
  now.qmgr = std::move(state.qmgr);
  now.qmgr_problem = std::move(state.problem);
  auto sessions = co_await sessions::ask_status(server_.loop, server_.path(ipc::kAnvilSocket),
                                                {.deadline = server_.loop.now() + kAnswer});
  if (sessions)
    now.sessions = *std::move(sessions);
  else
    now.sessions_problem = sessions.error().message();
  quick_ = std::move(now);
}

Task<void> Survey::go_through(Survey* self) {
  async::Loop& loop = self->server_.loop;
  const SteadyTime began = loop.now();
  bool looked = false;
  if ((co_await self->server_.listings.acquire()).has_value()) {
    auto view = std::make_shared<QueueView>();
    looked = co_await self->look_at_queue(*view);
    if (looked) self->queue_ = std::move(view);
    self->server_.listings.release();
  }
  // To wait for a queue manager that does not answer has cost it nothing.
  const auto took = looked ? loop.now() - began : std::chrono::nanoseconds(0);
  self->again_ = loop.now() + std::max<std::chrono::nanoseconds>(kLeast, took * kShare);
  self->under_way_ = false;
  self->looked_.set();
}

Task<bool> Survey::look_at_queue(QueueView& view) {
  const WallTime now = server_.loop.clock().wall_now();
  ipc::queue::List list;
  list.request = 1;
  list.brief = true;
  const auto done = co_await server_.ask(list, [&](ipc::queue::FromQmgr& m) {
    if (const auto* e = std::get_if<ipc::queue::Entry>(&m)) view.add(now, *e);
    return true;
  });
  if (!done || !*done || (*done)->outcome != ipc::queue::Outcome::ok) {
    log::warning("the queue cannot be listed: {}", done ? (*done ? (*done)->text : "") : done.error().message());
    co_return false;
  }
  const auto most = static_cast<std::size_t>(server_.config.settings().penapi_destination_limit);
  Busiest busiest(most);
  const auto add_limit = [&](const ipc::destinations::Limit& l, std::uint32_t place,
                             const std::vector<ipc::destinations::Quota>& quotas) {
    const std::string& scope = l.name.empty() ? l.domain : l.name;
    if (l.thousandths > 0 && view.limits.size() < most)
      view.limits.insert({l.group, l.source, scope, static_cast<double>(l.thousandths) / 60'000});
    for (const auto& q : quotas)
      if (q.limit == place && view.quotas.size() < most)
        view.quotas.insert(
            {l.group, l.source, scope, q.rate, q.most, q.used, static_cast<double>(q.opens.count()) / 1000});
  };
  const auto found = co_await server_.ask(
      ipc::destinations::Find{.request = 1, .name = {}, .limits = true}, [&](ipc::destinations::FromQmgr& m) {
        if (const auto* l = std::get_if<ipc::destinations::LimitSeen>(&m)) add_limit(l->limit, 0, l->quotas);
        auto* e = std::get_if<ipc::destinations::Entry>(&m);
        if (e == nullptr) return true;
        const auto cls = static_cast<std::size_t>(e->classification);
        if (cls < view.by_class.size()) ++view.by_class[cls];
        for (std::uint32_t i = 0; i < e->limits.size(); ++i) add_limit(e->limits[i], i, e->quotas);
        DestinationFigures d{.shown = std::move(e->shown), .transport = std::move(e->transport)};
        d.connections = e->connections;
        d.jobs = e->in_hand + e->waiting;
        if (const auto facts = decode<destdb::Facts>(e->facts)) d.failures = facts->failures;
        busiest.add(std::move(d));
        return true;
      });
  if (!found) {
    log::warning("destinations cannot be listed: {}", found.error().message());
    co_return false;
  }
  view.destinations = busiest.take();
  view.other = busiest.other();
  view.looked = now;
  co_return true;
}

}  // namespace pen::api
