// What was lost: noted once, and the segment it was in kept for a person to look at.
#include "lib/queue_log/breakage.h"
#include "lib/queue_log/state.h"

namespace pen::queue_log {

void QueueLog::State::note(Damage damage, bool keep_slot) {
  if (keep_slot && damage.slot != kPositionsSlot) damaged.insert(damage.slot);
  // Recovery, runners and listings may all come by; what has no place is noted as often as it is met.
  if (damage.use != 0 && noted.size() < RecoveryReport::kMaxDamage && !noted.emplace(damage.use, damage.offset).second)
    return;
  ++report->damage_count;
  if (report->damage.size() < RecoveryReport::kMaxDamage) report->damage.push_back(std::move(damage));
}

void QueueLog::State::note_hole(const LogReader::Hole& hole, LogId log) {
  if (!hole.damage) {
    // A write that a crash cut, as far as anybody can tell.
    note_torn({hole.segment.use, hole.offset}, hole.bytes);
    return;
  }
  note({log,
        hole.segment.slot,
        hole.segment.use,
        hole.offset,
        hole.bytes,
        {},
        hole.unreadable ? "the disk does not give the bytes back" : "bytes that were synced are not records"});
}

void QueueLog::State::note_lost(const Place& envelope) {
  note({envelope.log,
        slot_of(envelope.position.use),
        envelope.position.use,
        envelope.position.offset,
        kRecordHeader,
        {},
        "an envelope that should be here is unreadable"});
}

void QueueLog::State::note_left(Slot slot, std::string why) {
  note({kJournal,
        slot,
        0,
        0,
        0,
        {},
        "the damaged segment is not used, but could not be renamed, which the next start tries "
        "again (" +
            why + ")"});
}

void QueueLog::State::note_unfinished(LogReader& reader) {
  for (const auto& u : reader.take_unfinished()) note_torn(u.at, u.bytes);
}

void QueueLog::State::note_torn(const Position& at, std::uint32_t bytes) {
  if (noted.size() >= RecoveryReport::kMaxDamage || !noted.emplace(at.use, at.offset).second) return;
  report->torn_bytes += bytes;
  report->torn.push_back({at.use, at.offset, bytes});
}

Slot QueueLog::State::slot_of(SegmentUse use) const {
  const auto segment = segments.find(use);
  return segment == segments.end() ? Slot{0} : segment->second.header.slot;
}

bool QueueLog::State::keep_aside(Slot slot) {
  if (!damaged.contains(slot) || broken(Breakage::recycle_damaged)) return false;
  aside.push_back(slot);
  return true;
}

}  // namespace pen::queue_log
