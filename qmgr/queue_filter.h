#pragma once
/// Decides which messages a tool's request is about, from the footer when that is enough.
///
/// Use:     QueueFilter filter(request.filter, request.site, now);
///          switch (filter.footer(listed)) { case no: …; case yes: …; case ask: filter.envelope(*from_log(…)) }
/// Source:  ipc::queue::Filter says what the conditions mean. No I/O.
#include "lib/queue/queue_log/message.h"
#include "lib/receive/submission/drop_list.h"
#include "lib/suite/ipc/queue.h"
#include "qmgr/message.h"

namespace pen::qmgr {

/// Without a domain: "".
std::string_view domain_of(std::string_view address);
ipc::queue::Place place_of(const queue_log::Listed& l);

class QueueFilter {
 public:
  /// site: a further condition on the domain of a recipient; empty: none.
  QueueFilter(ipc::queue::Filter filter, std::string site, WallTime now);
  enum class Answer : std::uint8_t { no, yes, ask };
  /// ask: the footer does not hold enough, envelope() decides.
  Answer footer(const queue_log::Listed& l) const;
  bool envelope(const Active& m) const;
  /// The same of one in maildrop. Of a file that is no message nothing is known but its time.
  bool dropped(const submission::Dropped& d) const;
  /// Whether what is there may be meant.
  bool covers(ipc::queue::Place place) const {
    return filter_.places == 0 || (filter_.places & ipc::queue::bit_of(place)) != 0;
  }
  /// Whether messages in the queue may be meant.
  bool covers_queue() const { return filter_.places != ipc::queue::bit_of(ipc::queue::Place::maildrop); }
  /// Nothing is asked for: every message is meant.
  bool empty() const { return filter_ == ipc::queue::Filter{} && site_.empty(); }

 private:
  bool any_recipient() const;
  bool recipient(const std::string& address) const;

  ipc::queue::Filter filter_;
  std::string site_;
  WallTime now_;
};

}  // namespace pen::qmgr
