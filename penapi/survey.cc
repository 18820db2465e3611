#include "penapi/survey.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/destdb/facts.h"
#include "lib/ipc/topology.h"
#include "lib/sessions/status.h"
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

namespace {
bool busier(const DestinationFigures& a, const DestinationFigures& b) {
  return a.weight() != b.weight() ? a.weight() > b.weight() : a.failures > b.failures;
}
}  // namespace

void Busiest::add(DestinationFigures d) {
  kept_.push_back(std::move(d));
  std::ranges::push_heap(kept_, busier);
  if (kept_.size() <= limit_) return;
  std::ranges::pop_heap(kept_, busier);
  other_.connections += kept_.back().connections;
  other_.jobs += kept_.back().jobs;
  other_.failures += kept_.back().failures;
  kept_.pop_back();
}

std::vector<DestinationFigures> Busiest::take() {
  std::ranges::sort(kept_, busier);
  return std::move(kept_);
}

Survey::Survey(Server& server) : server_(server), looked_(server.loop), asked_(server.loop) {}

Task<Seen> Survey::look() {
  async::Loop& loop = server_.loop;
  if (!under_way_ && loop.now() >= again_) {
    under_way_ = true;
    looked_.reset();
    loop.spawn("survey", go_through(this));
  }
  if (asking_) {
    (void)co_await asked_.wait({.deadline = loop.now() + kFirst});
  } else if (quick_at_ == SteadyTime::min() || loop.now() - quick_at_ >= kQuick) {
    asking_ = true;
    asked_.reset();
    co_await ask_quick();
    quick_at_ = loop.now();
    asking_ = false;
    asked_.set();
  }
  if (queue_->looked == WallTime{}) (void)co_await looked_.wait({.deadline = loop.now() + kFirst});
  Seen seen = quick_;
  seen.queue = queue_;
  co_return seen;
}

Task<void> Survey::ask_quick() {
  Seen now;
  const auto done = co_await server_.ask(ipc::queue::AskStatus{.request = 1}, [&](ipc::queue::FromQmgr& m) {
    if (auto* status = std::get_if<ipc::queue::Status>(&m))
      for (auto& line : status->lines) now.qmgr.insert_or_assign(std::move(line.name), std::move(line.value));
    return true;
  });
  if (!done) now.qmgr_problem = done.error().message();
  auto sessions = co_await sessions::ask_status(server_.loop, server_.path(ipc::kAnvilSocket),
                                                {.deadline = server_.loop.now() + seconds(5)});
  if (sessions)
    now.sessions = *std::move(sessions);
  else
    now.sessions_problem = sessions.error().message();
  quick_ = std::move(now);
}

Task<void> Survey::go_through(Survey* self) {
  async::Loop& loop = self->server_.loop;
  const SteadyTime began = loop.now();
  if ((co_await self->server_.listings.acquire()).has_value()) {
    auto view = std::make_shared<QueueView>();
    if (co_await self->look_at_queue(*view)) self->queue_ = std::move(view);
    self->server_.listings.release();
  }
  const auto took = loop.now() - began;
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
    if (const auto* e = std::get_if<ipc::queue::Entry>(&m)) {
      const auto place = static_cast<std::size_t>(e->place);
      if (place < kPlaces) view.states[place].add(now, e->arrival, e->size);
    }
    return true;
  });
  if (!done || !*done || (*done)->outcome != ipc::queue::Outcome::ok) {
    log::warning("the queue cannot be listed: {}", done ? (*done ? (*done)->text : "") : done.error().message());
    co_return false;
  }
  Busiest busiest(static_cast<std::size_t>(server_.config.settings().penapi_destination_limit));
  const auto found =
      co_await server_.ask(ipc::destinations::Find{.request = 1, .name = {}}, [&](ipc::destinations::FromQmgr& m) {
        auto* e = std::get_if<ipc::destinations::Entry>(&m);
        if (e == nullptr) return true;
        const auto cls = static_cast<std::size_t>(e->classification);
        if (cls < view.by_class.size()) ++view.by_class[cls];
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
