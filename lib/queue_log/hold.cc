// What only the hold log has: no timer, and messages that may stay in it for years.
#include <algorithm>

#include "lib/base/codec.h"
#include "lib/queue_log/state.h"

namespace pen::queue_log {

namespace {
constexpr int kSweepSlice = 256;              // records looked at in one call: tens of microseconds
constexpr std::size_t kLeastSegments = 4;     // a hold log as short as this is left as it is
constexpr std::size_t kMovesAtOnce = 64;      // what is remembered until they are durable
constexpr std::size_t kMoveBytes = 1U << 20;  // of records that wait for their commit
constexpr std::uint64_t kIndexEntry = 160;    // about, of a message in a footer
}  // namespace

/// The hold log has no timer, but what left it must give its segments back: its runner stops at the first version that
/// is still on hold.
Result<void> QueueLog::State::sweep_hold() {
  hold_changed = false;
  const Log& log = logs[kHold];
  Runner& runner = runners[kHold];
  if (runner.at >= log.durable_to) return {};
  LogReader reader(storage, segments_of(log), runner.at, log.durable_to, SegmentReader::Search::whole);
  for (int looked = 0;; ++looked) {
    if (looked >= kSweepSlice) {
      hold_changed = true;  // the rest with the next call
      return {};
    }
    PEN_TRY_ASSIGN(const auto got, reader.next());
    if (got == LogReader::Got::end) {
      note_unfinished(reader);
      runner.at = log.durable_to;
      return {};
    }
    if (got == LogReader::Got::hole) note_hole(reader.hole(), kHold);
    if (got != LogReader::Got::record) continue;
    const Position at = reader.record().position;
    if (reader.record().type == RecordType::envelope && !dead.contains(at)) {
      PEN_TRY_ASSIGN(const bool garbage, garbage_on_disk(at));
      if (!garbage) {
        runner.at = std::max(runner.at, at);
        return {};
      }
    }
    runner.at = std::max(runner.at, reader.at());
  }
}

/// Writes a version on hold anew at the log's end; complete() takes the old one out of use when that is durable.
/// There is no START: a message that a crash finds begun is delivered, and this one is to stay. Until then the old
/// version counts, from then on the new one, which names it. false: not now.
Result<bool> QueueLog::State::move_held(const LogReader::Record& record) {
  auto body = decode<EnvelopeBody>(as_text(record.body));
  if (!body || working.contains(body->queue_id)) return true;  // damage, or about to leave
  if (!has_space()) return false;                              // the reserve is for deliveries
  Log& log = logs[kHold];
  ++body->generation;
  body->appended = clock.wall_now();
  body->replaces = record.position;
  const auto at = put_envelope(log, view_of(*body));
  if (!at && at.error().is(QueueLogError::no_space)) return false;
  if (!at) return std::unexpected(at.error());
  ++segments.at(record.position.use).pins;
  working.emplace(body->queue_id, Working{body->generation - 1, {kHold, record.position}, Position{}, true, 0});
  log.moving.push_back({body->queue_id, *at});
  log.sync_wanted = true;
  return true;
}

/// Reads on in the pass under way. true: to its end.
Result<bool> QueueLog::State::read_held(std::size_t budget) {
  const Log& log = logs[kHold];
  HoldCompaction& c = compaction;
  // Made anew each time: segments before the runner may have been given back since.
  c.at = std::max(c.at, runners[kHold].at);
  LogReader reader(storage, segments_of(log), c.at, c.until, SegmentReader::Search::whole);
  while (c.at < c.until && reader.bytes_read() < budget) {
    if (log.moving.size() >= kMovesAtOnce || log.pending.size() >= kMoveBytes) return false;
    PEN_TRY_ASSIGN(const auto got, reader.next());
    note_unfinished(reader);
    if (got == LogReader::Got::end) return true;
    if (got == LogReader::Got::hole) note_hole(reader.hole(), kHold);
    if (got != LogReader::Got::record) continue;
    const LogReader::Record& record = reader.record();
    if (record.type == RecordType::envelope && !record.garbage && !dead.contains(record.position)) {
      c.living += record_size(record.body.size()) + kIndexEntry;
      if (c.pass == HoldCompaction::Pass::moves) {
        PEN_TRY_ASSIGN(const bool moved, move_held(record));
        if (!moved) return false;
      }
    }
    c.at = reader.at();
  }
  return c.at >= c.until;
}

Result<QueueLog::Compaction> QueueLog::compact_held(std::size_t budget) {
  if (failed_) return fail(QueueLogError::io_error);
  if (recovery_ != Recovery::done) return Compaction::idle;
  State& s = *state_;
  Log& log = s.logs[kHold];
  HoldCompaction& c = s.compaction;
  if (s.hold_changed) {
    PEN_TRY(s.sweep_hold());
    if (s.hold_changed) return Compaction::more;
  }
  const auto begin = [&](HoldCompaction::Pass pass) { c = {pass, c.segments, s.runners[kHold].at, log.durable_to, 0}; };
  if (c.pass == HoldCompaction::Pass::none) {
    if (log.uses.size() <= std::max(kLeastSegments, 2 * c.segments)) return Compaction::idle;
    begin(HoldCompaction::Pass::counts);
  }
  PEN_TRY_ASSIGN(const bool ended, s.read_held(budget));
  if (!ended) {
    if (!log.moving.empty()) return Compaction::waits;
    return c.pass == HoldCompaction::Pass::moves && !s.has_space() ? Compaction::idle : Compaction::more;
  }
  const bool counted = c.pass == HoldCompaction::Pass::counts;
  c.segments = static_cast<std::size_t>(c.living / s.segment_room()) + 1;
  if (counted && 2 * c.segments < log.uses.size()) {
    begin(HoldCompaction::Pass::moves);
    return Compaction::more;
  }
  c.pass = HoldCompaction::Pass::none;
  return Compaction::idle;
}

}  // namespace pen::queue_log
