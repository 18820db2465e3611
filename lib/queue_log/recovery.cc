#include "lib/queue_log/recovery.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/codec.h"
#include "lib/queue_log/breakage.h"
#include "lib/queue_log/state.h"

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
                  " (start the program that wrote it, or set another queue_log_directory and "
                  "another spool_directory)");
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
  s.each_runner(log.id, [&](Runner& runner) {
    runner.at = saved.runner;
    now.push_back(static_cast<std::uint64_t>(runner.interval.count()));
  });
  if (!log.shared() || then != now) return;
  auto next = positions.runners.begin();
  s.each_runner(log.id, [&](Runner& runner) { runner.at = (next++)->at; });
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
    PEN_TRY(settle_slot(s.storage, kPositionsSlot));
    PEN_TRY_ASSIGN(saved, load_positions(s.storage, slots.front().size, were_complete));
  }
  const bool too_short = there && slots.front().size < 2 * kPositionsCopy;
  if (!there || too_short) PEN_TRY(s.storage.allocate(kPositionsSlot, 2 * kPositionsCopy));
  if (!saved && (were_complete || (too_short && slots.front().size > 0)))
    s.note({kJournal,
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
  if (s.options.retry_logs == RetryLogs::single) {
    s.add_log(kSharedRetryLog, s.options.intervals);
  } else {
    for (seconds interval : s.options.intervals) s.add_log(interval.count(), {interval});
  }
  s.writable_logs = s.logs.size();
}

/// The log that a segment's header names; one of another configuration is added.
Log& log_for(QueueLog::State& s, std::int64_t disk_interval) {
  for (Log& log : s.logs)
    if (log.disk_interval == disk_interval) return log;
  return disk_interval == kSharedRetryLog ? s.add_log(disk_interval, s.options.intervals)
                                          : s.add_log(disk_interval, {seconds(disk_interval)});
}

/// Finds out which slots are in use, and by what; the others are free, or kept for a person to look at.
class Survey {
 public:
  Survey(QueueLog::State& s, const std::optional<SavedPositions>& saved)
      : s_(s), saved_(saved), highest_use_(saved ? saved->next_use - 1 : 0), highest_epoch_(saved ? saved->epoch : 0) {
    if (!saved) return;
    for (const SavedSegment& segment : saved->segments) wanted_[segment.slot] = segment.use;
    s.damaged.insert(saved->damaged.begin(), saved->damaged.end());
  }

  /// `there`: of a slot that is usable.
  Result<void> look_at(const Storage::SlotInfo& info, const FoundHeader& there) {
    s_.last_slot = std::max(s_.last_slot, info.slot);
    if (!info.usable) {
      s_.note({kJournal, info.slot, 0, 0, 0, {}, "its name is taken by something that is not a file"}, false);
      return {};
    }
    auto header = there.header;
    if (!header && info.size < s_.options.segment_size && !wanted_.contains(info.slot) &&
        (info.size < kDataStart || !there.damaged))
      return make_anew(info.slot);
    if (header && may_be_read(*header)) {
      PEN_TRY(settle_slot(s_.storage, info.slot));
      PEN_TRY_ASSIGN(const FoundHeader settled, read_header(s_.storage, info.slot));
      header = settled.header;
    }
    if (header && !saved_ && s_.segments.empty() && found_.empty()) s_.options.segment_size = header->size;
    // What is left of a file cut short is read.
    if (info.size < s_.options.segment_size)
      s_.note({kJournal,
               info.slot,
               header ? header->use : 0,
               info.size,
               s_.options.segment_size - info.size,
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
      if (!s_.segments.emplace(header.use, Segment{header, log.id, 0}).second) continue;
      log.uses.push_back(header.use);
    }
    if (!saved_) return;
    for (const SavedSegment& segment : saved_->segments)
      if (!s_.segments.contains(segment.use))
        s_.note({kJournal, segment.slot, segment.use, 0, s_.options.segment_size, {}, "the segment is missing"});
  }

  std::uint64_t highest_use() const { return highest_use_; }
  std::uint32_t highest_epoch() const { return highest_epoch_; }

 private:
  /// A crash came while the file was made.
  Result<void> make_anew(Slot slot) {
    auto made = s_.storage.allocate(slot, s_.options.segment_size);
    if (!made && !made.error().is_errno(ENOSPC) && !made.error().is_errno(EDQUOT)) return made;
    if (made) s_.free.push_back(slot);
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
    const bool in_use =
        header && header->size == s_.options.segment_size && (newer_than_positions(*header) || listed(*header, slot));
    const auto expected = wanted_.find(slot);
    if (in_use) {
      found_.push_back(*header);
      return;
    }
    if (expected != wanted_.end() || (!header && damaged)) {
      // It held something that is needed, or that nobody understands: not ours to write over.
      s_.note({kJournal,
               slot,
               expected == wanted_.end() ? 0 : expected->second,
               0,
               s_.options.segment_size,
               {},
               "the segment's header is unreadable"});
    }
    if (!s_.keep_aside(slot)) s_.free.push_back(slot);
  }

  QueueLog::State& s_;
  const std::optional<SavedPositions>& saved_;
  std::uint64_t highest_use_;
  std::uint32_t highest_epoch_;
  std::vector<SegmentHeader> found_;
  std::map<Slot, std::uint64_t> wanted_;  // the uses that the positions list, by slot
};

void size_pool(QueueLog::State& s) {
  s.reserve_segments = s.writable_logs + kRestarts +
                       static_cast<std::size_t>((s.options.reserve + s.per_segment() - 1) / s.per_segment());
  // What is gathered while a commit is in hand must not eat into the reserve.
  s.spare_segments = 2 + std::min<std::size_t>(s.options.max_batch / s.options.segment_size, kMaxSpares);
}

/// What recovery is to read of each log: from its saved end on, of the journal the working suffix.
std::unique_ptr<RecoveryState> plan_reading(QueueLog::State& s, const std::optional<SavedPositions>& saved) {
  auto recovering = std::make_unique<RecoveryState>();
  recovering->suffix = saved ? saved->suffix : Position{};
  for (Log& log : s.logs) {
    RecoveryState::Source source;
    source.log = log.id;
    if (saved)
      for (const SavedLog& p : saved->logs)
        if (p.interval == log.disk_interval) {
          place_runners(s, log, p, *saved);
          source.saved_end = p.end;
          source.from = log.id == kJournal ? saved->suffix : p.end;
        }
    for (const SegmentUse use : log.uses)
      if (use >= source.from.use) source.segments.push_back(s.segments.at(use).header);
    log.durable_to = log.written_to = log.end();
    if (source.segments.empty()) continue;
    for (const SegmentHeader& header : source.segments)
      if (header.use != source.from.use || source.from.offset <= kDataStart) recovering->read_whole[header.use] = true;
    source.reader =
        std::make_unique<LogReader>(s.storage, source.found(), source.from, Position{}, SegmentReader::Search::window);
    recovering->sources.push_back(std::move(source));
  }
  return recovering;
}

}  // namespace

SegmentSource RecoveryState::Source::found() const {
  // A copy: sources move, and the log goes on with segments that are not to be read here.
  return [all = std::make_shared<const std::vector<SegmentHeader>>(segments)](
             SegmentUse from) -> std::optional<SegmentHeader> {
    const auto it = std::lower_bound(all->begin(), all->end(), from,
                                     [](const SegmentHeader& h, SegmentUse u) { return h.use < u; });
    return it == all->end() ? std::nullopt : std::optional(*it);
  };
}

Result<void> open_recovery(QueueLog::State& s, RecoveryReport& report) {
  PEN_TRY_ASSIGN(auto slots, s.storage.list());
  std::sort(slots.begin(), slots.end(), [](const auto& a, const auto& b) { return a.slot < b.slot; });
  PEN_TRY_ASSIGN(auto headers, read_headers(s.storage, slots));
  PEN_TRY_ASSIGN(const auto saved, open_positions(s, slots));
  report.positions_found = saved.has_value();
  // The size of segments in use cannot change under them.
  if (saved) s.options.segment_size = saved->segment_size;
  add_configured_logs(s);

  Survey survey(s, saved);
  for (const auto& info : slots)
    if (info.slot != kPositionsSlot) PEN_TRY(survey.look_at(info, headers[info.slot]));
  survey.attach();
  // What is not there need not be remembered.
  std::erase_if(s.damaged, [&](Slot slot) {
    return std::none_of(slots.begin(), slots.end(), [&](const auto& info) { return info.slot == slot && info.usable; });
  });

  s.epoch = survey.highest_epoch() + 1;
  // A crash may lose a segment's header and keep, elsewhere, a record that names a position in it: no number of a use
  // may come twice, so each epoch numbers in a range of its own.
  s.next_use = broken(Breakage::use_numbers_again) ? survey.highest_use() + 1
                                                   : std::max(survey.highest_use() + 1, std::uint64_t{s.epoch} << 32);
  s.first_use = s.next_use;
  s.positions_sequence = saved ? saved->sequence : 0;
  s.saved_next_use = saved ? saved->next_use : 0;
  size_pool(s);
  PEN_TRY(s.fill_pool());
  report.epoch = s.epoch;
  report.segment_size = s.options.segment_size;
  report.segments = s.segments.size();
  s.recovering = plan_reading(s, saved);
  return {};
}

Result<void> append_after_torn_tail(QueueLog::State& s) {
  Log& journal = s.logs[kJournal];
  if (journal.uses.empty()) return {};
  const SegmentHeader header = s.segments.at(journal.uses.back()).header;
  SegmentReader reader(s.storage, header, kDataStart, SegmentReader::Search::window);
  for (;;) {
    PEN_TRY_ASSIGN(const auto got, reader.next());
    if (got == SegmentReader::Got::end || got == SegmentReader::Got::hole) break;
  }
  if (reader.sealed() || reader.tail_start() > header.size / 2) return {};
  journal.open = true;
  journal.cursor = journal.taken = journal.durable_offset =
      reader.hole_bytes() != 0 ? reader.hole_start() : reader.tail_start();
  s.recovering->sources.erase(s.recovering->sources.begin());
  return {};
}

namespace {

/// Reads the logs on until `used` reaches the budget. true: to their end.
Result<bool> read_logs(RecoveryState& r, QueueLog::State& s, RecoveryReport& report, std::uint64_t& used,
                       std::size_t budget) {
  while (r.source < r.sources.size() && used < budget) {
    auto& source = r.sources[r.source];
    const auto before = source.reader->bytes_read();
    PEN_TRY_ASSIGN(const auto got, source.reader->next());
    used += source.reader->bytes_read() - before + 64;
    report.bytes_read += source.reader->bytes_read() - before;
    switch (got) {
      case LogReader::Got::end:
        if (source.reader->at() < source.saved_end && !source.segments.empty() &&
            source.saved_end.use <= source.segments.back().use)
          s.note({source.log,
                  s.slot_of(source.saved_end.use),
                  source.saved_end.use,
                  source.reader->at().offset,
                  source.saved_end.offset,
                  {},
                  "synced records are missing at the end"});
        s.note_unfinished(*source.reader);
        ++r.source;
        break;
      case LogReader::Got::more:
        break;
      case LogReader::Got::hole: {
        const auto& hole = source.reader->hole();
        s.note_hole(hole, source.log);
        if (!hole.damage && source.log == kJournal) r.torn_epoch = hole.segment.epoch;
        break;
      }
      case LogReader::Got::record:
        ++report.records;
        take_record(r, s, *source.reader, source.log);
        break;
    }
  }
  return r.source == r.sources.size();
}

/// Decides about the messages that were met until `used` reaches the budget. true: about all. false as well while no
/// segment is free: it goes on when one is.
Result<bool> resolve_messages(RecoveryState& r, QueueLog::State& s, RecoveryReport& report, std::uint64_t& used,
                              std::size_t budget) {
  if (!r.resolving) {
    r.resolving = true;
    PEN_TRY(choose_segments_to_empty(r, s));
  }
  const std::uint64_t appended = s.figures.appended_bytes;
  for (; r.next < r.seen.in_order().size(); ++r.next) {
    if (used + (s.figures.appended_bytes - appended) >= budget) return false;
    if (s.logs[kJournal].pending.size() > s.options.max_batch) return false;
    used += 64;
    auto done = resolve_message(r, s, *r.seen.in_order()[r.next], report);
    if (!done && done.error().is(QueueLogError::no_space)) {
      report.waits_for_space = true;
      return false;
    }
    if (!done) return std::unexpected(std::move(done).error());
  }
  return true;
}

/// What recovery read from the journal need not be read by the runner.
void pass_what_was_read(const RecoveryState& r, QueueLog::State& s) {
  Position& at = s.runners[kJournal].at;
  if (at < r.suffix) return;
  Position first = s.scan_end;
  for (const auto* seen : r.seen.in_order())
    for (const auto& copy : seen->copies)
      if (!copy.garbage && s.segments.contains(copy.position.use) && s.segments.at(copy.position.use).log == kJournal &&
          !s.dead.contains(copy.position))
        first = std::min(first, copy.position);
  at = std::max(at, first);
}

/// Segments that were read whole and hold nothing that lives.
void give_back_segments(const RecoveryState& r, QueueLog::State& s) {
  std::set<SegmentUse> given_back;
  for (const auto& [use, whole] : r.read_whole) {
    const auto it = s.segments.find(use);
    if (it == s.segments.end() || r.live.contains(use) || it->second.pins != 0) continue;
    Log& log = s.logs[it->second.log];
    if (log.open && log.uses.back() == use) continue;
    given_back.insert(use);
    s.condemned.push_back(it->second.header.slot);
    log.uses.erase(std::find(log.uses.begin(), log.uses.end(), use));
    s.segments.erase(it);
  }
  s.drop_marks(given_back);
}

}  // namespace

Result<Recovery> QueueLog::recover_step(std::size_t budget) {
  if (failed_) return fail(QueueLogError::io_error);
  if (recovery_ != Recovery::reading) return recovery_;
  State& s = *state_;
  RecoveryState& r = *s.recovering;
  report_.waits_for_space = false;
  std::uint64_t used = 0;
  const auto all_read = read_logs(r, s, report_, used, budget);
  if (!all_read) {
    failed_ = true;
    return fail(QueueLogError::io_error, all_read.error().message(), all_read.error().sys_errno());
  }
  if (!*all_read) return recovery_;
  auto all_resolved = resolve_messages(r, s, report_, used, budget);
  if (!all_resolved) {
    failed_ = true;
    return std::unexpected(std::move(all_resolved).error());
  }
  if (!*all_resolved) return recovery_;
  pass_what_was_read(r, s);
  give_back_segments(r, s);
  s.settle_wanted = true;
  recovery_ = Recovery::settling;
  return recovery_;
}

}  // namespace pen::queue_log
