#pragma once
/// The messages that are being worked on, from START to the record that ends the work. Private to lib/queue/queue_log.
///
/// Use:     table.open(id, {generation, place, start, false, bytes});    // START was appended at `start`
///          table.move(entry, log, replacement);                         // a replacement waits for its log's sync
///          table.settle_moves(log);                                     // after a commit: FINISH (moved) for those
///          table.close(entry);                                          // a record that ends the work was appended
/// Owns:    an open START's claims: its envelope's segment stays (a pin), the disk has room for its replacement (a
///          promise), and the envelope's garbage mark waits (GarbageMarks).
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lib/queue/queue_log/log.h"
#include "lib/queue/queue_log/marks.h"

namespace pen::queue_log {

struct Working {
  std::uint32_t generation = 0;
  Place envelope;
  Position start;  // use 0: only moving within the hold log, see HoldCompaction
  bool moving = false;
  std::uint64_t bytes = 0;  // that its replacement may take
};

class WorkTable {
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  using Table = std::unordered_map<std::string, Working, TextHash, std::equal_to<>>;

 public:
  using Entry = Table::iterator;

  WorkTable(Surroundings& around, SegmentPool& pool, Logs& logs, GarbageMarks& marks);

  std::size_t size() const { return table_.size(); }
  bool contains(std::string_view queue_id) const { return table_.contains(queue_id); }
  /// nullptr: nobody works on it.
  const Working* find(std::string_view queue_id) const;
  /// What every call that goes on with, or ends, the work on a message begins with. Errors: not_found (also while its
  /// replacement waits), io_error.
  Result<Entry> entry(std::string_view queue_id);

  void open(std::string_view queue_id, const Working& work);
  /// The START of a message that is being worked on was appended anew, with its envelope.
  void reopen(Entry entry, const Working& work);
  void close(Entry entry);

  /// The replacement was appended to another log.
  void move(Entry entry, Log& into, const Position& replacement);
  /// A version on hold was appended anew: there is no START, for a message that a crash finds begun is delivered.
  void move_held(std::string_view queue_id, std::uint32_t generation, const Position& from, const Position& to);
  /// For every replacement that is durable now FINISH (moved), or the garbage mark of the version before it.
  Result<void> settle_moves(Log& log);
  /// The version is being worked on, or is a replacement in a log that was not yet synced when FINISH was to be
  /// appended.
  bool on_its_way(std::string_view queue_id, const Position& version) const;

  /// The oldest open START.
  std::optional<Position> first_start() const;
  /// A message with a START that fell far behind: Work::stale().
  std::optional<std::string> stale();
  /// A replacement of that size was written by renew().
  void renewed(std::uint64_t size) { renewed_size_ = renewed_size_ == 0 ? size : (7 * renewed_size_ + size) / 8; }

 private:
  void close_start(const Working& work);

  Surroundings& around_;
  SegmentPool& pool_;
  Logs& logs_;
  GarbageMarks& marks_;
  Table table_;
  std::map<Position, std::string> starts_;  // of open STARTs, by position
  std::uint64_t renewed_size_ = 0;          // bytes of an envelope, average over the last renewals; 0: none yet
};

}  // namespace pen::queue_log
