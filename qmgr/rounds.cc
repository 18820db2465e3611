#include "qmgr/rounds.h"

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/mail/delivery_line.h"
#include "lib/metrics/attempt.h"
#include "qmgr/notice_rules.h"

namespace pen::qmgr {

void Rounds::returned(Active& m, std::size_t recipients) {
  PEN_CHECK(m.outstanding >= recipients, "more outcomes than recipients");
  m.outstanding -= recipients;
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
  count_final(m, ordinals.size(), expiring_ ? metrics::Fate::expired : metrics::fate_of(status.action));
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

void Rounds::soften(const Active& m, mail::DeliveryStatus& status) const {
  if (!around_.options.soft_bounce || status.action != mail::Action::failed || mail::is_probe(m.envelope().purpose))
    return;
  status.action = mail::Action::deferred;
  if (!status.dsn.empty()) status.dsn[0] = '4';
}

void Rounds::log_undelivered(const Active& m, const Ordinals& ordinals, const mail::DeliveryStatus& status,
                             std::string_view relay) const {
  const mail::Delays delays = mail::delays_between(m.envelope().arrival, m.active, around_.now(), around_.now());
  for (const std::uint32_t ordinal : ordinals) {
    metrics::count_attempt(metrics::Agent::other, delays, status.action, m.envelope().purpose);
    log::info("{}",
              mail::delivery_line(m.id(), m.envelope().recipients[ordinal], relay.empty() ? "none" : relay, 1, delays,
                                  status, mail::wording_of(m.envelope().purpose, around_.options.soft_bounce)));
  }
}

void Rounds::end_by_order(Active& m, Active::Order order, std::function<void(bool)> then) {
  if (m.order != Active::Order::remove) m.order = order;
  if (then) m.rare().ordered_by.push_back(std::move(then));
  untried(m, around_.scheduler.withdraw(m.number));
}

bool Rounds::expire(Active& m) {
  if (m.remaining.empty()) return false;
  const auto lifetime = m.envelope().sender.empty() ? around_.options.bounce_lifetime : around_.options.lifetime;
  if (!m.forced_expire && around_.now() - m.envelope().arrival < lifetime) return false;
  log::info("{}: from=<{}>, status={}, returned to sender", m.id(), m.envelope().sender,
            m.forced_expire ? "force-expired" : "expired");
  // One record per reason, bounded in size: mostly one.
  constexpr std::size_t kExpiredTogether = 10'000;
  std::vector<std::pair<mail::DeliveryStatus, Ordinals>> by_status;
  for (const auto& range : m.remaining.ranges()) {
    for (std::uint32_t i = range.first; i < range.end; ++i) {
      mail::DeliveryStatus status{
          mail::Action::failed, "4.4.7", "message expired before it could be delivered", {}, {}};
      if (auto it = m.notes.find(i); it != m.notes.end()) {
        status = it->second.status;
        status.action = mail::Action::failed;
      }
      if (by_status.empty() || !(by_status.back().first == status) ||
          by_status.back().second.size() == kExpiredTogether)
        by_status.push_back({status, {}});
      by_status.back().second.push_back(i);
    }
  }
  metrics::queue_messages_expired.add();
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
