#pragma once
/// Reads versions of messages by their place. Private to lib/queue/queue_log.
///
/// Use:     auto stored = envelopes.read(place);
///          auto gone = envelopes.gone(position);        // garbage, or its segment was given back
/// Errors:  not_found, damaged, errno of the storage.
#include "lib/queue/queue_log/log.h"
#include "lib/queue/queue_log/marks.h"

namespace pen::queue_log {

class StoredEnvelopes {
 public:
  StoredEnvelopes(Surroundings& around, const SegmentPool& pool, const Logs& logs, const GarbageMarks& marks)
      : around_(around), pool_(pool), logs_(logs), marks_(marks) {}

  /// Not asked: whether it lives.
  Result<Stored> read(const Place& place) const;
  /// A body that was read at that place.
  Stored stored(const Place& place, std::uint32_t record_epoch, EnvelopeBody body) const;
  /// Its garbage mark is on the disk.
  Result<bool> garbage_on_disk(const Position& position) const;
  Result<bool> gone(const Position& position) const;

 private:
  Surroundings& around_;
  const SegmentPool& pool_;
  const Logs& logs_;
  const GarbageMarks& marks_;
};

}  // namespace pen::queue_log
