#pragma once
/// Conversation "enqueue": a receiver hands a complete message to qmgr.
///
/// Small body (up to queue_inline_limit): it travels in Enqueue. Larger: LeaseSpool first; the receiver streams the
/// content into the leased file from content_offset on, fdatasyncs it once, and names the lease in Enqueue.
/// Enqueued(ok) means: envelope and body are on stable storage. Idempotent by queue id: the same id again is ok again.
/// A lease dies with the connection. After the hello, and whenever it changes, qmgr sends QueueState.
#include <string>
#include <string_view>
#include <variant>

#include "lib/mail/envelope.h"

namespace pen::ipc::enqueue {

inline constexpr std::string_view kName = "enqueue";

// receiver → qmgr
struct LeaseSpool {
  std::uint64_t request = 0;
  std::uint64_t expected_size = 0;  // 0: unknown
  PEN_FIELDS(request, expected_size)
};
struct ReturnLease {
  std::uint64_t lease = 0;
  PEN_FIELDS(lease)
};
/// The first that knows Envelope::release: an older queue manager would send such mail at once.
inline constexpr std::uint32_t kReleaseRevision = 7;
struct Enqueue {
  std::uint64_t request = 0;
  mail::Envelope envelope;
  std::uint64_t lease = 0;       // 0: body inline
  std::string_view inline_body;  // points into the frame
  /// Of the bounce::Notify that asked for this message. Without it an envelope may discharge nothing.
  std::uint64_t permit = 0;
  std::string_view session = {};  // that it came in, for events alone; empty: none
  PEN_FIELDS(request, envelope, lease, inline_body, permit, session, envelope.tenant, envelope.priority,
             envelope.release, envelope.release_request, envelope.signer)
};

// qmgr → receiver
enum class Outcome : std::uint8_t {
  ok,
  no_space,  // 452 4.3.1
  // malformed, or fields this program may not set: 451 and a log line; our bug or an attack. A lease: the spool's disk
  // fails, and asking again would keep a client waiting in its content
  refused,
  try_later,  // qmgr cannot now (a lease while it drains): ask again, 451 4.3.0 in the end
};
/// Carries the file descriptor (read-write) when outcome is ok.
struct SpoolLeased {
  std::uint64_t request = 0;
  Outcome outcome = Outcome::ok;
  std::uint64_t lease = 0;
  std::uint64_t content_offset = 0;
  PEN_FIELDS(request, outcome, lease, content_offset)
};
struct Enqueued {
  std::uint64_t request = 0;
  Outcome outcome = Outcome::ok;
  std::string text;  // why not
  PEN_FIELDS(request, outcome, text)
};
struct QueueState {
  bool accepting = true;  // false: answer MAIL with 452 4.3.1
  std::uint64_t inline_limit = 0;
  PEN_FIELDS(accepting, inline_limit)
};

using ToQmgr = std::variant<LeaseSpool, ReturnLease, Enqueue>;
using FromQmgr = std::variant<SpoolLeased, Enqueued, QueueState>;

}  // namespace pen::ipc::enqueue
