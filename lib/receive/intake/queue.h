#pragma once
/// What a receiver needs from qmgr: leases of spool files, and the acknowledged hand-over of messages.
///
/// Implementations: EnqueueClient (enqueue_client.h) over IPC; tests have one in memory.
/// Thread:  the loop's.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/async/stream.h"
#include "lib/mail/envelope.h"

namespace pen::intake {

/// The result of enqueueing, as far as the receiver's reply depends on it.
enum class Enqueued : std::uint8_t {
  ok,           // on stable storage
  no_space,     // 452 4.3.1
  refused,      // qmgr will never accept this: a bug of ours; 451 4.3.0 and an error line
  unavailable,  // qmgr cannot be reached or did not answer in time: 451 4.3.0; it may have the message
};

/// A spool file leased to this process until enqueue() names it or it is dropped.
class Lease {
 public:
  virtual ~Lease() = default;
  virtual int fd() const = 0;
  virtual std::uint64_t content_offset() const = 0;
  /// False when the connection to qmgr on which the lease was given is closed: qmgr accepts nothing under this lease
  /// then.
  virtual bool valid() const = 0;
};
struct LeaseAnswer {
  Enqueued outcome = Enqueued::unavailable;
  std::unique_ptr<Lease> lease;  // when ok; destroying it gives it back
};
struct EnqueueAnswer {
  Enqueued outcome = Enqueued::unavailable;
  std::string text;
};

class Queue {
 public:
  virtual ~Queue() = default;
  /// False while qmgr reports that it has no room: MAIL gets 452 4.3.1.
  virtual bool accepting() const = 0;
  /// Bodies of up to this many bytes travel inside enqueue().
  virtual std::uint64_t inline_limit() const = 0;
  virtual async::Task<LeaseAnswer> lease(std::uint64_t expected_size, async::Until until) = 0;
  /// The body is in the lease (if given; synced) or in `body`. All arguments must live until the answer; the envelope
  /// is then unchanged. `permit`, `session`: those of ipc::enqueue::Enqueue; 0: the envelope discharges nothing.
  virtual async::Task<EnqueueAnswer> enqueue(mail::Envelope& envelope, Lease* lease, std::string_view body,
                                             std::uint64_t permit, async::Until until,
                                             std::string_view session = {}) = 0;
};

}  // namespace pen::intake
