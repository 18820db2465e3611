#include "qmgr/admission.h"

#include <fmt/format.h>

#include <functional>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/base/metrics/metrics.h"
#include "lib/base/text.h"
#include "lib/mail/logged.h"

namespace pen::qmgr {

using queue_log::QueueLogError;

namespace {
/// For the scheduler's fairness: a sender, as one client names him, so that nobody can forge his way into another's
/// turns. 0, nobody in particular, for notifications. Two that get the same number only share their turns.
SourceNumber source_of(const mail::Envelope& e) {
  if (e.purpose == mail::Purpose::verification) return kVerification;
  if (e.sender.empty()) return 0;
  const std::hash<std::string_view> hash;
  return (hash(e.sender) ^ (hash(e.client.address) * 3)) | 1U;
}

/// By which receivers tell senders apart.
std::string sender_domain(const mail::Envelope& e) {
  const auto at = e.sender.rfind('@');
  return at == std::string::npos || e.purpose == mail::Purpose::verification ? std::string()
                                                                             : to_lower(e.sender.substr(at + 1));
}
}  // namespace

Admission::Begun Admission::begun(const std::string& queue_id, Result<void> started) const {
  if (started) return Begun::yes;
  const Error& e = started.error();
  if (e.is(QueueLogError::superseded)) {
    // Its spool file, if it has one of its own, is found to be nobody's by the next start: until its mark is on the
    // disk a crash may bring this version back.
    log::info("{}: another version of this message is in the queue, and counts; this one is dropped", queue_id);
    return Begun::superseded;
  }
  if (e.is(QueueLogError::not_found)) return Begun::moving;
  if (e.is(QueueLogError::no_space)) return Begun::no_space;
  around_.ports.fatal(e);
}

std::unique_ptr<Active> Admission::read(queue_log::Stored&& stored) const {
  const queue_log::Envelope as_it_is = stored.envelope;
  return readable(from_log(std::move(stored)), as_it_is);
}

std::unique_ptr<Active> Admission::readable(std::unique_ptr<Active> m, const queue_log::Envelope& as_it_is) const {
  if (!m) {
    // Kept for a person to look at: neither lost nor tried for ever.
    log::error("{}: the stored message cannot be read; placed on hold", as_it_is.queue_id);
    around_.must(around_.log.work().hold(as_it_is.queue_id, as_it_is));
  } else if (const auto layout = layout_of(m->envelope()); layout > PayloadLayout{}.layout) {
    if (around_.options.note_layout) around_.options.note_layout(layout);  // a queue that was restored has no mark
  }
  return m;
}

Active::WaitsFor Admission::keeps_out(const Active& m) const {
  using enum Active::WaitsFor;
  const mail::Envelope& e = m.envelope();
  // A probe is asked for by a client that waits for the answer.
  if (mail::is_probe(e.purpose)) return nothing;
  if (e.release > around_.now()) return release;
  if (m.forced_expire || m.owes()) return nothing;
  if (active_.tenants().full(e.tenant)) return tenant;
  if (urgency_of(e.priority) != Urgency::urgent && active_.urgencies().full(ActiveSet::urgency_name(e))) return urgency;
  return nothing;
}

Active& Admission::admit(std::unique_ptr<Active> owned) {
  owned->active = around_.now();
  const bool hold = owned->envelope().hold;
  if (hold) {  // the copy in the hold log is there to be released
    mail::Envelope envelope = owned->take_envelope();
    envelope.hold = false;
    owned->set_envelope(std::move(envelope));
  }
  Active& m = active_.add(std::move(owned));
  const auto left = m.remaining.count();
  const std::string& tenant = m.envelope().tenant;
  const std::int8_t priority = m.envelope().priority;
  if (!hold) m.waits_for = keeps_out(m);
  if (m.waits_for != Active::WaitsFor::nothing) {
    if (m.waits_for == Active::WaitsFor::release && m.generation == 0)
      log::info("{}: from=<{}>, size={}, nrcpt={} (queue deferred), release={}", m.id(),
                mail::logged(m.envelope().sender), m.envelope().body.size, left, rfc5322_date(m.envelope().release));
    m.parked = true;
    rounds_.look_at(m.number);
    around_.scheduler.admit(m.number, {}, 0, tenant);
    return m;
  }
  if (!hold) active_.count(m);
  log::info("{}: from=<{}>, size={}, nrcpt={} (queue active){}{}{}", m.id(), mail::logged(m.envelope().sender),
            m.envelope().body.size, left, tenant.empty() ? "" : ", tenant=", tenant,
            priority == 0 ? std::string() : fmt::format(", priority={}", priority));
  metrics::queue_activated_bytes.observe(m.envelope().body.size);
  metrics::queue_activated_recipients.observe(left);
  around_.tell(m.id(), ipc::queue::Step::active);
  Ordinals wanted;
  if (hold) {  // nobody is looked for, and nothing waits for an answer
    m.order = Active::Order::hold;
  } else {
    wanted.reserve(left);
    for (const auto& range : m.remaining.ranges()) {
      for (std::uint32_t i = range.first; i < range.end; ++i) wanted.push_back(i);
    }
  }
  m.outstanding = wanted.size();
  if (wanted.empty()) rounds_.look_at(m.number);
  around_.scheduler.admit(m.number, wanted, source_of(m.envelope()), tenant, sender_domain(m.envelope()),
                          urgency_of(priority), m.envelope().signer);
  for (const auto& [ordinal, count] : m.seldom().deaths)
    if (count >= kDeathsAlone) {
      around_.scheduler.isolate_message(m.number);
      break;
    }
  return m;
}

/// A message whose tenant has room waits for that of its class, or the other way round: it stays where it is in the
/// log, and is remembered by the share that it waits for now.
bool Admission::passed_on(const Active& m) {
  const mail::Envelope& e = m.envelope();
  switch (keeps_out(m)) {
    case Active::WaitsFor::tenant:
      active_.tenants().parked(e.tenant, m.place);
      return true;
    case Active::WaitsFor::urgency:
      active_.urgencies().parked(ActiveSet::urgency_name(e), m.place);
      return true;
    default:
      return false;
  }
}

bool Admission::wait_for_commit(TenantShares& shares, TenantShares::Waiting next) {
  shares.put_back(std::move(next));
  waiting_until_ = around_.clock.now() + seconds(1);
  return false;
}

bool Admission::admit_waiting() {
  if (!any_waiting()) return false;
  // By class first: a tenant's own mail that is urgent waits behind nothing.
  TenantShares& shares = active_.urgencies().any_ready() ? active_.urgencies() : active_.tenants();
  auto next = shares.take();
  if (!next) return any_ready();
  auto stored = around_.log.runners().read(next->place);
  if (!stored) {
    if (stored.error().is(QueueLogError::io_error)) around_.ports.fatal(stored.error());
    if (stored.error().is(QueueLogError::not_found) && !around_.log.runners().durable(next->place))
      return wait_for_commit(shares, *std::move(next));  // not written yet
    return true;  // it came by its log's time, or was removed, or is damaged, as its runner will find
  }
  auto m = from_log(queue_log::Stored(*stored));  // a copy: the log needs the version whole
  if (m && passed_on(*m)) return true;
  const auto begins = begun(stored->envelope.queue_id, around_.log.work().start(*stored));
  if (begins == Begun::moving || begins == Begun::no_space) return wait_for_commit(shares, *std::move(next));
  if (begins == Begun::superseded) return true;
  m = readable(std::move(m), stored->envelope);
  if (m) admit(std::move(m));
  return true;
}

void Admission::park_excess() {
  if (around_.log.restart().stage() != queue_log::Recovery::done || !around_.scheduler.crowded()) return;
  for (std::size_t i = 0; i < around_.options.runner_slice; ++i) {
    const auto number = around_.scheduler.excess();
    if (!number) return;
    Active& m = active_.at(*number);
    const Ordinals back = around_.scheduler.withdraw(*number);
    PEN_CHECK(!back.empty());
    m.parked = true;
    ++parked_;
    rounds_.untried(m, back);
    if (around_.clock.now() - parked_told_ >= seconds(60)) {
      parked_told_ = around_.clock.now();
      log::info(
          "the active set is full: messages for slow destinations with more than "
          "active_share_limit of it make room for others ({} so far)",
          parked_);
    }
  }
}

}  // namespace pen::qmgr
