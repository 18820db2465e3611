#pragma once
/// The queue log's memory. Private to lib/queue_log: queue_log.cc and append.cc append, commit.cc commits, pool.cc
/// manages segments and restart positions, runner.cc works on messages, hold.cc keeps the hold log short, recovery.cc
/// and scan.cc read.
#include <array>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <unordered_map>

#include "lib/queue_log/format.h"
#include "lib/queue_log/id_filter.h"
#include "lib/queue_log/log_reader.h"
#include "lib/queue_log/position_set.h"
#include "lib/queue_log/queue_log.h"
#include "lib/queue_log/recent_ids.h"
#include "lib/queue_log/recovery.h"

namespace pen::queue_log {

using SegmentUse = std::uint64_t;

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
  GatheredIndex index;
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
  Position start;  // use 0: only moving within the hold log, see compact_held()
  bool moving = false;
  std::uint64_t bytes = 0;  // that its replacement may take
};

/// What the replacement of an envelope may take: its recipients have notes by then.
inline std::uint64_t replacement_size(const EnvelopeView& body) {
  constexpr std::uint64_t kNote = 512;
  return encoded_size(body) + kNote * body.remaining.count();
}

/// How far compact_held() is.
struct HoldCompaction {
  enum class Pass : std::uint8_t { none, counts, moves };
  Pass pass = Pass::none;
  std::size_t segments = 0;  // that what lives would fill, when last counted
  Position at, until;        // of the pass: it is here, and ends there
  std::uint64_t living = 0;  // bytes of what it met that lives
};

/// An envelope that is garbage once the record at `because` (in the journal) is durable.
struct PendingMark {
  Position envelope;
  Position because;        // use 0: durable already
  bool worked_on = false;  // `because` is an open START
};

/// A batch's part in a save of restart positions.
enum class Save : std::uint8_t {
  none,
  prepares,  // syncs what the positions rely on outside the journal
  writes,
  whole,
};

/// What is to be remembered of a batch while it is in hand.
struct Flight {
  std::uint64_t number = 0;  // the batch's
  bool done = false;         // executed; waits for those before it
  Ticket covers = 0;
  std::vector<std::pair<LogId, Position>> synced;  // durable up to here afterwards
  std::vector<std::pair<LogId, Position>> written;
  std::vector<Position> marks;
  bool alone = false;       // no other for the journal beside it: it ends a segment, or does not sync
  bool whole = false;       // it is for all logs
  std::uint64_t bytes = 0;  // of the journal
  Ticket tickets = 0;
  Save save = Save::none;
  bool settles = false;
};

/// A save under way: positions of one moment, to be written once all that was appended until then is durable.
struct Saving {
  std::string positions;
  Position journal_end;         // of that moment
  std::vector<Slot> condemned;  // free afterwards
  std::vector<Slot> aside;      // set aside afterwards
  bool others_synced = false;   // and the marks
};

struct QueueLog::State {
  State(Storage& s, Options o, const Clock& c, Random& r)
      : storage(s),
        options(std::move(o)),
        clock(c),
        random(r),
        dead(options.expected_working),
        ids_seed(random.next()),
        accepted(options.remembered_ids, ids_seed),
        begun(options.remembered_ids, ids_seed) {
    working.reserve(options.expected_working);
  }

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
  SegmentUse first_use = 1;          // of this process
  SegmentUse saved_next_use = 0;     // of the restart positions found at the start
  std::size_t reserve_segments = 0;  // the least reserve()
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
  Ticket last_hold = 0;  // of them, the last one that waits for the hold log as well
  Ticket covered = 0;    // by batches made
  bool flush_journal = false;
  bool flush_others = false;
  bool save_asked = false;
  std::uint64_t last_batch = 0;
  // The lanes: see commit.cc.
  std::deque<Flight> journal_flights;  // oldest first, at most kJournalBatches
  std::optional<Flight> other_flight;
  std::optional<Flight> pool_flight;
  /// What a batch has to do now.
  struct Need {
    bool awaited = false;       // somebody waits for records of the journal
    bool lazy_journal = false;  // enough has gathered in it that nobody waits for, or all is wanted on the disk
    bool sync_others = false;   // other logs want a sync
    bool lazy_others = false;
    bool marks = false;  // too many in memory
    bool save = false;
    bool settles = false;  // the save ends recovery
  };
  std::optional<Saving> saving;
  std::uint64_t since_save = 0;
  std::uint64_t positions_sequence = 0;
  std::vector<std::string> spare_buffers;  // for Log::pending

  // messages
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::unordered_map<std::string, Working, TextHash, std::equal_to<>> working;
  std::map<Position, std::string> starts;  // of open STARTs, by position
  std::uint64_t begun_bytes = 0;           // that the replacements of open STARTs may take
  PositionSet dead;                        // started or removed, mark not yet written
  std::deque<PendingMark> marks;           // by `because`, those with use 0 first: close_start() searches it
  std::size_t ready_marks = 0;             // of `marks`, from the front, may be written
  std::uint64_t renewed_size = 0;          // bytes of an envelope, average over the last renewals; 0: none yet

  // new mail not yet started, in order of position: what the journal's runner need not read again to find
  struct Fresh {
    Position position;
    bool started = false;
  };
  std::deque<Fresh> fresh;
  static constexpr std::size_t kMaxFresh = 65536;
  Position scan_end;                   // the journal's runner reads up to here before it turns to `fresh`
  std::optional<Position> fresh_lost;  // from here on the journal must be read: `fresh` was full

  std::uint64_t ids_seed;  // one for both: a key of one is a key of the other
  RecentIds accepted;
  // Work on them was begun by this process, from what an earlier one left: the places of the STARTs.
  RecentIds begun;

  std::unique_ptr<RecoveryState> recovering;
  bool settle_wanted = false;
  bool hold_changed = true;  // something left the hold log since its runner last looked
  RecoveryReport* report = nullptr;
  Figures figures;

  // damage.cc
  /// Notes damage, once per place. Its slot is kept from use unless only a mark was odd.
  void note(Damage damage, bool keep_slot = true);
  void note_lost(const Place& envelope);
  /// A damaged slot that could not be set aside. It is not used, and the next start tries again.
  void note_left(Slot slot, std::string why);
  /// Adds to torn_bytes what the reader met, once per place.
  void note_unfinished(LogReader& reader);
  void note_torn(const Position& at, std::uint32_t bytes);
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
  std::size_t reserve() const;
  bool has_space() const;
  std::size_t per_segment() const;
  std::size_t segment_room() const;
  Result<void> fill_pool();
  Result<void> recycle_empty();
  void seal(Log& log);
  Position suffix_start() const;
  Position journal_runner() const;
  void close_if_empty(Log& log);
  void count_ready_marks();
  std::vector<PendingMark> take_marks();
  std::vector<Slot> condemn(std::vector<PendingMark>& taken);
  SavedPositions positions() const;
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
  bool synced_soon(const Log& log, const Position& position) const;

  // commit.cc
  Need needs();
  std::optional<Batch> whole_batch(const Need& need);
  std::optional<Batch> journal_batch(const Need& need);
  std::optional<Batch> others_batch(const Need& need);
  std::optional<Batch> positions_batch();
  std::optional<Batch> pool_batch();
  std::pair<Batch, Flight> new_batch();
  bool may_go_beside() const;
  void take_records(Log& log, bool even_a_header, Batch& batch, Flight& flight);
  void sync_records(Log& log, std::set<Slot>& sync, Flight& flight);
  void add_syncs(const std::set<Slot>& slots, Batch& batch);
  void write_marks(const std::vector<PendingMark>& taken, Batch& batch, Flight& flight);
  void begin_save(std::vector<PendingMark>& garbage);
  void write_positions(Batch& batch);
  void apply(const Flight& flight);
  void complete_allocation(const Batch& batch);
  void keep_buffers(Batch& batch);

  // append.cc
  /// Appends a record in as many parts as it needs; `facts` of an envelope go to the index. After no_space and
  /// too_large nothing was written.
  template <class Body>
  Result<Position> put(Log& log, RecordType type, const Body& body, const EnvelopeView* facts = nullptr) {
    const std::size_t size = encoded_size(body);
    if (size > kMaxChain) return fail(QueueLogError::too_large);
    if (!can_append(log, size)) return fail(QueueLogError::no_space);
    if (size > max_body(options.segment_size)) return put_parts(log, type, as_bytes(encode(body)), facts);
    // Mostly it is encoded where it is written from.
    make_room(log, size);
    const Position at{log.uses.back(), log.cursor};
    const std::size_t start = begin_record(log.pending);
    encode_to(log.pending, body);
    end_piece(log, start, type, kFirstPart | kLastPart);
    if (facts != nullptr) add_index(log, at.offset, *facts, false);
    return at;
  }
  Result<Position> put_envelope(Log& log, const EnvelopeView& body);
  Position put_parts(Log& log, RecordType type, Bytes body, const EnvelopeView* facts);
  void make_room(Log& log, std::size_t body);
  void end_piece(Log& log, std::size_t start, RecordType type, int flags);
  void add_index(Log& log, std::uint32_t offset, const EnvelopeView& body, bool in_parts);
  void flush_index(Log& log, bool sealed);

  // queue_log.cc
  void note_fresh(const Position& position);

  // hold.cc
  Result<void> sweep_hold();
  Result<bool> read_held(std::size_t budget);
  Result<bool> move_held(const LogReader::Record& record);
  HoldCompaction compaction;

  // runner.cc
  void mark_later(const Position& envelope, const Position& because, bool worked_on = false);
  void drop_marks(const std::set<SegmentUse>& uses);
  void close_start(const Working& work);
  void pass_fresh(const Position& started);
  Result<void> settle_moves(Log& log);
  bool on_its_way(std::string_view queue_id, const Position& version) const;
  std::optional<Position> outdone_by(std::string_view queue_id, std::uint32_t record_epoch) const;
  Result<Position> begin(std::string_view queue_id, const Place& place, std::uint64_t bytes, std::uint32_t generation,
                         std::uint32_t record_epoch);
  SegmentSource segments_of(const Log& log) const;
  Result<bool> garbage_on_disk(const Position& position);
  Stored stored(const Place& place, std::uint32_t record_epoch, EnvelopeBody body) const;
  /// The interval a version waits for; 0 in the journal and the hold log.
  seconds interval_of(const Log& log, std::uint32_t recorded) const;
  WallTime due(const Log& log, const Position& at, seconds interval, WallTime appended, WallTime now) const;
  Result<Stored> read(const Place& place);
  Result<Position> replace(std::string_view queue_id, const Working& work, Log& into, const Envelope& replacement,
                           seconds interval = seconds(0));
};

/// It points into the envelope.
EnvelopeView make_body(const Envelope& envelope, std::uint32_t generation, WallTime appended, const Position& replaces);
EnvelopeView view_of(const EnvelopeBody& body);

}  // namespace pen::queue_log
