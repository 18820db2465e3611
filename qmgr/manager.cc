#include "qmgr/manager.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/metrics/metrics.h"
#include "lib/suite/events/emitter.h"
#include "qmgr/retry_delay.h"

namespace pen::qmgr {

namespace {
constexpr std::chrono::hours kTimeToTry{12};  // all mail of a long backlog once
}  // namespace

Manager::Manager(ManagerOptions options, queue_log::QueueLog& log, Scheduler& scheduler, Ports& ports,
                 const Clock& clock)
    : around_{std::move(options), log, scheduler, ports, clock},
      started_(clock.now()),
      accepting_(!around_.log.disk_full()) {
  const Turn turn(turns_, Turn::Then::nothing);  // the scheduler has a time from the start
  const std::uint32_t most = around_.options.verification_limit;
  around_.scheduler.pseudo_message(kVerification, {.routing = most, .workers = most});
}

void Manager::do_actions() {
  for (;;) {
    around_.scheduler.take_actions(actions_);
    if (actions_.empty()) {
      if (actions_.capacity() > kKeptActions) actions_ = {};
      return;
    }
    for (auto& a : actions_) {
      std::visit([this](auto& x) { act(x); }, a);
      active_.pack();
    }
  }
}

void Manager::conclude(Active& m) {
  if (m.order != Active::Order::none) return orders_.carry_out(m);
  // One that is to be returned is so without having been sent.
  if (m.waits_for == Active::WaitsFor::release && !m.forced_expire) return defer(m);
  // After a long stop all is old: what waits for a share is tried first, if this process had no time for it yet.
  const bool spared = m.waits_for_share() && !m.forced_expire && around_.clock.now() - started_ < kTimeToTry;
  if (!spared && rounds_.expire(m)) return;  // comes back when the records are durable
  // A notice that mail waits for its share has time: the message asks for it when it comes again.
  const bool later = m.waits_for_share() && !m.remaining.empty() && reports_.busy();
  if (!m.report_refused && !later && reports_.start(m)) return;
  if (m.report_refused && m.remaining.empty()) reports_.give_up(m);
  if (m.remaining.empty() && !m.owes())
    finish(m);
  else
    defer(m);
}

void Manager::finish(Active& m) {
  around_.must(around_.log.work().finish(m.id()));
  log::info("{}: removed", m.id());
  if (events::wanted())
    events::tell(events::Event(events::Type::removed, events::now()).text(events::Field::queue_id, m.id()));
  around_.tell(m.id(), ipc::queue::Step::removed);
  ++finished_;
  metrics::queue_messages_removed.add();
  if (m.spool_file != 0) around_.ports.release_body(m.spool_file, m.id());
  active_.remove(m);
}

void Manager::defer(Active& m) {
  const WallTime now = around_.now();
  using enum Active::WaitsFor;
  const bool by_tenant = m.waits_for == tenant, by_urgency = m.waits_for == urgency, later = m.waits_for == release;
  TenantShares& shares = by_urgency ? active_.urgencies() : active_.tenants();
  const std::string sharer = by_tenant    ? m.envelope().tenant
                             : by_urgency ? ActiveSet::urgency_name(m.envelope())
                                          : std::string();
  const WallTime released = m.envelope().release;
  const seconds delay = by_tenant || by_urgency ? shares.park_for(sharer, around_.clock.now())
                        : later                 ? std::chrono::floor<seconds>(released - now)
                        : m.parked              ? seconds(0)
                                                : retry_delay(around_.options, m, now);
  // Below the shortest time between two tries there are logs for the last seconds before a release alone.
  const auto log = later ? around_.log.runners().retry_log_within(delay)
                         : around_.log.runners().retry_log_for(std::max(delay, around_.options.backoff_min));
  const auto body = active_.body_of(m);
  if (!body) return rounds_.lose(m);
  const queue_log::Place place = around_.must(around_.log.work().defer(m.id(), log, to_log(m, *body)));
  if (by_tenant || by_urgency) shares.parked(sharer, place);
  const WallTime next_try = now + around_.log.runners().interval(log);
  runners_.due_at(log, next_try);
  if (around_.watched())
    around_.ports.watches()->tell(
        m.id(), {.step = ipc::queue::Step::waits, .next_try = later ? std::max(released, next_try) : next_try});
  if (!m.parked) ++deferred_;
  active_.remove(m);
}

void Manager::bring_messages() {
  if (around_.log.restart().stage() != queue_log::Recovery::done) return;
  for (std::size_t i = 0; i < around_.options.runner_slice && admission_.may_admit(); ++i) {
    if ((order_turn_ = !order_turn_) && orders_.run_waiting()) continue;
    if ((share_turn_ = !share_turn_) && admission_.admit_waiting()) {
      active_.pack();
      continue;
    }
    const bool ran = runners_.run_one();
    active_.pack();
    if (!ran && !orders_.any_waiting() && !admission_.any_waiting()) return;
  }
}

bool Manager::others_wait() const { return orders_.any_waiting() || admission_.any_waiting() || runners_.any_due(); }

void Manager::committed() {
  const Turn turn(turns_);
  ++commits_;
  acknowledgements_.commit_came();
  orders_.commit_came();
  runners_.commit_came();
  admission_.commit_came();
  // One per commit: renewing moves the head as well.
  if (const auto id = around_.log.work().stale())
    if (Active* m = active_.find(*id)) active_.renew(*m);
}

void Manager::settle() {
  const Turn turn(turns_, Turn::Then::nothing);
  routes_.new_turn();
  if (around_.scheduler.next_wake() <= around_.clock.now()) around_.scheduler.tick();
  if (!when_recovered_.empty() && around_.log.restart().stage() == queue_log::Recovery::done)
    for (const auto& fn : std::exchange(when_recovered_, {})) fn();
  do {
    do {
      while (acknowledgements_.call_next()) active_.pack();
      new_mail_.admit();
      do_actions();
      while (Active* m = rounds_.next_over()) {
        conclude(*m);
        active_.pack();
      }
      reports_.ask_again();
      if (!active_.has_room() && others_wait()) admission_.park_excess();
    } while (rounds_.any_to_look_at());
    bring_messages();
    reports_.look_back();
    do_actions();
  } while (rounds_.any_to_look_at());
  for (const ShapingNews& n : around_.scheduler.take_shaping_news())
    n.warning ? log::warning("{}", n.text) : log::info("{}", n.text);
  if (const bool space = !around_.log.disk_full(); space != accepting_) {
    accepting_ = space;
    around_.ports.queue_state(space);
  }
}

SteadyTime Manager::wake_at() const {
  const SteadyTime now = around_.clock.now();
  if (acknowledgements_.due() || new_mail_.any_to_admit()) return now;
  SteadyTime at = std::min(around_.scheduler.next_wake(), reports_.wake_at());
  const bool room = active_.has_room();
  if ((room ? !around_.log.work().may_begin() : around_.scheduler.crowded()) && others_wait())
    at = std::min(at, now + seconds(1));
  if (around_.log.restart().stage() == queue_log::Recovery::done && admission_.may_admit()) {
    if (orders_.any_waiting()) return now;
    at = std::min({at, runners_.wake_at(), std::max(now, admission_.waiting_until())});
  }
  return at;
}

void Manager::drain() {
  const Turn turn(turns_);
  jobs_.drain();
  around_.scheduler.drain();
}

void Manager::forgive() {
  const Turn turn(turns_);
  routes_.forget_routes();
  around_.scheduler.forgive();
}

void Manager::flush_all() {
  const Turn turn(turns_);
  forgive();
  runners_.flush_all();
}

std::unique_ptr<queue_log::Scan> Manager::find_stored(std::vector<std::string> queue_ids,
                                                      queue_log::InTransit transit) {
  const Turn turn(turns_);
  return around_.log.find(std::move(queue_ids), transit);
}

void Manager::after_commit(std::function<void()> fn) {
  const Turn turn(turns_);
  acknowledgements_.after_commit(std::move(fn));
  around_.log.commits().flush();
}

Manager::Figures Manager::figures() const {
  return {.accepted = new_mail_.accepted(),
          .finished = finished_ + orders_.removed(),
          .deferred = deferred_,
          .bounced = reports_.made(),
          .parked = admission_.parked(),
          .parked_by_share = active_.tenants().parked_so_far() + active_.urgencies().parked_so_far(),
          .active = active_.size(),
          .active_bytes = active_.bytes(),
          .kept_body_bytes = active_.body_bytes()};
}

}  // namespace pen::qmgr
