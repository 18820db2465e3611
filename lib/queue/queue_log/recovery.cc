#include "lib/queue/queue_log/recovery.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/codec.h"
#include "lib/queue/queue_log/breakage.h"
#include "lib/queue/queue_log/state.h"

namespace pen::queue_log {
namespace {

/// Segments of the reserve for restarts one after the other, each of which writes to a fresh one before what the last
/// one left can be given back.
constexpr std::size_t kRestarts = 2;
constexpr std::size_t kMaxSpares = 14;

/// Bytes that the disk does not give back are damage, not an end: nullopt.
Result<bool> read_if_possible(Storage& storage, Slot slot, std::uint64_t offset, MutableBytes into) {
  auto got = storage.read(slot, offset, into);
  if (got) return true;
  if (got.error().is_errno(EIO)) return false;
  return std::unexpected(std::move(got).error());
}

/// Makes what the disk holds, and not what a dead process left in memory, the thing that is read.
Result<void> settle_slot(Storage& storage, Slot slot) {
  if (broken(Breakage::trust_page_cache)) return {};
  PEN_TRY(storage.sync(slot));
  return storage.drop_cache(slot);
}

std::unexpected<Error> refuse(Slot slot, std::uint32_t version) {
  // A new queue beside the old spool would take the bodies of the old one's messages for nobody's.
  return fail(QueueLogError::other_version,
              slot_name(slot) + " " + tell_other_version(version) +
                  " (start the program that wrote it, or set another queue_log_directory and another spool_directory)");
}

Result<std::optional<SavedPositions>> load_positions(Storage& storage, std::uint64_t size, bool& were_complete) {
  std::optional<SavedPositions> best;
  int written = 0;
  for (std::uint64_t copy = 0; copy < 2; ++copy) {
    if ((copy + 1) * kPositionsCopy > size) break;
    std::string bytes(24, '\0');
    MutableBytes head{reinterpret_cast<std::byte*>(bytes.data()), 24};
    PEN_TRY_ASSIGN(const bool begins, read_if_possible(storage, kPositionsSlot, copy * kPositionsCopy, head));
    if (!begins) {
      ++written;
      continue;
    }
    if (load_le<std::uint64_t>(head.data()) != 0) ++written;
    const auto body = load_le<std::uint64_t>(head.data() + 8);
    if (body > kPositionsCopy - 24) continue;
    bytes.resize(24 + body);
    PEN_TRY_ASSIGN(const bool whole, read_if_possible(storage, kPositionsSlot, copy * kPositionsCopy,
                                                      {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
    if (!whole) continue;
    if (const auto version = other_version_of_positions(as_bytes(bytes))) return refuse(kPositionsSlot, *version);
    auto positions = decode_positions(as_bytes(bytes));
    if (positions && (!best || positions->sequence > best->sequence)) best = std::move(positions);
  }
  // The first save of a queue may have been torn by a crash; from the second on one copy is always whole.
  were_complete = written == 2;
  return best;
}

struct FoundHeader {
  std::optional<SegmentHeader> header;
  bool damaged = false;  // there is something, and it is not the header of this slot
};
Result<FoundHeader> read_header(Storage& storage, Slot slot) {
  std::byte block[kDataStart] = {};
  FoundHeader found;
  for (std::uint32_t at = 0; at < kDataStart; at += kSectorSize) {
    PEN_TRY_ASSIGN(const bool read, read_if_possible(storage, slot, at, MutableBytes(block).subspan(at, kSectorSize)));
    found.damaged = found.damaged || !read;
  }
  if (const auto version = other_version_of_header(block)) return refuse(slot, *version);
  found.header = decode_segment_header(block);
  if (found.header && found.header->slot != slot) found.header.reset();  // a file copied over another
  if (found.header) {
    found.damaged = false;
  } else {
    // A crash leaves each copy whole, or as it was: zeros in a slot that was never used.
    for (const std::byte b : block) found.damaged = found.damaged || b != std::byte{0};
  }
  return found;
}

/// Where the log's runners were. Those of a shared log go on at their own places if the intervals are the ones they
/// were saved for; else a version may have come to another runner, and all begin where the last of them was.
void place_runners(QueueLog::State& s, const Log& log, const SavedLog& saved, const SavedPositions& positions) {
  std::vector<std::uint64_t> then, now;
  for (const SavedRunner& runner : positions.runners) then.push_back(runner.interval);
  s.runners.each(log, [&](LogRunner& runner) {
    runner.move_to(saved.runner);
    now.push_back(static_cast<std::uint64_t>(runner.interval().count()));
  });
  if (!log.shared() || then != now) return;
  auto next = positions.runners.begin();
  s.runners.each(log, [&](LogRunner& runner) { runner.move_to((next++)->at); });
}

using Slots = std::vector<Storage::SlotInfo>;

/// Before anything is written: one segment of another version, whatever the rest is, and the queue is not ours.
Result<std::map<Slot, FoundHeader>> read_headers(Storage& storage, const Slots& slots) {
  std::map<Slot, FoundHeader> headers;
  for (const auto& info : slots) {
    if (info.slot == kPositionsSlot || !info.usable) continue;
    PEN_TRY_ASSIGN(headers[info.slot], read_header(storage, info.slot));
  }
  return headers;
}

/// The newest restart positions that are whole, and room for the next ones.
Result<std::optional<SavedPositions>> open_positions(QueueLog::State& s, const Slots& slots) {
  const bool there = !slots.empty() && slots.front().slot == kPositionsSlot;
  if (there && !slots.front().usable) return fail(QueueLogError::io_error, "\"positions\" is not a file", EISDIR);
  std::optional<SavedPositions> saved;
  bool were_complete = false;
  if (there) {
    PEN_TRY(settle_slot(s.around.storage, kPositionsSlot));
    PEN_TRY_ASSIGN(saved, load_positions(s.around.storage, slots.front().size, were_complete));
  }
  const bool too_short = there && slots.front().size < 2 * kPositionsCopy;
  if (!there || too_short) PEN_TRY(s.around.storage.allocate(kPositionsSlot, 2 * kPositionsCopy));
  if (!saved && (were_complete || (too_short && slots.front().size > 0)))
    s.damage.note({kJournal,
                   kPositionsSlot,
                   0,
                   0,
                   2 * kPositionsCopy,
                   {},
                   "restart positions are unreadable: every segment is read"});
  return saved;
}

/// The journal, the hold log, one retry log or one per interval.
void add_configured_logs(QueueLog::State& s) {
  s.add_log(0, {seconds(0)});
  s.add_log(kHoldLog, {seconds(0)});
  if (s.around.options.retry_logs == RetryLogs::single) {
    s.add_log(kSharedRetryLog, s.around.options.intervals);
  } else {
    for (seconds interval : s.around.options.intervals) s.add_log(interval.count(), {interval});
  }
}

/// The log that a segment's header names; one of another configuration is added.
Log& log_for(QueueLog::State& s, std::int64_t disk_interval) {
  for (Log& log : s.logs)
    if (log.disk_interval() == disk_interval) return log;
  return disk_interval == kSharedRetryLog ? s.add_log(disk_interval, s.around.options.intervals)
                                          : s.add_log(disk_interval, {seconds(disk_interval)});
}

/// Finds out which slots are in use, and by what; the others are free, or kept for a person to look at.
class Survey {
 public:
  Survey(QueueLog::State& s, const std::optional<SavedPositions>& saved)
      : s_(s), saved_(saved), highest_use_(saved ? saved->next_use - 1 : 0), highest_epoch_(saved ? saved->epoch : 0) {
    if (!saved) return;
    for (const SavedSegment& segment : saved->segments) wanted_[segment.slot] = segment.use;
    for (const Slot slot : saved->damaged) s.pool.damaged().keep(slot);
  }

  /// `there`: of a slot that is usable.
  Result<void> look_at(const Storage::SlotInfo& info, const FoundHeader& there) {
    s_.pool.met(info.slot);
    if (!info.usable) {
      s_.damage.note({kJournal, info.slot, 0, 0, 0, {}, "its name is taken by something that is not a file"}, false);
      return {};
    }
    auto header = there.header;
    if (!header && info.size < s_.around.options.segment_size && !wanted_.contains(info.slot) &&
        (info.size < kDataStart || !there.damaged))
      return make_anew(info.slot);
    if (header && may_be_read(*header)) {
      PEN_TRY(settle_slot(s_.around.storage, info.slot));
      PEN_TRY_ASSIGN(const FoundHeader settled, read_header(s_.around.storage, info.slot));
      header = settled.header;
    }
    if (header && !saved_ && s_.pool.in_use().empty() && found_.empty()) s_.around.options.segment_size = header->size;
    // What is left of a file cut short is read.
    if (info.size < s_.around.options.segment_size)
      s_.damage.note({kJournal,
                      info.slot,
                      header ? header->use : 0,
                      info.size,
                      s_.around.options.segment_size - info.size,
                      {},
                      "the file was cut short"});
    if (header) {
      highest_use_ = std::max(highest_use_, header->use);
      highest_epoch_ = std::max(highest_epoch_, header->epoch);
    }
    sort_in(info.slot, header, there.damaged);
    return {};
  }

  /// Gives each log the segments that were found, and notes those that the positions name and nobody found.
  void attach() {
    std::sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.use < b.use; });
    for (const SegmentHeader& header : found_) {
      Log& log = log_for(s_, header.interval);
      if (s_.pool.adopt(header, log.id())) log.adopt(header.use);
    }
    if (!saved_) return;
    for (const SavedSegment& segment : saved_->segments)
      if (!s_.pool.in_use().contains(segment.use))
        s_.damage.note(
            {kJournal, segment.slot, segment.use, 0, s_.around.options.segment_size, {}, "the segment is missing"});
  }

  std::uint64_t highest_use() const { return highest_use_; }
  std::uint32_t highest_epoch() const { return highest_epoch_; }

 private:
  /// A crash came while the file was made.
  Result<void> make_anew(Slot slot) {
    auto made = s_.around.storage.allocate(slot, s_.around.options.segment_size);
    if (!made && !made.error().is_errno(ENOSPC) && !made.error().is_errno(EDQUOT)) return made;
    if (made) s_.pool.add_free(slot);
    return {};
  }
  bool newer_than_positions(const SegmentHeader& header) const { return !saved_ || header.use >= saved_->next_use; }
  bool listed(const SegmentHeader& header, Slot slot) const {
    const auto& segments = saved_->segments;
    const auto it = std::lower_bound(segments.begin(), segments.end(), header.use,
                                     [](const SavedSegment& a, std::uint64_t u) { return a.use < u; });
    if (it != segments.end()) return it->use == header.use && it->slot == slot;
    // Behind the last listed one: the list was cut.
    return segments.size() >= 10000;
  }
  bool last_of_its_log(const SegmentHeader& header) const {
    for (const SavedLog& log : saved_->logs)
      if (log.interval == header.interval) return header.use >= log.end.use;
    return true;
  }
  /// By recovery, which has to see what the disk holds.
  bool may_be_read(const SegmentHeader& header) const {
    return newer_than_positions(header) || (listed(header, header.slot) && last_of_its_log(header));
  }
  void sort_in(Slot slot, const std::optional<SegmentHeader>& header, bool damaged) {
    const bool in_use = header && header->size == s_.around.options.segment_size &&
                        (newer_than_positions(*header) || listed(*header, slot));
    const auto expected = wanted_.find(slot);
    if (in_use) {
      found_.push_back(*header);
      return;
    }
    if (expected != wanted_.end() || (!header && damaged)) {
      // It held something that is needed, or that nobody understands: not ours to write over.
      s_.damage.note({kJournal,
                      slot,
                      expected == wanted_.end() ? 0 : expected->second,
                      0,
                      s_.around.options.segment_size,
                      {},
                      "the segment's header is unreadable"});
    }
    if (!s_.pool.damaged().put_aside(slot)) s_.pool.add_free(slot);
  }

  QueueLog::State& s_;
  const std::optional<SavedPositions>& saved_;
  std::uint64_t highest_use_;
  std::uint32_t highest_epoch_;
  std::vector<SegmentHeader> found_;
  std::map<Slot, std::uint64_t> wanted_;  // the uses that the positions list, by slot
};

/// Whether a segment holds no record.
Result<bool> is_empty(Storage& storage, const SegmentHeader& header) {
  SegmentReader reader(storage, header, kDataStart, SegmentReader::Search::whole);
  auto got = SegmentReader::Got::more;
  while (got == SegmentReader::Got::more || got == SegmentReader::Got::hole) {
    PEN_TRY_ASSIGN(got, reader.next());
  }
  return got != SegmentReader::Got::record;
}

/// Segments that a crash left with a header and no record: nothing in them was ever acknowledged. Looked for only when
/// a restart has nothing else, because it reads whole segments. `since`: the first use that the positions do not know.
Result<void> recycle_empty(QueueLog::State& s, SegmentUse since) {
  std::vector<SegmentUse> empty;
  for (const auto& [use, segment] : s.pool.in_use()) {
    if (use < since) continue;
    PEN_TRY_ASSIGN(const bool nothing, is_empty(s.around.storage, segment.header));
    if (nothing && !s.pool.damaged().contains(segment.header.slot)) empty.push_back(use);
  }
  for (const SegmentUse use : empty) {
    s.logs[s.pool.in_use().at(use).log].drop(use);
    s.pool.recycle(use);
  }
  return {};
}

/// Before any mail is taken: the reserve has to be there first. A full disk is no error: new mail waits. `since`: the
/// first use that the positions do not know.
Result<void> fill_pool(QueueLog::State& s, std::size_t writable_logs, SegmentUse since) {
  const Options& options = s.around.options;
  const std::size_t room = s.pool.per_segment();
  const std::size_t reserve = writable_logs + kRestarts + static_cast<std::size_t>((options.reserve + room - 1) / room);
  // What is gathered while a commit is in hand must not eat into the reserve.
  PEN_TRY(s.pool.fill(reserve, 2 + std::min<std::size_t>(options.max_batch / options.segment_size, kMaxSpares)));
  if (s.pool.free() == 0) PEN_TRY(recycle_empty(s, since));
  if (s.pool.free() != 0) return {};
  return fail(QueueLogError::no_space,
              "no segment is free: " + std::to_string(2 * std::uint64_t{s.around.options.segment_size}) +
                  " bytes of disk space are needed to start (damaged-segment-* may be moved away)",
              ENOSPC);
}

/// What recovery is to read of each log: from its saved end on, of the journal the working suffix.
std::unique_ptr<RecoveryState> plan_reading(QueueLog::State& s, const std::optional<SavedPositions>& saved) {
  auto recovering = std::make_unique<RecoveryState>();
  recovering->suffix = saved ? saved->suffix : Position{};
  for (Log& log : s.logs) {
    RecoveryState::Source source;
    source.log = log.id();
    if (saved)
      for (const SavedLog& p : saved->logs)
        if (p.interval == log.disk_interval()) {
          place_runners(s, log, p, *saved);
          source.saved_end = p.end;
          source.from = log.id() == kJournal ? saved->suffix : p.end;
        }
    for (const SegmentUse use : log.uses())
      if (use >= source.from.use) source.segments.push_back(s.pool.in_use().at(use).header);
    log.durable_to = log.written_to = log.end();
    if (source.segments.empty()) continue;
    for (const SegmentHeader& header : source.segments)
      if (header.use != source.from.use || source.from.offset <= kDataStart) recovering->read_whole[header.use] = true;
    source.reader = std::make_unique<LogReader>(s.around.storage, source.found(), source.from, Position{},
                                                SegmentReader::Search::window);
    recovering->sources.push_back(std::move(source));
  }
  return recovering;
}

}  // namespace

SegmentSource RecoveryState::Source::found() const {
  // A copy: sources move, and the log goes on with segments that are not to be read here.
  return [all = std::make_shared<const std::vector<SegmentHeader>>(segments)](
             SegmentUse use) -> std::optional<SegmentHeader> {
    const auto it =
        std::lower_bound(all->begin(), all->end(), use, [](const SegmentHeader& h, SegmentUse u) { return h.use < u; });
    return it == all->end() ? std::nullopt : std::optional(*it);
  };
}

Result<void> open_recovery(QueueLog::State& s) {
  PEN_TRY_ASSIGN(auto slots, s.around.storage.list());
  std::sort(slots.begin(), slots.end(), [](const auto& a, const auto& b) { return a.slot < b.slot; });
  PEN_TRY_ASSIGN(auto headers, read_headers(s.around.storage, slots));
  PEN_TRY_ASSIGN(const auto saved, open_positions(s, slots));
  s.report.positions_found = saved.has_value();
  // The size of segments in use cannot change under them.
  if (saved) s.around.options.segment_size = saved->segment_size;
  add_configured_logs(s);
  const std::size_t writable_logs = s.logs.size();

  Survey survey(s, saved);
  for (const auto& info : slots)
    if (info.slot != kPositionsSlot) PEN_TRY(survey.look_at(info, headers[info.slot]));
  survey.attach();
  // What is not there need not be remembered.
  const std::set<Slot> damaged = s.pool.damaged().all();
  for (const Slot slot : damaged)
    if (std::none_of(slots.begin(), slots.end(), [&](const auto& info) { return info.slot == slot && info.usable; }))
      s.pool.damaged().forget(slot);

  s.around.epoch = survey.highest_epoch() + 1;
  // A crash may lose a segment's header and keep, elsewhere, a record that names a position in it: no number of a use
  // may come twice, so each epoch numbers in a range of its own.
  const SegmentUse next = survey.highest_use() + 1;
  s.pool.number_from(broken(Breakage::use_numbers_again) ? next : std::max(next, std::uint64_t{s.around.epoch} << 32));
  s.positions.go_on_from(saved ? saved->sequence : 0);
  PEN_TRY(fill_pool(s, writable_logs, saved ? saved->next_use : 0));
  s.report.epoch = s.around.epoch;
  s.report.segment_size = s.around.options.segment_size;
  s.report.segments = s.pool.in_use().size();
  s.recovering = plan_reading(s, saved);
  return {};
}

Result<void> append_after_torn_tail(QueueLog::State& s) {
  Log& journal = s.logs.journal();
  if (journal.uses().empty()) return {};
  const SegmentHeader header = s.pool.in_use().at(journal.uses().back()).header;
  SegmentReader reader(s.around.storage, header, kDataStart, SegmentReader::Search::window);
  for (;;) {
    PEN_TRY_ASSIGN(const auto got, reader.next());
    if (got == SegmentReader::Got::end || got == SegmentReader::Got::hole) break;
  }
  if (reader.sealed() || reader.tail_start() > header.size / 2) return {};
  journal.reopen(reader.hole_bytes() != 0 ? reader.hole_start() : reader.tail_start());
  s.recovering->sources.erase(s.recovering->sources.begin());
  return {};
}

namespace {

/// Reads the logs on until `used` reaches the budget. true: to their end.
Result<bool> read_logs(RecoveryState& r, QueueLog::State& s, std::uint64_t& used, std::size_t budget) {
  while (r.source < r.sources.size() && used < budget) {
    auto& source = r.sources[r.source];
    const auto before = source.reader->bytes_read();
    PEN_TRY_ASSIGN(const auto got, source.reader->next());
    used += source.reader->bytes_read() - before + 64;
    s.report.bytes_read += source.reader->bytes_read() - before;
    switch (got) {
      case LogReader::Got::end:
        if (source.reader->at() < source.saved_end && !source.segments.empty() &&
            source.saved_end.use <= source.segments.back().use)
          s.damage.note({source.log,
                         s.pool.slot_of(source.saved_end.use),
                         source.saved_end.use,
                         source.reader->at().offset,
                         source.saved_end.offset,
                         {},
                         "synced records are missing at the end"});
        s.damage.note_unfinished(*source.reader);
        ++r.source;
        break;
      case LogReader::Got::more:
        break;
      case LogReader::Got::hole: {
        const auto& hole = source.reader->hole();
        s.damage.note_hole(hole, source.log);
        if (!hole.damage && source.log == kJournal) r.torn_epoch = hole.segment.epoch;
        break;
      }
      case LogReader::Got::record:
        ++s.report.records;
        take_record(r, s, *source.reader, source.log);
        break;
    }
  }
  return r.source == r.sources.size();
}

/// Decides about the messages that were met until `used` reaches the budget. true: about all. false as well while no
/// segment is free: it goes on when one is.
Result<bool> resolve_messages(RecoveryState& r, QueueLog::State& s, std::uint64_t& used, std::size_t budget) {
  if (!r.resolving) {
    r.resolving = true;
    PEN_TRY(choose_segments_to_empty(r, s));
  }
  const std::uint64_t appended = s.around.figures.appended_bytes;
  for (; r.next < r.seen.in_order().size(); ++r.next) {
    if (used + (s.around.figures.appended_bytes - appended) >= budget) return false;
    if (s.logs.journal().pending() > s.around.options.max_batch) return false;
    used += 64;
    auto done = resolve_message(r, s, *r.seen.in_order()[r.next]);
    if (!done && done.error().is(QueueLogError::no_space)) {
      s.report.waits_for_space = true;
      return false;
    }
    if (!done) return std::unexpected(std::move(done).error());
  }
  return true;
}

/// What recovery read from the journal need not be read by the runner.
void pass_what_was_read(const RecoveryState& r, QueueLog::State& s) {
  LogRunner& runner = s.runners[kJournal];
  if (runner.at() < r.suffix) return;
  Position first = s.fresh.read_to();
  for (const auto* seen : r.seen.in_order())
    for (const auto& copy : seen->copies) {
      const Segment* segment = s.pool.find(copy.position.use);
      if (!copy.garbage && segment != nullptr && segment->log == kJournal && !s.marks.dead(copy.position))
        first = std::min(first, copy.position);
    }
  runner.move_to(std::max(runner.at(), first));
}

/// Segments that were read whole and hold nothing that lives.
void give_back_segments(const RecoveryState& r, QueueLog::State& s) {
  std::set<SegmentUse> given_back;
  for (const auto& [use, whole] : r.read_whole) {
    const Segment* segment = s.pool.find(use);
    if (segment == nullptr || r.live.contains(use) || segment->pins != 0) continue;
    Log& log = s.logs[segment->log];
    if (log.filling(use)) continue;
    given_back.insert(use);
    log.drop(use);
    s.pool.condemn(use);
  }
  s.marks.drop(given_back);
}

}  // namespace

Recovery QueueLog::State::stage() const {
  if (lanes.settled()) return Recovery::done;
  return recovering->resolved ? Recovery::settling : Recovery::reading;
}

Recovery QueueLog::Restart::stage() const { return state_->stage(); }

const RecoveryReport& QueueLog::Restart::report() const { return state_->report; }

Result<Recovery> QueueLog::Restart::step(std::size_t budget) {
  State& s = *state_;
  if (s.around.failed) return fail(QueueLogError::io_error);
  if (s.stage() != Recovery::reading) return s.stage();
  RecoveryState& r = *s.recovering;
  s.report.waits_for_space = false;
  std::uint64_t used = 0;
  const auto all_read = read_logs(r, s, used, budget);
  if (!all_read) {
    s.around.failed = true;
    return fail(QueueLogError::io_error, all_read.error().message(), all_read.error().sys_errno());
  }
  if (!*all_read) return Recovery::reading;
  auto all_resolved = resolve_messages(r, s, used, budget);
  if (!all_resolved) {
    s.around.failed = true;
    return std::unexpected(std::move(all_resolved).error());
  }
  if (!*all_resolved) return Recovery::reading;
  pass_what_was_read(r, s);
  give_back_segments(r, s);
  r.resolved = true;
  s.positions.settle_after(r.sent_again);
  return Recovery::settling;
}

}  // namespace pen::queue_log
