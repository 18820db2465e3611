#pragma once
/// The queue log's memory. Private to lib/queue_log: queue_log.cc appends and commits, pool.cc
/// manages segments and restart positions, runner.cc works on messages, recovery.cc and scan.cc
/// read.
#include <array>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "lib/queue_log/format.h"
#include "lib/queue_log/id_filter.h"
#include "lib/queue_log/log_reader.h"
#include "lib/queue_log/queue_log.h"
#include "lib/queue_log/recovery.h"

namespace pen::queue_log {

using SegmentUse = std::uint64_t;

struct PositionHash {
  std::size_t operator()(const Position& p) const {
    return (p.use * 0x9e3779b97f4a7c15ULL) ^ (p.offset * 0xc2b2ae3d27d4eb4fULL);
  }
};

/// Garbage marks in memory beyond which they leave with any batch. More than a save's worth of small messages, because
/// most marks need not be written at all: see take_marks().
inline constexpr std::size_t kMarksInMemory = 65536;
inline constexpr auto kAllocationRetry = seconds(1);  // how soon a full disk is asked again

struct Segment {
  SegmentHeader header;
  LogId log = kJournal;
  std::uint32_t pins = 0;  // envelopes in it of open STARTs
};

/// A replacement written to another log, whose FINISH (moved) waits for that log's sync.
struct Moving {
  std::string queue_id;
  Position replacement;
};

/// One log: where it appends. Its runners are in State::runners.
struct Log {
  LogId id = kJournal;
  std::int64_t disk_interval = 0;  // what its segments' headers say
  std::deque<SegmentUse> uses;     // oldest first
  bool open = false;               // the last of `uses` is being appended to

  std::uint32_t cursor = 0;          // where the next record goes
  std::uint32_t taken = 0;           // bytes of the segment that batches took
  std::uint32_t durable_offset = 0;  // bytes of the segment that were synced
  std::string pending;               // [taken, cursor)
  // writes and syncs of segments that were sealed since the last batch
  std::vector<BatchStep> left;
  IndexBody index;
  std::size_t index_bytes = 0;
  std::uint32_t last_index = 0;
  std::vector<std::uint32_t> index_chunks;  // offsets of the segment's index records so far
  IdFilter filter;                          // of the segment's envelopes so far

  Position durable_to;  // everything below is synced
  Position written_to;  // everything below was written
  Position due_before;  // of a retry log: versions below it are due whatever their time: make_due()
  bool sync_wanted = false;
  std::deque<Moving> moving;

  Position end() const;
  bool shared() const { return disk_interval == kSharedRetryLog; }
};

/// Walks a log from its oldest record on. The journal, the hold log and each retry log have one; a shared retry log has
/// one per interval, which passes over what belongs to the others.
struct Runner {
  LogId log = kJournal;  // in State::logs
  seconds interval{0};
  seconds over{-1};  // versions with an interval in (over, upto] are its own
  seconds upto{seconds::max()};
  Position at;  // nothing of its own that lives lies below it, but what is being worked on
  std::unique_ptr<LogReader> reader;
  Position reader_limit;
  std::optional<Position> head;  // a live version found and not yet started
  WallTime head_due;
  Position last;  // the newest replacement written for it by this process
  // when the oldest of those not yet handed to a sync was appended
  std::optional<WallTime> first_unsynced;

  bool owns(seconds of_version) const { return of_version > over && of_version <= upto; }
};

struct Working {
  std::uint32_t generation = 0;
  Place envelope;
  Position start;
  bool moving = false;
};

/// An envelope that is garbage once the record at `because` (in the journal) is durable.
struct PendingMark {
  Position envelope;
  Position because;  // use 0: durable already
};

struct QueueLog::State {
  State(Storage& s, Options o, const Clock& c, Random& r)
      : storage(s), options(std::move(o)), clock(c), random(r) {}

  Storage& storage;
  Options options;
  const Clock& clock;
  Random& random;
  std::uint32_t epoch = 1;

  // segments
  std::map<SegmentUse, Segment> segments;  // in use, of all logs
  std::deque<Slot> free;                   // allocated, ready
  std::vector<Slot> condemned;             // free after the next save
  std::set<Slot> damaged;                  // hold bytes that are lost: never used again
  std::vector<Slot> aside;                 // of these, set aside with the next save
  Slot last_slot = 0;
  SegmentUse next_use = 1;
  SegmentUse saved_next_use = 0;     // of the restart positions found at the start
  std::size_t reserve_segments = 0;  // below this many free ones no new mail is taken
  std::size_t spare_segments = 0;    // wanted beyond the reserve
  bool allocation_failed = false;
  SteadyTime allocation_retry{};
  std::set<Slot> dirty;  // written and not synced since

  std::vector<Log> logs;
  // of them, from the first: journal, hold log, configured retry logs
  std::size_t writable_logs = 0;
  // of the journal, of the hold log, one per configured interval; then of logs left over from another configuration
  std::vector<Runner> runners;

  // tickets and batches
  Ticket last_ticket = 0;
  Ticket covered = 0;  // by batches made
  std::uint64_t lazy_bytes = 0;
  struct Flight {
    Ticket covers = 0;
    std::vector<std::pair<LogId, Position>> synced;  // durable up to here afterwards
    std::vector<std::pair<LogId, Position>> written;
    std::vector<Position> marks;
    bool save = false;
    bool settles = false;
    std::vector<Slot> condemned;
    std::vector<Slot> allocating;
    // writes and the sync of what is being appended to the journal, nothing else: see beside()
    bool plain = false;
    std::uint64_t bytes = 0;  // of the journal
    Ticket tickets = 0;
  };
  std::deque<Flight> flights;  // oldest first, at most kBatchesAtOnce; two only if both are plain
  /// What a batch has to do now.
  struct Need {
    bool awaited = false;      // somebody waits for records of the journal
    bool sync_others = false;  // logs that want a sync
    bool lazy = false;         // enough has gathered that nobody waits for
    bool other_logs = false;   // enough of it outside the journal, or all is wanted on the disk
    bool marks = false;        // too many in memory
    bool save = false;
    bool settles = false;      // the save ends recovery
    std::size_t segments = 0;  // to allocate
  };
  std::uint64_t since_save = 0;
  std::uint64_t positions_sequence = 0;

  // messages
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::unordered_map<std::string, Working, TextHash, std::equal_to<>> working;
  std::map<Position, std::string> starts;           // of open STARTs, by position
  std::unordered_set<Position, PositionHash> dead;  // started or removed, mark not yet written
  std::deque<PendingMark> marks;
  std::size_t ready_marks = 0;  // of `marks`, from the front, may be written

  // new mail not yet started, in order of position: what the journal's runner need not read again to find
  struct Fresh {
    Position position;
    bool started = false;
  };
  std::deque<Fresh> fresh;
  static constexpr std::size_t kMaxFresh = 65536;
  Position scan_end;  // the journal's runner reads up to here before it turns to `fresh`
  std::optional<Position> fresh_lost;  // from here on the journal must be read: `fresh` was full

  // accepted ids
  using IdKey = std::array<std::uint64_t, 2>;
  struct IdHash {
    std::size_t operator()(const IdKey& k) const { return k[0]; }
  };
  std::uint64_t id_seed = 0;
  struct Accepted {
    Ticket ticket;
    Position position;
  };
  std::unordered_map<IdKey, Accepted, IdHash> accepted;
  std::deque<IdKey> accepted_order;

  std::unique_ptr<RecoveryState> recovering;
  bool settle_wanted = false;
  bool hold_changed = true;  // something left the hold log since its runner last looked
  RecoveryReport* report = nullptr;
  Figures figures;

  // damage.cc
  /// Notes damage, once per place. Its slot is kept from use unless only a mark was odd.
  void note(Damage damage, bool keep_slot = true);
  void note_lost(const Place& envelope);
  /// Adds to torn_bytes what the reader met, once per place.
  void note_unfinished(LogReader& reader);
  /// Damage, or torn bytes: see LogReader::Hole.
  void note_hole(const LogReader::Hole& hole, LogId log);
  std::set<std::pair<SegmentUse, std::uint64_t>> noted;
  /// 0: the use is not known.
  Slot slot_of(SegmentUse use) const;
  /// A slot that nothing needs any more: true when it is damaged, and will be set aside instead of used again.
  bool keep_aside(Slot slot);

  // pool.cc
  Result<void> roll(Log& log);
  bool can_append(const Log& log, std::size_t body) const;
  bool has_space() const;
  std::size_t per_segment() const;
  std::size_t segment_room() const;
  Result<void> fill_pool();
  Result<void> recycle_empty();
  void seal(Log& log);
  void add_index(Log& log, std::uint32_t offset, const EnvelopeBody& body, bool in_parts);
  void flush_index(Log& log, bool sealed);
  void write_piece(Log& log, RecordType type, std::uint8_t flags, Bytes body);
  Position suffix_start() const;
  Position journal_runner() const;
  void close_if_empty(Log& log);
  Result<void> sweep_hold();
  std::vector<PendingMark> take_marks();
  void condemn(Flight& into, std::vector<PendingMark>& taken);
  SavedPositions positions() const;
  Log* log_of(const Position& position);
  /// With its runners; `intervals` are those of a retry log, one per runner.
  Log& add_log(std::int64_t disk_interval, const std::vector<seconds>& intervals);
  template <class Function>
  void each_runner(LogId log, Function&& function) {
    for (Runner& runner : runners)
      if (runner.log == log) function(runner);
  }
  /// Nothing below it is needed by a runner of the log.
  Position runners_at(const Log& log) const;
  bool syncing(const Log& log, const Position& position) const;

  // queue_log.cc
  Need needs(bool flush, bool save_asked, bool recovered);
  std::optional<Batch> beside();
  void take_records(Log& log, const Need& need, Batch& batch, Flight& flight, std::set<Slot>& sync);
  void write_marks(const std::vector<PendingMark>& taken, Batch& batch, Flight& flight);
  void save(Batch& batch, std::size_t before_syncs);
  /// Appends a record in as many parts as it needs. no_space: nothing was written.
  Result<Position> put(Log& log, RecordType type, Bytes body, const EnvelopeBody* facts = nullptr);
  Result<Position> put_envelope(Log& log, const EnvelopeBody& body);
  void note_fresh(const Position& position);
  IdKey id_key(std::string_view queue_id) const;
  void remember(std::string_view queue_id, Accepted accepted);

  // runner.cc
  void mark_later(const Position& envelope, const Position& because);
  void drop_marks(const std::set<SegmentUse>& uses);
  void close_start(const Working& work);
  void pass_fresh(const Position& started);
  Result<void> settle_moves(Log& log);
  SegmentSource segments_of(const Log& log) const;
  Result<bool> garbage_on_disk(const Position& position);
  Stored stored(const Place& place, std::uint32_t record_epoch, EnvelopeBody body) const;
  /// The interval a version waits for; 0 in the journal and the hold log.
  seconds interval_of(const Log& log, std::uint32_t recorded) const;
  WallTime due(const Log& log, const Position& at, seconds interval, WallTime appended,
               WallTime now) const;
  Result<Stored> read(const Place& place);
  Result<Position> replace(std::string_view queue_id, const Working& work, Log& into,
                           const Envelope& replacement, seconds interval = seconds(0));
};

EnvelopeBody make_body(const Envelope& envelope, std::uint32_t generation, WallTime appended,
                       const Position& replaces);

}  // namespace pen::queue_log
