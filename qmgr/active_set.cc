#include "qmgr/active_set.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/log.h"

namespace pen::qmgr {

using queue_log::QueueLogError;

ActiveSet::ActiveSet(const Surroundings& around)
    : around_(around),
      tenants_(around.options.tenant_messages, around.options.backoff_max),
      urgencies_(around.options.priorities ? around.options.active_messages : 0, around.options.backoff_max,
                 {{"bulk", std::max<std::size_t>(1, around.options.active_messages * kBulkShare / 100)}},
                 std::max<std::size_t>(1, around.options.active_messages * kNotUrgentShare / 100)) {
  // Tables that grow as mail comes would stop it for milliseconds each time.
  const std::size_t expected = std::min<std::size_t>(around_.options.active_messages, 1U << 20U);
  messages_.reserve(expected);
  by_id_.reserve(expected);
}

Active& ActiveSet::add(std::unique_ptr<Active> owned) {
  Active& m = *owned;
  m.number = next_number_++;
  m.bytes = sizeof(Active) + 256 * m.envelope().recipients.size() + m.envelope().client.helo.size();
  bytes_ += m.bytes;
  if (!m.body.empty()) {
    body_bytes_ += m.body.size();
    bodies_.push_back(m.number);
  }
  by_id_[m.id()] = &m;
  messages_.emplace(m.number, std::move(owned));
  m.keep_in(unpacked_);
  while (body_bytes_ > around_.options.body_bytes && !bodies_.empty()) {
    if (Active* old = find(bodies_.front())) drop_body(*old);
    bodies_.pop_front();
  }
  while (!bodies_.empty() && find(bodies_.front()) == nullptr) bodies_.pop_front();
  return m;
}

std::string ActiveSet::urgency_name(const mail::Envelope& envelope) {
  switch (urgency_of(envelope.priority)) {
    case Urgency::bulk:
      return "bulk";
    case Urgency::normal:
      return "normal";
    case Urgency::urgent:
      return "urgent";
  }
  return {};
}

void ActiveSet::count(Active& m) {
  tenants_.enter(m.envelope().tenant);
  if (urgency_of(m.envelope().priority) != Urgency::urgent) urgencies_.enter(urgency_name(m.envelope()));
  m.counted = true;
}

void ActiveSet::remove(Active& m) {
  if (m.counted) {
    tenants_.leave(m.envelope().tenant, around_.clock.now());
    if (urgency_of(m.envelope().priority) != Urgency::urgent)
      urgencies_.leave(urgency_name(m.envelope()), around_.clock.now());
  }
  around_.scheduler.forget(m.number);
  drop_body(m);
  bytes_ -= m.bytes;
  by_id_.erase(m.id());
  messages_.erase(m.number);
}

void ActiveSet::drop_body(Active& m) {
  body_bytes_ -= m.body.size();
  m.body_kept = m.body_kept && m.body.empty();
  m.body = std::string();
}

Active* ActiveSet::find(MessageNumber number) {
  const auto at = messages_.find(number);
  return at == messages_.end() ? nullptr : at->second.get();
}
Active* ActiveSet::find(std::string_view queue_id) {
  const auto at = by_id_.find(queue_id);
  return at == by_id_.end() ? nullptr : at->second;
}
const Active* ActiveSet::find(std::string_view queue_id) const {
  const auto at = by_id_.find(queue_id);
  return at == by_id_.end() ? nullptr : at->second;
}
Active& ActiveSet::at(MessageNumber number) {
  Active* m = find(number);
  PEN_CHECK(m != nullptr, "a message that is not in the active set");
  return *m;
}

bool ActiveSet::has_room() const {
  return messages_.size() + promised_ < around_.options.active_messages && bytes_ < around_.options.active_bytes;
}

std::optional<std::string> ActiveSet::body_of(const Active& m) const {
  if (m.spool_file != 0) return std::string();
  if (m.body_kept) return m.body;
  auto stored = around_.log.runners().read(m.place);
  if (!stored && !stored.error().is(QueueLogError::damaged) && !stored.error().is(QueueLogError::not_found))
    around_.ports.fatal(stored.error());
  auto again = stored ? from_log(*std::move(stored)) : nullptr;
  if (!again) {
    log::error("{}: the queue log no longer holds the message's content", m.id());
    return std::nullopt;
  }
  return std::move(again->body);
}

void ActiveSet::renew(Active& m) {
  auto body = body_of(m);
  if (!body) return;
  auto renewed = around_.log.work().renew(m.id(), to_log(m, *body));
  if (!renewed) {
    if (!renewed.error().is(QueueLogError::no_space)) around_.ports.fatal(renewed.error());
    return;
  }
  m.place = *renewed;
  ++m.generation;
  if (!m.body_kept) {
    // Not in the file yet: the body stays in memory for the rest of the round.
    m.body = *std::move(body);
    m.body_kept = true;
    body_bytes_ += m.body.size();
  }
}

void ActiveSet::pack() {
  while (unpacked_.count > kUnpacked) find(unpacked_.first().number)->pack();
}

}  // namespace pen::qmgr
