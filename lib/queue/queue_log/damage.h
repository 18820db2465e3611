#pragma once
/// What was lost, noted once, in the report that qmgr logs from. Private to lib/queue/queue_log.
///
/// Use:     damage.note_hole(reader.hole(), log); damage.note_lost(place); damage.note_unfinished(reader);
/// Rules:   recovery, runners and listings may all come by the same bytes: a place is noted when it is first met. The
///          slot of a damaged place is kept from use (SegmentPool::damaged).
/// Bounds:  RecoveryReport::kMaxDamage entries and places.
#include <set>
#include <string>

#include "lib/queue/queue_log/log_reader.h"
#include "lib/queue/queue_log/message.h"
#include "lib/queue/queue_log/pool.h"
#include "lib/queue/queue_log/report.h"

namespace pen::queue_log {

class DamageNotes {
 public:
  DamageNotes(RecoveryReport& report, SegmentPool& pool) : report_(report), pool_(pool) {}

  /// Notes damage, once per place. Its slot is kept from use unless only a mark was odd.
  void note(Damage damage, bool keep_slot = true);
  /// Damage, or torn bytes: see LogReader::Hole.
  void note_hole(const LogReader::Hole& hole, LogId log);
  void note_lost(const Place& envelope);
  /// A record that is whole and says nothing that can be understood.
  void note_malformed(const LogReader::Record& record, LogId log);
  /// A damaged slot that could not be set aside. It is not used, and the next start tries again.
  void note_left(Slot slot, std::string why);
  /// Adds to torn_bytes what the reader met, once per place.
  void note_unfinished(LogReader& reader);

 private:
  void note_torn(const Position& at, std::uint32_t bytes);

  RecoveryReport& report_;
  SegmentPool& pool_;
  std::set<std::pair<SegmentUse, std::uint64_t>> noted_;  // use and offset
};

}  // namespace pen::queue_log
