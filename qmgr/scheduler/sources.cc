#include "qmgr/scheduler/sources.h"

#include "lib/base/check.h"
#include "qmgr/scheduler/transport.h"

namespace pen::qmgr::scheduler {

namespace {
constexpr std::size_t kManyMessages = 10;     // of one sender in the active set
constexpr std::size_t kSmallRecipients = 10;  // more: a party of its own, as any envelope
}  // namespace

Source* Sources::source(SourceNumber number) {
  if (number == 0) return nullptr;
  if (Source* known = numbers_.find(number)) return known;
  const auto made = sources_.make();
  made.object.number = number;
  made.object.slot = made.number;
  numbers_.insert(number, &made.object);
  return &made.object;
}

std::unique_ptr<Party> Sources::shared_party() {
  auto party = std::make_unique<Party>();
  party->shared = true;
  party->seq = party->routing_entry.seq = turn_++;
  return party;
}

void Sources::make_pseudo_message(SourceNumber number, const PseudoMessageLimits& limits) {
  Source& s = *source(number);
  PEN_CHECK(s.messages == 0, "what comes from a source becomes one message too late");
  s.pseudo_message = true;
  s.party = shared_party();
  s.party->most_workers = limits.workers == 0 ? kNoCap : limits.workers;
  s.party->routing_entry.most = limits.routing == 0 ? kNoCap : limits.routing;
}

void Sources::join(Message& m, SourceNumber number, std::size_t recipients) {
  m.source = source(number);
  if (m.source != nullptr) {
    Source& s = *m.source;
    const bool many = s.messages >= kManyMessages && recipients <= kSmallRecipients;
    ++s.messages;
    if (s.pseudo_message || many) {
      if (!s.party) s.party = shared_party();
      m.party = s.party.get();
      return;
    }
  }
  m.party = &m.own.emplace();
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
