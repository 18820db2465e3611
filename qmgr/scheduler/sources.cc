/// Sources: who is served as one message though he sends many.
///
/// allowed_new_worker() and all turns go by message, so who sends ten thousand messages of one recipient would have
/// what an envelope of ten thousand recipients has not: nearly all look-ups, workers and turns, before whoever comes
/// later. So small messages of a sender who has many in the active set already share one party: they take turns with
/// others as one message would, wherever there are turns. His first ones and his big envelopes remain parties of
/// their own: who sends little notices nothing, and a big envelope does not stand before his single messages.
/// Verification of recipients at the time of SMTP is one pseudo-message from the first job on, with its own limits:
/// what comes from outside must not take what delivery needs (docs/origins.md, "The scheduler").
#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
constexpr std::size_t kManyMessages = 10;     // of one sender in the active set
constexpr std::size_t kSmallRecipients = 10;  // more: a party of its own, as any envelope
}  // namespace

Source* Model::source(SourceNumber number) {
  if (number == 0) return nullptr;
  if (Source* known = source_numbers.find(number)) return known;
  const auto made = sources.make();
  made.object.number = number;
  made.object.slot = made.number;
  source_numbers.insert(number, &made.object);
  return &made.object;
}

std::unique_ptr<Party> Model::shared_party() {
  auto party = std::make_unique<Party>();
  party->shared = true;
  party->seq = party->routing_entry.seq = next_seq++;
  return party;
}

void Model::limit(Party& p, const PseudoMessageLimits& its) {
  p.most_workers = its.workers == 0 ? kNoCap : its.workers;
  p.routing_entry.most = its.routing == 0 ? kNoCap : its.routing;
}

void Model::join(Message& m, SourceNumber number, std::size_t recipients) {
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
  m.party->routing_entry.seq = next_seq++;
}

void Model::leave(Message& m) {
  const auto withdraw_claims = [](Party& p) { p.each_claim([](Claim& c) { c.queue().remove(c.entry); }); };
  if (m.own) withdraw_claims(*m.own);
  if (m.source == nullptr || --m.source->messages > 0 || m.source->pseudo_message) return;
  Source& s = *m.source;
  if (s.party) withdraw_claims(*s.party);
  source_numbers.erase(s.number);
  sources.destroy(s.slot);
}

}  // namespace pen::qmgr::scheduler
