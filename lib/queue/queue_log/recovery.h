#pragma once
/// What happens between a start and the first delivery. Private to lib/queue/queue_log.
///
/// 1. open_recovery(): restart positions, segment headers, sync of everything beyond the positions.
///    New mail may come.
/// 2. Restart::step(), reading: the journal from the working suffix, the other logs from their saved ends.
/// 3. Restart::step(), resolving: per message the newest version wins, older ones become garbage,
///    deliveries are applied, and what was being worked on gets a replacement envelope in the journal.
/// 4. settling: a sync of every log and new restart positions; then runners may start.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/queue/queue_log/log_reader.h"
#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/seen_messages.h"

namespace pen::queue_log {

struct RecoveryState {
  struct Source {
    LogId log = kJournal;
    std::vector<SegmentHeader> segments;  // that this start found, oldest first
    SegmentSource found() const;          // the same, for a reader
    Position from;
    Position saved_end;
    std::unique_ptr<LogReader> reader;
  };
  Position sent_again;  // the last new copy of a message that was found on the disk too
  std::vector<Source> sources;
  std::size_t source = 0;

  using Copy = SeenMessages::Copy;
  using Seen = SeenMessages::Seen;
  SeenMessages seen;
  std::size_t next = 0;  // of seen.in_order(), when they are resolved
  bool resolving = false;
  bool resolved = false;  // all of them: a save ends recovery
  // of the last hole in the journal that is an unfinished write
  std::optional<std::uint32_t> torn_epoch;
  Position suffix;
  std::map<std::uint64_t, std::uint32_t> live;  // envelopes that stay, by segment
  std::set<std::uint64_t> emptied;              // segments that are freed: their messages are written anew
  std::map<std::uint64_t, bool> read_whole;     // segments read from their first record
};

Result<void> open_recovery(QueueLog::State& state);
/// What one record says; `reader` stands at it.
void take_record(RecoveryState& r, QueueLog::State& state, const LogReader& reader, LogId log);
/// Once, between reading and resolving: on a full disk, which segments are to be emptied.
Result<void> choose_segments_to_empty(RecoveryState& r, const QueueLog::State& state);
/// Decides about one message. no_space: nothing was done, ask again.
Result<void> resolve_message(RecoveryState& r, QueueLog::State& state, RecoveryState::Seen& seen);
/// Breakage::append_after_torn_tail.
Result<void> append_after_torn_tail(QueueLog::State& state);

}  // namespace pen::queue_log
