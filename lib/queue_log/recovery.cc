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
Result<bool> read_if_possible(Storage& storage, Slot slot, std::uint64_t offset,
                              MutableBytes into) {
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

Result<std::optional<SavedPositions>> load_positions(Storage& storage, std::uint64_t size,
                                                     bool& were_complete) {
  std::optional<SavedPositions> best;
  int written = 0;
  for (std::uint64_t copy = 0; copy < 2; ++copy) {
    if ((copy + 1) * kPositionsCopy > size) break;
    std::string bytes(24, '\0');
    MutableBytes head{reinterpret_cast<std::byte*>(bytes.data()), 24};
    PEN_TRY_ASSIGN(const bool begins,
                   read_if_possible(storage, kPositionsSlot, copy * kPositionsCopy, head));
    if (!begins) {
      ++written;
      continue;
    }
    if (load_le<std::uint64_t>(head.data()) != 0) ++written;
    const auto body = load_le<std::uint64_t>(head.data() + 8);
    if (body > kPositionsCopy - 24) continue;
    bytes.resize(24 + body);
    PEN_TRY_ASSIGN(const bool whole,
                   read_if_possible(storage, kPositionsSlot, copy * kPositionsCopy,
                                    {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
    if (!whole) continue;
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
    PEN_TRY_ASSIGN(const bool read, read_if_possible(storage, slot, at,
                                                     MutableBytes(block).subspan(at, kSectorSize)));
    found.damaged = found.damaged || !read;
  }
  found.header = decode_segment_header(block);
  if (found.header && found.header->slot != slot)
    found.header.reset();  // a file copied over another
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
void place_runners(QueueLog::State& s, const Log& log, const SavedLog& saved,
                   const SavedPositions& positions) {
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

}  // namespace

SegmentSource RecoveryState::Source::found() const {
  // A copy: sources move, and the log goes on with segments that are not to be read here.
  return [all = std::make_shared<const std::vector<SegmentHeader>>(segments)](
             SegmentUse from) -> std::optional<SegmentHeader> {
    const auto it =
        std::lower_bound(all->begin(), all->end(), from,
                         [](const SegmentHeader& h, SegmentUse u) { return h.use < u; });
    return it == all->end() ? std::nullopt : std::optional(*it);
  };
}

Result<void> open_recovery(QueueLog::State& s, RecoveryReport& report) {
  PEN_TRY_ASSIGN(auto slots, s.storage.list());
  std::sort(slots.begin(), slots.end(),
            [](const auto& a, const auto& b) { return a.slot < b.slot; });
  const bool have_positions_file = !slots.empty() && slots.front().slot == kPositionsSlot;
  std::optional<SavedPositions> saved;
  bool were_complete = false;
  if (have_positions_file && !slots.front().usable)
    return fail(QueueLogError::io_error, "\"positions\" is not a file", EISDIR);
  if (have_positions_file) {
    PEN_TRY(settle_slot(s.storage, kPositionsSlot));
    PEN_TRY_ASSIGN(saved, load_positions(s.storage, slots.front().size, were_complete));
  }
  const bool positions_short = have_positions_file && slots.front().size < 2 * kPositionsCopy;
  if (!have_positions_file || positions_short)
    PEN_TRY(s.storage.allocate(kPositionsSlot, 2 * kPositionsCopy));
  report.positions_found = saved.has_value();
  if (!saved && (were_complete || (positions_short && slots.front().size > 0)))
    s.note({kJournal,
            kPositionsSlot,
            0,
            0,
            2 * kPositionsCopy,
            {},
            "restart positions are unreadable: every segment is read"});
  if (saved && saved->segment_size != s.options.segment_size) {
    // The size of segments in use cannot change under them.
    s.options.segment_size = saved->segment_size;
  }

  // Logs: the journal, the hold log, one or one per interval; then those of other configurations.
  s.add_log(0, {seconds(0)});
  s.add_log(kHoldLog, {seconds(0)});
  if (s.options.retry_logs == RetryLogs::single) {
    s.add_log(kSharedRetryLog, s.options.intervals);
  } else {
    for (seconds interval : s.options.intervals) s.add_log(interval.count(), {interval});
  }
  s.writable_logs = s.logs.size();
  auto log_for = [&](std::int64_t disk_interval) -> Log& {
    for (Log& log : s.logs)
      if (log.disk_interval == disk_interval) return log;
    return disk_interval == kSharedRetryLog ? s.add_log(disk_interval, s.options.intervals)
                                            : s.add_log(disk_interval, {seconds(disk_interval)});
  };

  // Which slots are in use, and by what.
  const std::uint64_t saved_next = saved ? saved->next_use : 0;
  auto listed = [&](std::uint64_t use, Slot slot) {
    const auto it =
        std::lower_bound(saved->segments.begin(), saved->segments.end(), use,
                         [](const SavedSegment& a, std::uint64_t u) { return a.use < u; });
    if (it != saved->segments.end()) return it->use == use && it->slot == slot;
    // Behind the last listed one: the list was cut.
    return saved->segments.size() >= 10000;
  };
  auto last_of_its_log = [&](std::uint64_t use, std::int64_t interval) {
    for (const SavedLog& log : saved->logs)
      if (log.interval == interval) return use >= log.end.use;
    return true;
  };
  std::uint64_t highest_use = saved ? saved->next_use - 1 : 0;
  std::uint32_t highest_epoch = saved ? saved->epoch : 0;
  std::vector<SegmentHeader> found;
  std::map<Slot, std::uint64_t> wanted;  // the uses that the positions list, by slot
  if (saved)
    for (const SavedSegment& segment : saved->segments) wanted[segment.slot] = segment.use;
  if (saved) s.damaged.insert(saved->damaged.begin(), saved->damaged.end());
  for (const auto& info : slots) {
    if (info.slot == kPositionsSlot) continue;
    s.last_slot = std::max(s.last_slot, info.slot);
    if (!info.usable) {
      s.note(
          {kJournal, info.slot, 0, 0, 0, {}, "its name is taken by something that is not a file"},
          false);
      continue;
    }
    PEN_TRY_ASSIGN(const FoundHeader there, read_header(s.storage, info.slot));
    auto header = there.header;
    if (!header && info.size < s.options.segment_size && !wanted.contains(info.slot) &&
        (info.size < kDataStart || !there.damaged)) {
      // A crash came while it was made.
      if (auto made = s.storage.allocate(info.slot, s.options.segment_size); made)
        s.free.push_back(info.slot);
      else if (!made.error().is_errno(ENOSPC) && !made.error().is_errno(EDQUOT))
        return made;
      continue;
    }
    if (header &&
        (!saved || header->use >= saved_next ||
         (listed(header->use, info.slot) && last_of_its_log(header->use, header->interval)))) {
      PEN_TRY(settle_slot(s.storage, info.slot));
      PEN_TRY_ASSIGN(const FoundHeader settled, read_header(s.storage, info.slot));
      header = settled.header;
    }
    if (header && !saved && s.segments.empty() && found.empty())
      s.options.segment_size = header->size;
    // What is left of a file cut short is read.
    if (info.size < s.options.segment_size)
      s.note({kJournal,
              info.slot,
              header ? header->use : 0,
              info.size,
              s.options.segment_size - info.size,
              {},
              "the file was cut short"});
    if (header) {
      highest_use = std::max(highest_use, header->use);
      highest_epoch = std::max(highest_epoch, header->epoch);
    }
    const bool in_use = header && header->size == s.options.segment_size &&
                        (!saved || header->use >= saved_next || listed(header->use, info.slot));
    const auto expected = wanted.find(info.slot);
    if (in_use) {
      found.push_back(*header);
    } else if (expected != wanted.end() || (!header && there.damaged)) {
      // It held something that is needed, or that nobody understands: not ours to write over.
      s.note({kJournal,
              info.slot,
              expected == wanted.end() ? 0 : expected->second,
              0,
              s.options.segment_size,
              {},
              "the segment's header is unreadable"});
    }
    if (!in_use && !s.keep_aside(info.slot)) s.free.push_back(info.slot);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.use < b.use; });
  for (const SegmentHeader& header : found) {
    Log& log = log_for(header.interval);
    if (!s.segments.emplace(header.use, Segment{header, log.id, 0}).second) continue;
    log.uses.push_back(header.use);
  }
  if (saved)
    for (const SavedSegment& segment : saved->segments)
      if (!s.segments.contains(segment.use))
        s.note({kJournal,
                segment.slot,
                segment.use,
                0,
                s.options.segment_size,
                {},
                "the segment is missing"});
  // What is not there need not be remembered.
  std::erase_if(s.damaged, [&](Slot slot) {
    return std::none_of(slots.begin(), slots.end(),
                        [&](const auto& info) { return info.slot == slot && info.usable; });
  });
  s.epoch = highest_epoch + 1;
  // A crash may lose a segment's header and keep, elsewhere, a record that names a position in it: no number of a use
  // may come twice, so each epoch numbers in a range of its own.
  s.next_use = broken(Breakage::use_numbers_again)
                   ? highest_use + 1
                   : std::max(highest_use + 1, std::uint64_t{s.epoch} << 32);
  s.positions_sequence = saved ? saved->sequence : 0;
  s.id_seed = s.random.next();
  s.saved_next_use = saved_next;
  s.reserve_segments =
      s.writable_logs + kRestarts +
      static_cast<std::size_t>((s.options.reserve + s.per_segment() - 1) / s.per_segment());
  // What is gathered while a commit is in hand must not eat into the reserve.
  s.spare_segments =
      2 + std::min<std::size_t>(s.options.max_batch / s.options.segment_size, kMaxSpares);
  PEN_TRY(s.fill_pool());
  report.epoch = s.epoch;
  report.segment_size = s.options.segment_size;
  report.segments = s.segments.size();

  // What is to be read.
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
      if (header.use != source.from.use || source.from.offset <= kDataStart)
        recovering->read_whole[header.use] = true;
    source.reader = std::make_unique<LogReader>(s.storage, source.found(), source.from, Position{},
                                                SegmentReader::Search::window);
    recovering->sources.push_back(std::move(source));
  }
  s.recovering = std::move(recovering);

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

Result<Recovery> QueueLog::recover_step(std::size_t budget) {
  if (failed_) return fail(QueueLogError::io_error);
  if (recovery_ != Recovery::reading) return recovery_;
  State& s = *state_;
  RecoveryState& r = *s.recovering;

  // Reading.
  std::uint64_t used = 0;
  while (r.source < r.sources.size() && used < budget) {
    auto& source = r.sources[r.source];
    const auto before = source.reader->bytes_read();
    const auto got = source.reader->next();
    if (!got) {
      failed_ = true;
      return fail(QueueLogError::io_error, got.error().message(), got.error().sys_errno());
    }
    used += source.reader->bytes_read() - before + 64;
    report_.bytes_read += source.reader->bytes_read() - before;
    if (*got == LogReader::Got::end) {
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
      continue;
    }
    if (*got == LogReader::Got::more) continue;
    if (*got == LogReader::Got::hole) {
      const auto& hole = source.reader->hole();
      s.note_hole(hole, source.log);
      if (!hole.damage && source.log == kJournal) r.torn_epoch = hole.segment.epoch;
      continue;
    }
    ++report_.records;
    take_record(r, s, *source.reader, source.log);
  }
  if (r.source < r.sources.size()) return recovery_;

  // Resolving.
  if (!r.resolving) {
    r.resolving = true;
    if (auto chosen = choose_segments_to_empty(r, s); !chosen) {
      failed_ = true;
      return std::unexpected(std::move(chosen).error());
    }
    r.next = r.seen.begin();
  }
  const std::uint64_t appended = s.figures.appended_bytes;
  for (; r.next != r.seen.end(); ++r.next) {
    if (used + (s.figures.appended_bytes - appended) >= budget) return recovery_;
    if (s.logs[kJournal].pending.size() > s.options.max_batch) return recovery_;
    used += 64;
    auto done = resolve_message(r, s, r.next->first, r.next->second, report_);
    if (!done) {
      if (done.error().is(QueueLogError::no_space))
        return recovery_;  // goes on when a segment is free
      failed_ = true;
      return std::unexpected(std::move(done).error());
    }
  }

  // Settling: what recovery read from the journal need not be read by the runner.
  if (s.runners[kJournal].at >= r.suffix) {
    Position first = s.scan_end;
    for (const auto& [id, seen] : r.seen)
      for (const auto& copy : seen.copies)
        if (!copy.garbage && s.segments.contains(copy.position.use) &&
            s.segments.at(copy.position.use).log == kJournal && !s.dead.contains(copy.position))
          first = std::min(first, copy.position);
    s.runners[kJournal].at = std::max(s.runners[kJournal].at, first);
  }
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
  s.settle_wanted = true;
  recovery_ = Recovery::settling;
  return recovery_;
}

}  // namespace pen::queue_log
