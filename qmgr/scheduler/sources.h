#pragma once
/// Sources: who is served as one message though he sends many.
///
/// allowed_new_worker() and all turns go by message, so who sends ten thousand messages of one recipient would have
/// what an envelope of ten thousand recipients has not: nearly all look-ups, workers and turns, before whoever comes
/// later. So small messages of a sender who has many in the active set already share one party: they take turns with
/// others as one message would, wherever there are turns. His first ones and his big envelopes remain parties of
/// their own: who sends little notices nothing, and a big envelope does not stand before his single messages.
/// Verification of recipients at the time of SMTP is one pseudo-message from the first job on, with its own limits:
/// what comes from outside must not take what delivery needs (docs/origins.md, "The scheduler").
///
/// Use:     join() gives a message its party when it is admitted, leave() when it is forgotten.
#include <cstdint>
#include <memory>

#include "qmgr/scheduler/message.h"
#include "qmgr/scheduler/number_table.h"
#include "qmgr/scheduler/slab.h"

namespace pen::qmgr::scheduler {

class Sources {
 public:
  /// turn: rises with each place in a line that is given away.
  explicit Sources(std::uint64_t& turn) : turn_(turn) {}
  /// The message has its tenant already.
  void join(Message& m, SourceNumber number, std::size_t recipients);
  void leave(Message& m);
  /// All that comes from the source is one message. Before its first join().
  /// tenant: whose it is; it must stay.
  void make_pseudo_message(SourceNumber number, const PseudoMessageLimits& limits, Tenant* tenant);

 private:
  /// The source's record, made if it is new; nullptr for 0.
  Source* source(SourceNumber number, Tenant* tenant);
  std::unique_ptr<Party> shared_party(Tenant* tenant);
  std::uint64_t& turn_;
  Slab<Source> sources_;
  NumberTable<Source> numbers_;
};

}  // namespace pen::qmgr::scheduler
