#pragma once
/// What the queue log reports: damage, what recovery found, and figures.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/queue/queue_log/message.h"
#include "lib/queue/queue_log/storage.h"

namespace pen::queue_log {

/// Something was not as it was written. It was left where it is and the log went on after it.
struct Damage {
  LogId log = kJournal;
  Slot slot = 0;
  std::uint64_t use = 0;     // 0: unknown
  std::uint64_t offset = 0;  // in the segment
  std::uint64_t bytes = 0;   // how much is unreadable
  std::string queue_id;      // of the message that is lost by it, when known
  std::string what;          // a sentence part
};

/// What recovery found: for the log line of qmgr and for tests.
struct RecoveryReport {
  std::uint32_t epoch = 0;
  std::uint32_t segment_size = 0;  // of this queue; the option counts for a new one only
  bool positions_found = false;    // else every segment is read
  std::uint64_t segments = 0;      // in use at start
  std::uint64_t bytes_read = 0;
  std::uint64_t records = 0;
  // messages that were being worked on: they have replacement envelopes now
  std::uint64_t working = 0;
  std::uint64_t moved = 0;         // messages moved out of nearly empty segments of a full disk
  std::uint64_t deliveries = 0;    // delivery records applied to them
  std::uint64_t stale_copies = 0;  // older versions marked as garbage
  // unfinished writes at the ends of the logs: expected after a crash
  std::uint64_t torn_bytes = 0;
  struct Torn {
    std::uint64_t use = 0;
    std::uint64_t offset = 0;  // in the segment
    std::uint64_t bytes = 0;
  };
  std::vector<Torn> torn;      // the same by place; at most kMaxDamage, as for the bytes
  std::vector<Damage> damage;  // at most kMaxDamage entries
  std::uint64_t damage_count = 0;
  // the last Restart::step() found no segment for a replacement: recovery goes on when the disk has room for one
  bool waits_for_space = false;
  static constexpr std::size_t kMaxDamage = 1000;
};

/// Counts since the start, and sizes of the moment.
struct Figures {
  std::uint64_t appended_bytes = 0;
  std::uint64_t commits = 0;         // of the journal
  std::uint64_t commits_beside = 0;  // of them, handed out while another was under way
  std::uint64_t syncs = 0;
  std::uint64_t positions_saved = 0;
  std::uint64_t marks_written = 0;
  std::size_t segments_used = 0;
  std::size_t segments_free = 0;      // allocated and ready
  std::size_t segments_reserved = 0;  // of the free ones, kept for deliveries
  std::uint64_t suffix_bytes = 0;     // of the journal that a restart would read now
};

}  // namespace pen::queue_log
