#pragma once
/// Sources: senders of many messages that are served as one message.
///
/// allowed_new_worker() and all turns go by message, so a sender of ten thousand messages with one recipient would
/// have what an envelope of ten thousand recipients has not: nearly all look-ups, workers and turns, before mail that
/// comes later. So small messages of a sender with many in the active set already share one party: they take turns with
/// others as one message would, wherever there are turns. The first ones and the big envelopes of the sender remain
/// parties of their own: small senders notice nothing, and a big envelope does not stand before single messages. Mail
/// of one sender that is of several classes (urgency.h) has a source of each.
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
  Sources(std::uint64_t& turn, const Options& options) : turn_(turn), options_(options) {}
  /// The message has its tenant and its urgency already.
  void join(Message& m, SourceNumber number, std::size_t recipients);
  void leave(Message& m);
  /// All that comes from the source is one message. Before its first join().
  /// tenant: its tenant, which must outlive it.
  void make_pseudo_message(SourceNumber number, const PseudoMessageLimits& limits, Tenant* tenant);

 private:
  /// The source's record, made if it is new; nullptr for 0.
  Source* source(SourceNumber number, Tenant* tenant, Urgency urgency);
  std::unique_ptr<Party> shared_party(Tenant* tenant, Urgency urgency);
  std::uint64_t& turn_;
  const Options& options_;
  Slab<Source> sources_;
  NumberTable<Source> numbers_;
};

}  // namespace pen::qmgr::scheduler
