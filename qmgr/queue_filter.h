#pragma once
/// Decides which messages a tool's request is about, from the footer when that is enough.
///
/// Use:     QueueFilter filter(request.filter, request.site, now);
///          switch (filter.footer(listed)) { case no: …; case yes: …; case ask: filter.envelope(*from_log(…)) }
/// Source:  ipc::queue::Filter says what the conditions mean. No I/O.
#include "lib/ipc/queue.h"
#include "lib/queue_log/message.h"
#include "qmgr/message.h"

namespace pen::qmgr {

ipc::queue::Place place_of(const queue_log::Listed& l);

class QueueFilter {
 public:
  /// site: a further condition on the domain of a recipient; empty: none.
  QueueFilter(ipc::queue::Filter filter, std::string site, WallTime now);
  enum class Answer : std::uint8_t { no, yes, ask };
  /// ask: the footer does not hold enough, envelope() decides.
  Answer footer(const queue_log::Listed& l) const;
  bool envelope(const Active& m) const;
  /// Nothing is asked for: every message is meant.
  bool empty() const { return filter_ == ipc::queue::Filter{} && site_.empty(); }

 private:
  ipc::queue::Filter filter_;
  std::string site_;
  WallTime now_;
};

}  // namespace pen::qmgr
