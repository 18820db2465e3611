#include "qmgr/rounds.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/mail/attempt.h"
#include "lib/mail/delivery_line.h"
#include "lib/mail/logged.h"
#include "lib/suite/events/attempt.h"
#include "qmgr/notice_rules.h"

namespace pen::qmgr {

void Rounds::returned(Active& m, std::size_t recipients) {
  PEN_CHECK(m.outstanding >= recipients, "more outcomes than recipients");
  m.outstanding -= recipients;
}

void Rounds::tell(const Active& m, const Ordinals& ordinals, ipc::queue::Happened what) const {
  if (!around_.watched()) return;
  what.count = ordinals.size();
  const std::size_t named = std::min(ordinals.size(), ipc::queue::kMaxHappenedTo);
  for (std::size_t i = 0; i < named; ++i) what.recipients.push_back(m.envelope().recipients[ordinals[i]].address);
  around_.ports.watches()->tell(m.id(), std::move(what));
}

void Rounds::untried(Active& m, const Ordinals& ordinals) {
  returned(m, ordinals.size());
  look_at(m.number);
}

void Rounds::deferred(Active& m, const Ordinals& ordinals, const mail::DeliveryStatus& status) {
  // A probe has one try, but what was taken back by an order was none.
  if (mail::is_probe(m.envelope().purpose) && m.order == Active::Order::none) {
    done(m, ordinals, status);
    return;
  }
  tell(m, ordinals, {.step = ipc::queue::Step::deferred, .text = status.text});
  for (const std::uint32_t ordinal : ordinals) {
    Note& n = m.notes[ordinal];
    n.ordinal = ordinal;
    n.status = status;
    n.status.action = mail::Action::deferred;
    shorten(n.status);
    n.when = around_.now();
  }
  returned(m, ordinals.size());
  look_at(m.number);
}

void Rounds::count_final(const Active& m, std::size_t recipients, metrics::Fate fate) const {
  if (mail::is_probe(m.envelope().purpose)) return;
  metrics::deliveries.add(fate, recipients);
  for (std::size_t i = 0; i < recipients; ++i)
    metrics::delivery_age.observe(fate, around_.now() - m.envelope().arrival);
}

void Rounds::done(Active& m, const Ordinals& ordinals, const mail::DeliveryStatus& status) {
  count_final(m, ordinals.size(), expiring_ ? metrics::Fate::expired : mail::fate_of(status.action));
  const bool bad = status.action == mail::Action::failed;
  tell(m, ordinals, {.step = bad ? ipc::queue::Step::failed : ipc::queue::Step::delivered, .text = status.text});
  ResultPayload payload;
  queue_log::OrdinalSet set;
  if (status.action == mail::Action::failed && m.envelope().sender.empty() && !around_.options.double_bounces &&
      !mail::is_probe(m.envelope().purpose))
    log::info("{}: undeliverable notification discarded", m.id());
  for (const std::uint32_t ordinal : ordinals) {
    set.add(ordinal);
    const std::uint8_t owes = owed_for(around_.options, m, ordinal, status);
    if (owes == 0) {
      m.notes.erase(ordinal);
      continue;
    }
    Note n{ordinal, status, around_.now(), owes};
    shorten(n.status);
    payload.notes.push_back(n);
    m.notes[ordinal] = std::move(n);
  }
  const auto ticket =
      around_.must(around_.log.work().delivered(m.id(), set, payload.notes.empty() ? std::string() : encode(payload)));
  m.remaining.remove(set);
  returned(m, ordinals.size());
  ++m.syncing;
  acknowledgements_.when_durable(
      ticket, [this, number = m.number, said = log::debug_enabled() ? set : queue_log::OrdinalSet()] {
        Active* later = active_.find(number);
        PEN_CHECK(later != nullptr && later->syncing > 0);
        --later->syncing;
        for (const auto& range : said.ranges()) {
          for (std::uint32_t i = range.first; i < range.end; ++i)
            log::debug("{}: to=<{}>, result synced", later->id(), later->envelope().recipients[i].address);
        }
        look_at(number);
      });
}

void Rounds::soften(const Active& m, mail::DeliveryStatus& status, bool soft) const {
  if (!soft || status.action != mail::Action::failed || mail::is_probe(m.envelope().purpose)) return;
  status.action = mail::Action::deferred;
  if (!status.dsn.empty()) status.dsn[0] = '4';
}

void Rounds::log_undelivered(const Active& m, const Ordinals& ordinals, const mail::DeliveryStatus& status,
                             std::string_view relay) const {
  const mail::Delays delays = mail::delays_between(m.envelope().arrival, m.active, around_.now(), around_.now());
  for (const std::uint32_t ordinal : ordinals) {
    mail::count_attempt(metrics::Agent::other, delays, status.action, m.envelope().purpose);
    const auto wording = mail::wording_of(m.envelope().purpose, around_.options.soft_bounce);
    const auto& recipient = m.envelope().recipients[ordinal];
    if (relay.empty()) relay = "none";
    log::info("{}", mail::delivery_line(m.id(), recipient, relay, 1, delays, status, wording));
    events::tell_attempt({.queue_id = m.id(),
                          .message = m.envelope(),
                          .recipient = recipient,
                          .relay = relay,
                          .delays = delays,
                          .status = status,
                          .wording = wording,
                          .number = m.attempt()});
  }
}

void Rounds::end_by_order(Active& m, Active::Order order, std::function<void(bool)> then) {
  if (m.order != Active::Order::remove) m.order = order;
  if (then) m.rare().ordered_by.push_back(std::move(then));
  untried(m, around_.scheduler.withdraw(m.number));
}

namespace {
void tell_expired(const Active& m, std::string_view how) {
  if (!events::wanted() || mail::is_probe(m.envelope().purpose)) return;
  events::tell(events::Event(events::Type::expired, events::now())
                   .text(events::Field::queue_id, m.id())
                   .text(events::Field::from, m.envelope().sender)
                   .number(events::Field::nrcpt, m.remaining.count())
                   .number(events::Field::size, m.envelope().body.size)
                   .time(events::Field::arrival, m.envelope().arrival)
                   .text(events::Field::status, how));
}
}  // namespace

bool Rounds::expire(Active& m) {
  if (m.remaining.empty()) return false;
  const auto lifetime = m.envelope().sender.empty() ? around_.options.bounce_lifetime : around_.options.lifetime;
  if (!m.forced_expire && around_.now() - m.envelope().due_from() < lifetime) return false;
  const std::string_view how = m.forced_expire ? "force-expired" : "expired";
  if (!m.expiring) {
    m.expiring = true;
    log::info("{}: from=<{}>, status={}, returned to sender", m.id(), mail::logged(m.envelope().sender), how);
    tell_expired(m, how);
    around_.tell(m.id(), ipc::queue::Step::expired);
    metrics::queue_messages_expired.add();
  }
  // One record per reason, mostly one. The message comes back for the recipients that are left.
  std::vector<std::pair<mail::DeliveryStatus, Ordinals>> by_status;
  std::size_t taken = 0;
  const mail::Delays delays = mail::delays_between(m.envelope().arrival, m.active, around_.now(), around_.now());
  for (const auto& range : m.remaining.ranges()) {
    for (std::uint32_t i = range.first; i < range.end && taken < kExpiredTogether; ++i, ++taken) {
      mail::DeliveryStatus status{
          mail::Action::failed, std::string(events::kExpiredCode), std::string(events::kExpiredReason), {}, {}};
      // A note without a time is of one that was never tried, from a notice of the delay.
      if (auto it = m.notes.find(i); it != m.notes.end() && it->second.when != WallTime{}) {
        status = it->second.status;
        status.action = mail::Action::failed;
      }
      events::tell_attempt({.queue_id = m.id(),
                            .message = m.envelope(),
                            .recipient = m.envelope().recipients[i],
                            .relay = "none",
                            .delays = delays,
                            .status = status,
                            .wording = mail::wording_of(m.envelope().purpose, false),
                            .number = m.attempt(),
                            .ended = how});
      if (by_status.empty() || !(by_status.back().first == status)) by_status.push_back({status, {}});
      by_status.back().second.push_back(i);
    }
  }
  expiring_ = true;
  for (const auto& [status, ordinals] : by_status) {
    m.outstanding += ordinals.size();
    done(m, ordinals, status);
  }
  expiring_ = false;
  return true;
}

void Rounds::lose(Active& m) {
  log::error(
      "{}: lost to damage of the queue log, as the lines before say; what the disk still holds of "
      "it is kept as damaged-segment-NNNNNNNN in queue_log_directory",
      m.id());
  around_.must(around_.log.work().finish(m.id()));
  for (const auto& waits : m.rare().ordered_by) waits(false);
  active_.remove(m);
}

Active* Rounds::next_over() {
  while (!may_be_over_.empty()) {
    Active* m = active_.find(may_be_over_.front());
    may_be_over_.pop_front();
    if (m != nullptr && m->outstanding == 0 && m->syncing == 0 && !m->reporting) return m;
  }
  return nullptr;
}

}  // namespace pen::qmgr
