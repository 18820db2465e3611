#include "qmgr/scheduler/sources.h"

#include "lib/base/check.h"
#include "qmgr/scheduler/transport.h"

namespace pen::qmgr::scheduler {

namespace {
constexpr std::size_t kManyMessages = 10;     // of one sender in the active set
constexpr std::size_t kSmallRecipients = 10;  // more: a party of its own, as any envelope

/// A sender for several tenants, or with mail of several classes, is a source of each.
std::uint64_t number_for(const Message& m, SourceNumber number) {
  if (m.tenant != nullptr) number ^= std::uint64_t{m.tenant->number} << 1U;
  return number ^ (index_of(m.urgency) ^ index_of(Urgency::normal)) << 60U;
}
}  // namespace

Source* Sources::source(SourceNumber number, Tenant* tenant, Urgency urgency) {
  if (number == 0) return nullptr;
  if (Source* known = numbers_.find(number)) return known;
  const auto made = sources_.make();
  made.object.number = number;
  made.object.slot = made.number;
  made.object.tenant = tenant;
  made.object.urgency = urgency;
  numbers_.insert(number, &made.object);
  return &made.object;
}

std::unique_ptr<Party> Sources::shared_party(Tenant* tenant, Urgency urgency) {
  auto party = std::make_unique<Party>();
  party->shared = true;
  party->tenant = tenant;
  party->turns = turn_of(urgency, options_.urgency_ratio);
  party->seq = party->routing_entry.seq = turn_++;
  return party;
}

void Sources::make_pseudo_message(SourceNumber number, const PseudoMessageLimits& limits, Tenant* tenant) {
  Source& s = *source(number, tenant, Urgency::normal);
  PEN_CHECK(s.messages == 0, "what comes from a source becomes one message too late");
  s.pseudo_message = true;
  s.party = shared_party(tenant, Urgency::normal);
  s.party->most_workers = limits.workers == 0 ? kNoCap : limits.workers;
  s.party->routing_entry.most = limits.routing == 0 ? kNoCap : limits.routing;
}

void Sources::join(Message& m, SourceNumber number, std::size_t recipients) {
  // A pseudo-message is one source, for all tenants.
  if (Source* const pseudo = number == 0 ? nullptr : numbers_.find(number); pseudo != nullptr && pseudo->pseudo_message)
    m.source = pseudo;
  else
    m.source = number == 0 ? nullptr : source(number_for(m, number), m.tenant, m.urgency);
  if (m.source != nullptr && !m.source->pseudo_message &&
      (m.source->tenant != m.tenant || m.source->urgency != m.urgency))
    m.source = nullptr;
  if (m.source != nullptr) {
    Source& s = *m.source;
    const bool many = s.messages >= kManyMessages && recipients <= kSmallRecipients;
    ++s.messages;
    if (s.pseudo_message || many) {
      if (!s.party) s.party = shared_party(m.tenant, m.urgency);
      m.party = s.party.get();
      return;
    }
  }
  m.party = &m.own.emplace();
  m.party->tenant = m.tenant;
  m.party->turns = turn_of(m.urgency, options_.urgency_ratio);
  m.party->routing_entry.seq = turn_++;
}

void Sources::leave(Message& m) {
  const auto withdraw_claims = [](Party& p) { p.each_claim([](Claim& c) { c.queue().remove(c.entry); }); };
  if (m.own) withdraw_claims(*m.own);
  if (m.source == nullptr || --m.source->messages > 0 || m.source->pseudo_message) return;
  Source& s = *m.source;
  if (s.party) withdraw_claims(*s.party);
  numbers_.erase(s.number);
  sources_.destroy(s.slot);
}

}  // namespace pen::qmgr::scheduler
