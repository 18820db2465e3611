// Segments: taken from the pool, sealed, given back; and the restart positions that allow it.
#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue_log/breakage.h"
#include "lib/queue_log/state.h"

namespace pen::queue_log {

Position Log::end() const {
  if (open) return {uses.back(), cursor};
  return uses.empty() ? Position{} : Position{uses.back() + 1, 0};
}

Log& QueueLog::State::add_log(std::int64_t disk_interval, const std::vector<seconds>& intervals) {
  Log log;
  log.id = static_cast<LogId>(logs.size());
  log.disk_interval = disk_interval;
  const bool shared = log.shared();
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    Runner runner;
    runner.log = log.id;
    runner.interval = intervals[i];
    // An interval that is no longer configured belongs to the next longer one, or the longest.
    if (shared && i > 0) runner.over = intervals[i - 1];
    if (shared && i + 1 < intervals.size()) runner.upto = intervals[i];
    runners.push_back(std::move(runner));
  }
  logs.push_back(std::move(log));
  return logs.back();
}

Position QueueLog::State::runners_at(const Log& log) const {
  if (log.id == kJournal) return journal_runner();
  Position least = log.end();
  for (const Runner& runner : runners)
    if (runner.log == log.id) least = std::min(least, runner.at);
  return least;
}

bool QueueLog::State::can_append(const Log& log, std::size_t body) const {
  const std::size_t part = max_body(options.segment_size);
  const std::size_t left =
      log.open ? options.segment_size -
                     std::min<std::size_t>(options.segment_size, log.cursor + index_room(options.segment_size))
               : 0;
  if (record_size(body) <= left && body <= part) return true;
  const std::size_t total = body + (body / part + 1) * (kRecordHeader + 8);
  return free.size() >= total / per_segment() + 1;
}

/// Free segments that no new mail takes: enough to replace all that is being worked on at once.
std::size_t QueueLog::State::reserve() const {
  if (begun_bytes <= options.reserve) return reserve_segments;
  const std::uint64_t more = begun_bytes - options.reserve + per_segment() - 1;
  return reserve_segments + static_cast<std::size_t>(more / per_segment());
}

bool QueueLog::State::has_space() const {
  if (broken(Breakage::take_the_reserve)) return !free.empty();
  return free.size() >= reserve();
}

/// Bytes of records that any segment holds at least: parts do not straddle segments.
std::size_t QueueLog::State::per_segment() const {
  return options.segment_size - kDataStart - index_room(options.segment_size) -
         record_size(max_body(options.segment_size));
}

/// Bytes of records and index entries that a segment takes when no record is in parts.
std::size_t QueueLog::State::segment_room() const {
  return options.segment_size - kDataStart - index_room(options.segment_size);
}

/// At a start, before any mail is taken: the reserve has to be there first. A full disk is no error: new mail waits.
Result<void> QueueLog::State::fill_pool() {
  // The journal takes one at once, and the first message that is deferred one for its retry log: mail is not refused
  // for the moment that it takes to make another.
  constexpr std::size_t kTakenSoon = 3;
  while (free.size() < reserve_segments + kTakenSoon) {
    const Slot slot = last_slot + 1;
    if (auto made = storage.allocate(slot, options.segment_size); !made) {
      if (!made.error().is_errno(ENOSPC) && !made.error().is_errno(EDQUOT)) return made;
      allocation_failed = true;
      allocation_retry = clock.now() + kAllocationRetry;
      break;
    }
    last_slot = slot;
    free.push_back(slot);
  }
  if (free.empty()) PEN_TRY(recycle_empty());
  if (free.empty())
    return fail(QueueLogError::no_space,
                "no segment is free: " + std::to_string(2 * std::uint64_t{options.segment_size}) +
                    " bytes of disk space are needed to start (damaged-segment-* may be moved away)",
                ENOSPC);
  return {};
}

/// A segment that a crash left with a header and no record: nothing in it was ever acknowledged. Looked for only when
/// a restart has nothing else, because it reads whole segments.
Result<void> QueueLog::State::recycle_empty() {
  for (auto it = segments.begin(); it != segments.end();) {
    if (it->first < saved_next_use) {
      ++it;
      continue;
    }
    SegmentReader reader(storage, it->second.header, kDataStart, SegmentReader::Search::whole);
    auto got = SegmentReader::Got::more;
    while (got == SegmentReader::Got::more || got == SegmentReader::Got::hole) {
      PEN_TRY_ASSIGN(got, reader.next());
    }
    if (got == SegmentReader::Got::record) {
      ++it;
      continue;
    }
    if (damaged.contains(it->second.header.slot)) {
      ++it;
      continue;
    }
    std::erase(logs[it->second.log].uses, it->first);
    free.push_back(it->second.header.slot);
    it = segments.erase(it);
  }
  return {};
}

/// Ends the current segment. What is left of it is written and synced before anything of the next one.
void QueueLog::State::seal(Log& log) {
  flush_index(log, true);
  const Segment& segment = segments.at(log.uses.back());
  const Slot slot = segment.header.slot;
  log.left.push_back({BatchStep::Kind::write, slot, log.taken, std::move(log.pending), false});
  log.left.push_back({BatchStep::Kind::write, slot, options.segment_size - kTrailer,
                      encode_trailer(segment.header, log.last_index), false});
  if (!broken(Breakage::seal_without_sync)) log.left.push_back({BatchStep::Kind::sync, slot, 0, {}, false});
  log.pending.clear();
  log.open = false;
}

Result<void> QueueLog::State::roll(Log& log) {
  if (free.empty()) return fail(QueueLogError::no_space);
  if (log.open) seal(log);
  SegmentHeader header;
  header.slot = free.front();
  free.pop_front();
  header.size = options.segment_size;
  header.use = next_use++;
  header.key = random.next();
  header.epoch = epoch;
  header.interval = log.disk_interval;
  header.oldest = log.uses.empty() ? header.use : log.uses.front();
  segments.emplace(header.use, Segment{header, log.id, 0});
  log.uses.push_back(header.use);
  log.open = true;
  log.pending.append(encode_segment_header(header));
  log.cursor = kDataStart;
  log.taken = 0;
  log.durable_offset = 0;
  log.index = {};
  log.last_index = 0;
  log.index_chunks.clear();
  log.filter = IdFilter(max_filter(options.segment_size));
  since_save += kDataStart;
  return {};
}

Position QueueLog::State::journal_runner() const {
  if (runners[kJournal].at < scan_end) return runners[kJournal].at;
  if (!fresh.empty()) return fresh.front().position;
  if (fresh_lost) return *fresh_lost;
  return logs[kJournal].end();
}

/// First record of the journal that a restart has to read.
Position QueueLog::State::suffix_start() const {
  Position start = logs[kJournal].end();
  if (broken(Breakage::suffix_too_late)) return start;
  // Nobody was told yet that what this commit writes is durable: a receiver may send it again after a crash, and then
  // it must be known.
  if (!broken(Breakage::forget_the_unanswered)) start = std::min(start, logs[kJournal].durable_to);
  if (!starts.empty()) start = std::min(start, starts.begin()->first);
  // A mark that is not on the disk yet is found again by the record that justifies it. Those records rise.
  const auto waits = std::find_if(marks.begin(), marks.end(), [](const PendingMark& m) { return m.because.use != 0; });
  if (waits != marks.end()) start = std::min(start, waits->because);
  return start;
}

/// Below the reserve a retry log, or the hold log, whose runners are at its end gives even its open segment back. It is
/// sealed like any other: the log may go on before the save is on the disk, and a restart by the positions before it
/// must not miss anything here.
void QueueLog::State::close_if_empty(Log& log) {
  if (has_space() || log.id == kJournal || !log.open || log.uses.size() != 1) return;
  const Position end = log.end();
  if (log.durable_to != end || !log.moving.empty() || !log.pending.empty() || segments.at(end.use).pins != 0) return;
  bool at_end = true;
  each_runner(log.id, [&](const Runner& r) { at_end = at_end && r.at == end && !r.head; });
  if (!at_end) return;
  seal(log);
  each_runner(log.id, [&](Runner& runner) {
    runner.reader.reset();
    runner.first_unsynced.reset();
    runner.at = {end.use + 1, 0};
  });
}

void QueueLog::State::count_ready_marks() {
  const Position durable = logs[kJournal].durable_to;
  while (ready_marks < marks.size() && (marks[ready_marks].because < durable || broken(Breakage::mark_before_start)))
    ++ready_marks;
}

/// The marks that may be written now, but those
/// - for the journal's open segment: by the time it is sealed and positions are saved most messages in it have ended,
///   and a segment that is given back needs no marks. (In another log's open segment they would hold the working
///   suffix back for as long as that segment takes to fill.)
/// - for messages being worked on: the open START holds the working suffix back as it is, and when it closes the
///   segment may be given back. (A mark makes a sector dirty: those of a full segment write it a second time.)
/// With too many in memory all go.
std::vector<PendingMark> QueueLog::State::take_marks() {
  count_ready_marks();  // recovery may have found some that are ready at once
  const Log& journal = logs[kJournal];
  const bool all = ready_marks >= kMarksInMemory;
  const SegmentUse filling = journal.open && !all ? journal.uses.back() : 0;
  std::vector<PendingMark> taken;
  auto kept = marks.begin();
  const auto last = marks.begin() + static_cast<std::ptrdiff_t>(ready_marks);
  for (auto mark = marks.begin(); mark != last; ++mark) {
    // Its own reason is a copy of a message that recovery knows: no later restart reads what it is a copy of.
    const bool copy = mark->because == mark->envelope && !broken(Breakage::settle_before_copies_are_marked);
    if (mark->because.use != 0 && !copy && (mark->envelope.use == filling || (mark->worked_on && !all)))
      *kept++ = *mark;
    else
      taken.push_back(*mark);
  }
  ready_marks = static_cast<std::size_t>(kept - marks.begin());
  marks.erase(kept, last);
  return taken;
}

/// Takes out of use what nothing needs any more once the positions of this moment are saved; `taken` are the marks
/// about to be written: those into segments taken out of use are dropped.
std::vector<Slot> QueueLog::State::condemn(std::vector<PendingMark>& taken) {
  std::vector<Slot> given_back;
  const Position suffix = suffix_start();
  std::set<SegmentUse> uses;
  for (Log& log : logs) {
    const Position runner = runners_at(log);
    while (!log.uses.empty() && !(log.open && log.uses.size() == 1)) {
      const auto s = segments.find(log.uses.front());
      if (s->second.pins != 0 || s->first >= runner.use) break;
      if (log.id == kJournal && s->first >= suffix.use) break;
      if (!keep_aside(s->second.header.slot)) given_back.push_back(s->second.header.slot);
      dirty.erase(s->second.header.slot);
      uses.insert(s->first);
      segments.erase(s);
      log.uses.pop_front();
    }
  }
  drop_marks(uses);
  std::erase_if(taken, [&](const PendingMark& mark) {
    if (!uses.contains(mark.envelope.use)) return false;
    dead.erase(mark.envelope);
    return true;
  });
  for (const Slot slot : condemned)
    if (!keep_aside(slot)) given_back.push_back(slot);
  condemned.clear();
  if (broken(Breakage::recycle_before_save)) {
    free.insert(free.begin(), given_back.begin(), given_back.end());
    given_back.clear();
  }
  return given_back;
}

SavedPositions QueueLog::State::positions() const {
  SavedPositions p;
  p.sequence = positions_sequence;
  p.epoch = epoch;
  p.next_use = next_use;
  p.segment_size = options.segment_size;
  p.suffix = suffix_start();
  for (const Log& log : logs) {
    SavedLog saved;
    saved.interval = log.disk_interval;
    saved.runner = runners_at(log);
    saved.end = log.end();
    if (!log.moving.empty() && !broken(Breakage::move_without_hold_back))
      saved.end = std::min(saved.end, log.moving.front().replacement);
    saved.oldest = log.uses.empty() ? next_use : log.uses.front();
    if (log.uses.empty()) saved.end = {next_use, 0};
    p.logs.push_back(saved);
    if (!log.shared()) continue;
    for (const Runner& runner : runners)
      if (runner.log == log.id) p.runners.push_back({static_cast<std::uint64_t>(runner.interval.count()), runner.at});
  }
  for (const Slot slot : damaged)
    if (p.damaged.size() < 1000) p.damaged.push_back(slot);
  for (const auto& [use, segment] : segments) {
    if (p.segments.size() == 10000) break;  // what fits the file; only the check for lost segments needs it
    p.segments.push_back({use, segment.header.slot});
  }
  return p;
}

}  // namespace pen::queue_log
