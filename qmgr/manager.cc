/// New mail from memory, the runners' messages, how they enter and leave the active set; and the turn.
#include <algorithm>
#include <functional>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

using queue_log::kJournal;
using queue_log::QueueLogError;

namespace {
constexpr std::size_t kKeptBuffer = 256 * 1024;  // more is given back after a large message

/// For the scheduler's fairness: a sender, as one client names him, so that nobody can forge his way into another's turns.
/// 0, nobody in particular, for notifications. Two that get the same number only share their turns.
SourceNumber source_of(const mail::Envelope& e) {
  if (e.sender.empty()) return 0;
  const std::hash<std::string_view> hash;
  return (hash(e.sender) ^ (hash(e.client.address) * 3)) | 1U;
}
}  // namespace

Manager::Manager(ManagerOptions options, queue_log::QueueLog& log, Scheduler& scheduler,
                 Ports& ports, const Clock& clock)
    : around_{std::move(options), log, scheduler, ports, clock},
      options_(around_.options),
      log_(log),
      scheduler_(scheduler),
      ports_(ports),
      clock_(clock),
      runners_(log.log_count()) {
  accepting_ = log_.has_space();
  runners_[queue_log::kHold].look = false;       // nothing runs there
  const Turn turn(turns_, Turn::Then::nothing);  // the scheduler has a time from the start
}
Manager::~Manager() = default;

bool Manager::accepting() const { return accepting_; }

bool Manager::may_admit() const { return active_.has_room() && log_.may_begin(); }

void Manager::enqueue(mail::Envelope&& envelope, std::uint64_t permit, std::string_view inline_body,
                      std::uint64_t spool_file, std::uint64_t spool_offset, Answer answer) {
  const Turn turn(turns_);
  using ipc::enqueue::Outcome;
  const auto unused = [&] {
    if (spool_file != 0) ports_.release_body(spool_file, envelope.queue_id);
  };
  if (envelope.queue_id.empty() || envelope.recipients.empty() ||
      envelope.recipients.size() > options_.message_recipients) {
    unused();
    answer(Outcome::refused, "no queue id, no recipients, or too many");
    return;
  }
  if (spool_file == 0 && envelope.body.size != inline_body.size()) {
    answer(Outcome::refused, "the body is not as long as the envelope says");
    return;
  }
  // Whoever may name any report could make any failure go unreported.
  if (!std::all_of(envelope.discharges.begin(), envelope.discharges.end(),
                   [&](const mail::Discharge& d) { return reports_.may_discharge(d, permit); })) {
    unused();
    answer(Outcome::refused, "discharges a report that its sender was not asked for");
    return;
  }
  Beginning beginning = beginning_of(envelope, now());
  if (beginning.remaining.empty()) {
    unused();
    answer(Outcome::refused, "nobody to deliver to");
    return;
  }
  to_log(envelope, beginning, inline_body, spool_file, spool_offset, appended_);
  // What becomes of the recipients will have to fit beside it.
  if (appended_.payload.size() + envelope.recipients.size() * kLeastNote >
      queue_log::QueueLog::kMaxMessage) {
    appended_.payload = {};
    unused();
    answer(Outcome::refused, "the envelope is too large");
    return;
  }
  auto appended = log_.append(appended_);
  if (appended_.payload.capacity() > kKeptBuffer) appended_.payload = {};
  if (!appended) {
    const Error& e = appended.error();
    unused();
    if (e.is(QueueLogError::no_space)) {
      answer(Outcome::no_space, e.message());
    } else if (e.is(QueueLogError::too_large)) {
      answer(Outcome::refused, e.message());
    } else {
      ports_.fatal(e);
    }
    return;
  }
  std::unique_ptr<Active> fresh;
  std::vector<mail::Discharge> discharges = envelope.discharges;
  if (appended->duplicate) {
    unused();  // the first one's body stands
  } else {
    ++figures_.accepted;
    if (may_admit() && log_.recovery() == queue_log::Recovery::done) {
      fresh = std::make_unique<Active>();
      fresh->place = appended->place;
      fresh->replacement_bytes = appended->bytes;
      fresh->remaining = std::move(beginning.remaining);
      for (auto& n : beginning.notes) fresh->notes[n.ordinal] = std::move(n);
      fresh->set_envelope(std::move(envelope));
      fresh->body = inline_body;
      fresh->spool_file = spool_file;
      fresh->spool_offset = spool_offset;
      active_.promise_place();
    }
  }
  acknowledgements_.when_durable(
      appended->ticket, [this, fresh = std::move(fresh), duplicate = appended->duplicate,
                         answer = std::move(answer), discharges = std::move(discharges)] mutable {
        for (const auto& d : discharges) reports_.discharge(d);
        answer(Outcome::ok, {});
        if (fresh) {
          durable_new_.push_back(std::move(fresh));
        } else if (!duplicate) {
          runners_[kJournal].look = true;
        }
      });
}

void Manager::admit_new() {
  while (!durable_new_.empty()) {
    auto m = std::move(durable_new_.front());
    durable_new_.pop_front();
    active_.give_back_place();
    if (!begun(m->id(), kJournal, log_.start(m->id(), m->place, m->replacement_bytes))) continue;
    admit(std::move(m));
    active_.pack();
  }
}

MessageNumber Manager::admit(std::unique_ptr<Active> owned) {
  owned->active = now();
  const bool hold = owned->envelope().hold;
  if (hold) {  // the copy in the hold log is there to be released
    mail::Envelope envelope = owned->take_envelope();
    envelope.hold = false;
    owned->set_envelope(std::move(envelope));
  }
  Active& m = active_.add(std::move(owned));
  const auto left = m.remaining.count();
  log::info("{}: from=<{}>, size={}, nrcpt={} (queue active)", m.id(), m.envelope().sender,
            m.envelope().body.size, left);
  m.outstanding = left;
  if (left == 0) rounds_.look_at(m.number);
  Ordinals wanted;
  wanted.reserve(left);
  for (const auto& range : m.remaining.ranges()) {
    for (std::uint32_t i = range.first; i < range.end; ++i) wanted.push_back(i);
  }
  scheduler_.admit(m.number, wanted, source_of(m.envelope()));
  for (const auto& [ordinal, count] : m.seldom().deaths)
    if (count >= kDeathsAlone) {
      scheduler_.isolate_message(m.number);
      break;
    }
  if (hold) rounds_.end_by_order(m, Active::Order::hold);
  return m.number;
}

bool Manager::begun(const std::string& id, queue_log::LogId log, Result<void> started) {
  if (started) return true;
  const Error& e = started.error();
  Runner& r = runners_[log];
  r.look = false;
  if (e.is(QueueLogError::superseded)) {
    // Its spool file, if it has one of its own, is found to be nobody's by the next start: until its mark is on the disk a
    // crash may bring this version back.
    log::info(
        "{}: another version of this message is in the queue, and counts; this one is dropped",
        id);
    r.look = true;
  } else if (e.is(QueueLogError::not_found)) {
    r.after_commit = true;  // on its way to another log
  } else if (e.is(QueueLogError::no_space)) {
    r.next = now() + seconds(1);
  } else {
    ports_.fatal(e);
  }
  return false;
}

std::unique_ptr<Active> Manager::read_begun(queue_log::Stored&& stored) {
  const std::string id = stored.envelope.queue_id;
  const queue_log::Envelope as_it_is = stored.envelope;
  auto m = from_log(std::move(stored));
  if (!m) {
    // Kept for a person to look at: neither lost nor tried for ever.
    log::error("{}: the stored message cannot be read; placed on hold", id);
    must(log_.hold(id, as_it_is));
  }
  return m;
}

bool Manager::take_stored(queue_log::LogId log, queue_log::Stored&& stored) {
  const std::string& id = stored.envelope.queue_id;
  if (!begun(id, log, log_.start(stored))) return runners_[log].look;
  const bool flushed = stored.appended <= flushed_at_ && stored.place.log != kJournal;
  auto m = read_begun(std::move(stored));
  if (!m) return true;
  // A notice from before a restart may be gone when its message asks what is still owed.
  reports_.seen(m->envelope());
  const MessageNumber number = admit(std::move(m));
  if (flushed) scheduler_.override_deferral(number);
  return true;
}

bool Manager::run_log(queue_log::LogId id) {
  Runner& r = runners_[id];
  auto due = log_.next_due(id, now());
  if (!due) {
    if (due.error().is(QueueLogError::recovering)) return false;
    ports_.fatal(due.error());
  }
  r.look = due->more || due->message.has_value();
  r.next = due->next;
  if (!due->message) return due->more;
  return take_stored(id, *std::move(due->message));
}

void Manager::run_runners() {
  // New and deferred mail are admitted alternately; the retry logs take turns among themselves.
  if (log_.recovery() != queue_log::Recovery::done) return;
  const WallTime t = now();
  const auto wanted = [&](const Runner& r) { return r.look || (r.next && *r.next <= t); };
  for (std::size_t i = 0; i < options_.runner_slice && may_admit(); ++i) {
    if ((order_turn_ = !order_turn_) && run_order()) continue;
    bool ran = false;
    for (int side = 0; side < 2 && !ran; ++side) {
      journal_turn_ = !journal_turn_;
      if (journal_turn_) {
        if (wanted(runners_[kJournal])) ran = run_log(kJournal);
        continue;
      }
      const std::size_t logs = runners_.size() - queue_log::kFirstRetry;
      for (std::size_t k = 0; k < logs && !ran; ++k) {
        retry_turn_ = (retry_turn_ + 1) % logs;
        const auto id = static_cast<queue_log::LogId>(queue_log::kFirstRetry + retry_turn_);
        if (!wanted(runners_[id])) continue;
        ran = run_log(id);
        Runner& r = runners_[id];
        if (!ran && r.next && *r.next <= t) {
          // Due now and not shown: it waits for the sync that was just asked for.
          r.next.reset();
          r.after_commit = true;
        }
      }
    }
    active_.pack();
    if (!ran && orders_waiting_.empty()) return;
  }
}

bool Manager::others_wait() const {
  if (!orders_waiting_.empty()) return true;
  const WallTime t = now();
  return std::any_of(runners_.begin(), runners_.end(),
                     [t](const Runner& r) { return r.look || (r.next && *r.next <= t); });
}

void Manager::park_excess() {
  if (active_.has_room() || log_.recovery() != queue_log::Recovery::done || !scheduler_.crowded() ||
      !others_wait())
    return;
  for (std::size_t i = 0; i < options_.runner_slice; ++i) {
    const auto number = scheduler_.excess();
    if (!number) return;
    Active& m = active_.at(*number);
    const Ordinals back = scheduler_.withdraw(*number);
    PEN_CHECK(!back.empty());
    m.parked = true;
    ++figures_.parked;
    rounds_.untried(m, back);
    if (clock_.now() - parked_told_ >= seconds(60)) {
      parked_told_ = clock_.now();
      log::info(
          "the active set is full: messages for slow destinations with more than "
          "active_share_limit of it make room for others ({} so far)",
          figures_.parked);
    }
  }
}

/// The oldest order that waits for room.
bool Manager::run_order() {
  if (orders_waiting_.empty()) return false;
  OrderWaits next = std::move(orders_waiting_.front());
  orders_waiting_.pop_front();
  order(next.where, next.verb, std::move(next.done));
  return true;
}

void Manager::flush_all() {
  const Turn turn(turns_);
  forgive();
  flushed_at_ = now();
  log_.make_due();
  for (Runner& r : runners_) r.look = true;
  runners_[queue_log::kHold].look = false;
}

void Manager::look_again() {
  const Turn turn(turns_);
  for (std::size_t id = queue_log::kFirstRetry; id < runners_.size(); ++id)
    runners_[id].look = true;
}

void Manager::when_recovered(std::function<void()> fn) { when_recovered_.push_back(std::move(fn)); }

void Manager::committed() {
  const Turn turn(turns_);
  while (acknowledgements_.call_next()) active_.pack();
  for (const auto& then : std::exchange(after_commit_, {})) then();
  for (Runner& r : runners_) {
    r.look = r.look || r.after_commit;
    r.after_commit = false;
  }
  while (auto id = log_.stale()) {
    if (Active* m = active_.find(*id)) active_.renew(*m);
    break;  // one per commit: renewing moves the head as well
  }
}

void Manager::do_actions() {
  for (;;) {
    scheduler_.take_actions(actions_);
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

void Manager::act(const OpenConnection& a) {
  if (a.session_class) {
    session_asked_.emplace(a.connection, a);
    ports_.ask_session(a.connection, *a.session_class, a.destination);
    return;
  }
  ports_.open_connection(a.destination.transport,
                         {.connection = a.connection,
                          .destination = a.destination,
                          .nexthop = a.nexthop,
                          .step_by_step = a.step_by_step,
                          .clear_text = a.clear_text},
                         a.key, a.limit);
}

void Manager::act(const CloseConnection& a) {
  if (session_asked_.erase(a.connection) > 0) {
    ports_.release_session(a.connection);
  } else {
    ports_.close_connection(a.transport, a.connection);
  }
}

void Manager::session_answer(ConnectionNumber connection, bool granted) {
  const auto at = session_asked_.find(connection);
  if (at == session_asked_.end()) return;
  const Turn turn(turns_);
  OpenConnection open = std::move(at->second);
  session_asked_.erase(at);
  if (granted) {
    scheduler_.session_granted(connection);
    open.session_class.reset();
    act(open);
  } else {
    scheduler_.session_refused(connection);
  }
}

void Manager::settle() {
  const Turn turn(turns_, Turn::Then::nothing);
  routes_.new_turn();
  if (scheduler_.next_wake() <= clock_.now()) scheduler_.tick();
  if (!when_recovered_.empty() && log_.recovery() == queue_log::Recovery::done)
    for (const auto& fn : std::exchange(when_recovered_, {})) fn();
  for (;;) {
    while (acknowledgements_.due()) committed();
    admit_new();
    do_actions();
    while (Active* m = rounds_.next_over()) {
      conclude(*m);
      active_.pack();
    }
    reports_.ask_again();
    park_excess();
    if (rounds_.any_to_look_at()) continue;
    run_runners();
    reports_.look_back();
    do_actions();
    if (!rounds_.any_to_look_at()) break;
  }
  if (const bool space = log_.has_space(); space != accepting_) {
    accepting_ = space;
    ports_.queue_state(space);
  }
}

SteadyTime Manager::wake_at() const {
  SteadyTime at = std::min(scheduler_.next_wake(), reports_.wake_at());
  if (acknowledgements_.due()) return clock_.now();
  if (!durable_new_.empty()) return clock_.now();
  if ((active_.has_room() ? !log_.may_begin() : scheduler_.crowded()) && others_wait())
    at = std::min(at, clock_.now() + seconds(1));
  if (log_.recovery() == queue_log::Recovery::done && may_admit()) {
    if (!orders_waiting_.empty()) return clock_.now();
    const WallTime t = clock_.wall_now();
    for (const Runner& r : runners_) {
      if (r.look) return clock_.now();
      // At most a minute at once: the wall clock may be set meanwhile.
      if (r.next)
        at = std::min(
            at, clock_.now() + std::clamp<microseconds>(*r.next - t, microseconds(0), seconds(60)));
    }
  }
  return at;
}

Manager::Figures Manager::figures() const {
  Figures f = figures_;
  f.bounced = reports_.made();
  f.active = active_.size();
  f.active_bytes = active_.bytes();
  f.kept_body_bytes = active_.body_bytes();
  return f;
}

}  // namespace pen::qmgr
