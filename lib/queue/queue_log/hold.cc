#include "lib/queue/queue_log/hold.h"

#include <algorithm>

namespace pen::queue_log {

namespace {
constexpr int kSweepSlice = 256;              // records looked at in one call: tens of microseconds
constexpr std::size_t kLeastSegments = 4;     // a hold log as short as this is left as it is
constexpr std::size_t kMovesAtOnce = 64;      // what is remembered until they are durable
constexpr std::size_t kMoveBytes = 1U << 20;  // of records that wait for their commit
constexpr std::uint64_t kIndexEntry = 160;    // about, of a message in a footer
}  // namespace

Result<void> HoldCompaction::sweep() {
  Log& log = logs_[kHold];
  log.thinned = false;
  LogRunner& runner = runners_[kHold];
  if (runner.at() >= log.durable_to) return {};
  LogReader reader(around_.storage, log.segments(), runner.at(), log.durable_to, SegmentReader::Search::whole);
  for (int looked = 0;; ++looked) {
    if (looked >= kSweepSlice) {
      log.thinned = true;  // the rest with the next call
      return {};
    }
    PEN_TRY_ASSIGN(const auto got, reader.next());
    if (got == LogReader::Got::end) {
      damage_.note_unfinished(reader);
      runner.move_to(log.durable_to);
      return {};
    }
    if (got == LogReader::Got::hole) damage_.note_hole(reader.hole(), kHold);
    if (got != LogReader::Got::record) continue;
    const Position at = reader.record().position;
    if (reader.record().type == RecordType::envelope && !marks_.dead(at)) {
      PEN_TRY_ASSIGN(const bool garbage, envelopes_.garbage_on_disk(at));
      if (!garbage) {
        runner.move_to(std::max(runner.at(), at));
        return {};
      }
    }
    runner.move_to(std::max(runner.at(), reader.at()));
  }
}

/// Writes a version on hold anew at the log's end. Until that is durable the old version counts, from then on the new
/// one, which names it. false: not now.
Result<bool> HoldCompaction::move(const LogReader::Record& record) {
  auto body = decode<EnvelopeBody>(as_text(record.body));
  if (!body || work_.contains(body->queue_id)) return true;  // damage, or about to leave
  if (!pool_.has_space()) return false;                      // the reserve is for deliveries
  ++body->generation;
  body->appended = around_.clock.wall_now();
  body->replaces = record.position;
  const auto at = logs_[kHold].put_envelope(view_of(*body));
  if (!at && at.error().is(QueueLogError::no_space)) return false;
  if (!at) return std::unexpected(at.error());
  work_.move_held(body->queue_id, body->generation - 1, record.position, *at);
  return true;
}

/// Reads on in the pass under way. true: to its end.
Result<bool> HoldCompaction::read(std::size_t budget) {
  const Log& log = logs_[kHold];
  // Made anew each time: segments before the runner may have been given back since.
  at_ = std::max(at_, runners_[kHold].at());
  LogReader reader(around_.storage, log.segments(), at_, until_, SegmentReader::Search::whole);
  while (at_ < until_ && reader.bytes_read() < budget) {
    if (log.moving.size() >= kMovesAtOnce || log.pending() >= kMoveBytes) return false;
    PEN_TRY_ASSIGN(const auto got, reader.next());
    damage_.note_unfinished(reader);
    if (got == LogReader::Got::end) return true;
    if (got == LogReader::Got::hole) damage_.note_hole(reader.hole(), kHold);
    if (got != LogReader::Got::record) continue;
    const LogReader::Record& record = reader.record();
    if (record.type == RecordType::envelope && !record.garbage && !marks_.dead(record.position)) {
      living_ += record_size(record.body.size()) + kIndexEntry;
      ++living_versions_;
      if (pass_ == Pass::moves) {
        PEN_TRY_ASSIGN(const bool moved, move(record));
        if (!moved) return false;
      }
    }
    at_ = reader.at();
  }
  return at_ >= until_;
}

void HoldCompaction::begin(Pass pass) {
  pass_ = pass;
  at_ = runners_[kHold].at();
  until_ = logs_[kHold].durable_to;
  living_ = 0;
  living_versions_ = 0;
  if (pass == Pass::counts) taken_out_ = logs_[kHold].taken_out;
}

/// What grew, or lost what filled it, since it was last counted. Each count reads the log; both conditions are met once
/// in as many messages as it then reads.
bool HoldCompaction::worth_counting() const {
  const Log& log = logs_[kHold];
  if (log.uses().size() <= kLeastSegments) return false;
  return log.uses().size() > 2 * segments_ || log.taken_out - taken_out_ > versions_ / 2;
}

Result<QueueLog::Compaction> HoldCompaction::step(std::size_t budget) {
  const Log& log = logs_[kHold];
  if (log.thinned) {
    PEN_TRY(sweep());
    if (log.thinned) return QueueLog::Compaction::more;
  }
  if (pass_ == Pass::none) {
    if (!worth_counting()) return QueueLog::Compaction::idle;
    begin(Pass::counts);
  }
  PEN_TRY_ASSIGN(const bool ended, read(budget));
  if (!ended) {
    if (!log.moving.empty()) return QueueLog::Compaction::waits;
    return pass_ == Pass::moves && !pool_.has_space() ? QueueLog::Compaction::idle : QueueLog::Compaction::more;
  }
  const bool counted = pass_ == Pass::counts;
  segments_ = static_cast<std::size_t>(living_ / pool_.segment_room()) + 1;
  versions_ = living_versions_;
  if (counted && 2 * segments_ < log.uses().size()) {
    begin(Pass::moves);
    return QueueLog::Compaction::more;
  }
  pass_ = Pass::none;
  return QueueLog::Compaction::idle;
}

}  // namespace pen::queue_log
