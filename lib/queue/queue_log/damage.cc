#include "lib/queue/queue_log/damage.h"

namespace pen::queue_log {

void DamageNotes::note(Damage damage, bool keep_slot) {
  if (keep_slot && damage.slot != kPositionsSlot) pool_.damaged().keep(damage.slot);
  // Recovery, runners and listings may all come by; what has no place is noted as often as it is met.
  if (damage.use != 0 && noted_.size() < RecoveryReport::kMaxDamage &&
      !noted_.emplace(damage.use, damage.offset).second)
    return;
  ++report_.damage_count;
  if (report_.damage.size() < RecoveryReport::kMaxDamage) report_.damage.push_back(std::move(damage));
}

void DamageNotes::note_hole(const LogReader::Hole& hole, LogId log) {
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

void DamageNotes::note_lost(const Place& envelope) {
  note({envelope.log,
        pool_.slot_of(envelope.position.use),
        envelope.position.use,
        envelope.position.offset,
        kRecordHeader,
        {},
        "an envelope that should be here is unreadable"});
}

void DamageNotes::note_malformed(const LogReader::Record& record, LogId log) {
  note({log,
        pool_.slot_of(record.position.use),
        record.position.use,
        record.position.offset,
        record.body.size(),
        {},
        "record body is malformed"});
}

void DamageNotes::note_left(Slot slot, std::string why) {
  note({kJournal,
        slot,
        0,
        0,
        0,
        {},
        "the damaged segment is not used, but could not be renamed, which the next start tries again (" + why + ")"});
}

void DamageNotes::note_unfinished(LogReader& reader) {
  for (const auto& u : reader.take_unfinished()) note_torn(u.at, u.bytes);
}

void DamageNotes::note_torn(const Position& at, std::uint32_t bytes) {
  if (noted_.size() >= RecoveryReport::kMaxDamage || !noted_.emplace(at.use, at.offset).second) return;
  report_.torn_bytes += bytes;
  report_.torn.push_back({at.use, at.offset, bytes});
}

}  // namespace pen::queue_log
