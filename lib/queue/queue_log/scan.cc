#include "lib/queue/queue_log/scan.h"

#include <algorithm>
#include <cerrno>
#include <unordered_set>

#include "lib/base/codec.h"
#include "lib/queue/queue_log/breakage.h"
#include "lib/queue/queue_log/state.h"

namespace pen::queue_log {

namespace {
constexpr std::size_t kAskFilters = 64;  // ids; for more, nearly every filter would say "perhaps"
}

struct Scan::Impl {
  Impl(QueueLog::State& state, InTransit transit) : s(state), show_moving(transit == InTransit::shown) {}
  QueueLog::State& s;
  bool show_moving;
  std::unordered_set<std::string> wanted;  // empty: every id
  std::vector<std::uint64_t> hashes;       // of `wanted`, when few enough to ask filters for

  struct Part {
    LogId log;
    SegmentUse use;
    std::uint32_t from;
  };
  std::deque<Part> parts;
  bool second_pass = false;
  std::vector<Position> bounds;    // where each log ended when the scan began
  std::vector<Position> appended;  // and where when this pass began
  std::vector<Position> reached;   // how far the first pass looked
  std::vector<bool> unfinished;    // and did not get to the end of the segment
  std::size_t finished = 0;

  // The part being read: by its index records, then whole from where they end; or whole.
  bool begun = false;
  std::vector<std::uint32_t> chunks;  // offsets of index records, the first to read last
  std::uint32_t last_met = 0;         // offset of the last envelope met in index records
  bool met = false;                   // one was
  bool tail = false;                  // what index records leave out is read after them, from there
  std::vector<IndexEntry> entries;
  std::vector<std::uint32_t> intervals;  // of the entries
  std::size_t entry = 0;
  std::unique_ptr<LogReader> reader;

  void begin() {
    for (const Log& log : s.logs) {
      bounds.push_back(log.end());
      for (const SegmentUse use : log.uses()) parts.push_back({log.id(), use, kDataStart});
    }
    appended = bounds;
    reached.resize(s.logs.size());
    unfinished.resize(s.logs.size());
  }

  bool wants(std::string_view queue_id) const { return wanted.empty() || wanted.contains(std::string(queue_id)); }
  bool may_hold_one(const auto& filter_says) const {
    return hashes.empty() || std::any_of(hashes.begin(), hashes.end(), filter_says);
  }

  Result<std::optional<IndexBody>> index_at(const SegmentHeader& segment, std::uint32_t offset, std::size_t guess) {
    PEN_TRY_ASSIGN(const auto record, read_record(s.around.storage, segment, offset, guess));
    if (!record || record->header.type != RecordType::index) return std::nullopt;
    return decode<IndexBody>(as_text(record->body()));
  }

  /// The footer of a sealed segment: `chunks` in order. false: there is none that can be believed.
  Result<bool> read_footer(const SegmentHeader& segment) {
    std::byte raw[kTrailer];
    const auto got = s.around.storage.read(segment.slot, segment.size - kTrailer, raw);
    if (!got && !got.error().is_errno(EIO)) return std::unexpected(got.error());
    const auto last = got ? decode_trailer(raw, segment) : std::nullopt;
    if (!last) return false;
    // The chain is walked once from its end; offsets only fall, so it ends.
    for (std::uint32_t at = *last; at != 0;) {
      PEN_TRY_ASSIGN(auto body, index_at(segment, at, segment.size / 4096 + 4096));
      if (!body || body->previous >= at) {
        chunks.clear();
        return false;
      }
      if (at == *last && !may_hold_one([&](std::uint64_t hash) { return IdFilter::may_contain(body->filter, hash); })) {
        chunks.clear();
        return true;
      }
      if (!body->entries.empty()) chunks.push_back(at);
      at = body->previous;
    }
    return true;
  }

  Result<void> begin_part(const Part& part) {
    begun = true;
    chunks.clear();
    entries.clear();
    entry = 0;
    reader.reset();
    const SegmentHeader& segment = s.pool.in_use().at(part.use).header;
    const Log& log = s.logs[part.log];
    // Footers are only believed where the log went on after them: a crash may leave a trailer without the rest.
    const auto next = std::upper_bound(log.uses().begin(), log.uses().end(), part.use);
    const bool open = log.open() && part.use == log.uses().back();
    last_met = part.from;
    met = false;
    tail = false;
    if (!second_pass) {
      if (unfinished[part.log]) return {};  // all that follows is for the second pass
      // It may be sealed already and not yet written to its end.
      const Position end{part.use + 1, 0};
      reached[part.log] = std::min(end, std::max(log.written_to, Position{part.use, kDataStart}));
      unfinished[part.log] = reached[part.log] < end;
    }
    if (broken(Breakage::footer_of_torn_segment) ||
        (next != log.uses().end() && s.pool.in_use().at(*next).header.epoch == segment.epoch)) {
      PEN_TRY_ASSIGN(const bool footer, read_footer(segment));
      if (footer) {
        if (!second_pass) {
          reached[part.log] = {part.use + 1, 0};
          unfinished[part.log] = false;
        }
        return {};
      }
    }
    tail = true;
    if (open) {
      // Being filled by this process: its index records are where they were put.
      if (!may_hold_one([&](std::uint64_t hash) { return log.filter().may_contain(hash); })) {
        tail = false;
        return {};
      }
      const auto written = log.written_to.use == part.use ? log.written_to.offset : 0;
      for (const std::uint32_t at : log.index_chunks())
        if (at >= part.from && at < written) chunks.push_back(at);
      std::reverse(chunks.begin(), chunks.end());
    }
    return {};
  }

  /// Once the index records are through.
  void read_tail(const Part& part) {
    tail = false;
    const Log& log = s.logs[part.log];
    // A log of which nothing was written yet has a segment already; no position at all would be no limit.
    Position limit = std::max(log.written_to, Position{1, 0});
    if (!second_pass) limit = std::min(limit, reached[part.log]);  // the rest is for the second pass
    reader = std::make_unique<LogReader>(s.around.storage, log.segments(), Position{part.use, last_met}, limit,
                                         SegmentReader::Search::whole);
  }

  /// The entries of the next index record. One that cannot be read: the segment is read whole from there.
  Result<void> next_chunk(const Part& part) {
    const std::uint32_t at = chunks.back();
    const SegmentHeader& segment = s.pool.in_use().at(part.use).header;
    PEN_TRY_ASSIGN(auto body, index_at(segment, at, max_index(segment.size)));
    entry = 0;
    if (!body) {
      entries.clear();
      chunks.clear();
      tail = true;
      return {};
    }
    entries = std::move(body->entries);
    intervals = std::move(body->intervals);
    chunks.pop_back();
    if (!entries.empty()) {
      last_met = entries.back().offset;
      met = true;
    }
    return {};
  }

  void end_part() {
    parts.pop_front();
    ++finished;
    begun = false;
    if (!parts.empty() || second_pass) return;
    second_pass = true;
    for (const Log& log : s.logs) appended[log.id()] = log.end();
    for (const Log& log : s.logs)
      for (const SegmentUse use : log.uses())
        if (use >= reached[log.id()].use)
          parts.push_back({log.id(), use,
                           use == reached[log.id()].use ? std::max(reached[log.id()].offset, kDataStart) : kDataStart});
  }

  /// Adds the entry if its version lives.
  Result<void> consider(std::vector<Listed>& into, const Part& part, IndexEntry e, std::uint32_t interval) {
    const Place place{part.log, {part.use, e.offset}};
    if (e.offset < part.from || !wants(e.queue_id)) return {};
    std::uint32_t stored = 0;
    const Working* work = s.work.find(e.queue_id);
    const bool mine = work != nullptr && work->envelope == place;
    if (mine && work->moving && !show_moving) return {};
    const bool active = mine && work->start.use != 0;
    if (!active) {
      if (s.marks.dead(place.position)) return {};
      const SegmentHeader& segment = s.pool.in_use().at(part.use).header;
      std::byte words[8];
      // A mark that cannot be read says nothing: as garbage_on_disk().
      const auto got = s.around.storage.read(segment.slot, e.offset, words);
      if (!got && !got.error().is_errno(EIO)) return got;
      if (got && load_le<std::uint32_t>(words) == garbage_mark(segment, e.offset)) return {};
      if (got) stored = load_le<std::uint32_t>(words + 4);
      // A footer may be met before its batch is completed: what this process is writing is whole.
      if ((e.flags & kInParts) != 0 && place.position < s.logs[part.log].written_to) {
        const auto whole = s.envelopes.read(place);
        if (!whole && whole.error().is(QueueLogError::damaged)) return {};
        if (!whole) return std::unexpected(whole.error());
      }
    }
    const Log& log = s.logs[part.log];
    bool unmet = false;
    if (second_pass) {
      const auto* accepted = s.ids.accepted.find(e.queue_id);
      unmet = accepted != nullptr && accepted->position >= reached[kJournal];
    }
    into.push_back({place, std::move(e.queue_id), e.generation, e.appended,
                    log.due(place.position, log.interval_of(interval), e.appended, s.around.clock.wall_now()),
                    e.arrived, e.size, e.remaining, std::move(e.sender), std::move(e.domains), active,
                    place.position >= bounds[part.log], unmet, (e.flags & kSelfContained) != 0, stored});
    return {};
  }
};

Scan::Scan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Scan::~Scan() = default;
bool Scan::done() const { return impl_->parts.empty(); }
bool Scan::settled() const {
  const Impl& i = *impl_;
  return std::all_of(i.s.logs.begin(), i.s.logs.end(),
                     [&i](const Log& log) { return log.written_to >= i.appended[log.id()]; });
}
bool Scan::second_pass() const { return impl_->second_pass; }
Scan::Progress Scan::progress() const { return {impl_->finished, impl_->finished + impl_->parts.size()}; }

std::unique_ptr<Scan> QueueLog::scan(InTransit transit) { return find({}, transit); }

std::unique_ptr<Scan> QueueLog::find(std::vector<std::string> queue_ids, InTransit transit) {
  state_->lanes.flush();
  auto impl = std::make_unique<Scan::Impl>(*state_, transit);
  if (queue_ids.size() <= kAskFilters)
    for (const auto& id : queue_ids) impl->hashes.push_back(IdFilter::hash(id));
  impl->wanted = {std::make_move_iterator(queue_ids.begin()), std::make_move_iterator(queue_ids.end())};
  impl->begin();
  return std::unique_ptr<Scan>(new Scan(std::move(impl)));
}

Result<std::vector<Listed>> Scan::step(std::size_t max) {
  Impl& i = *impl_;
  std::vector<Listed> result;
  const bool second_pass = i.second_pass;
  for (std::size_t looked = 0;
       looked < 4 * max && result.size() < max && !i.parts.empty() && i.second_pass == second_pass; ++looked) {
    const Impl::Part part = i.parts.front();
    if (!i.s.pool.in_use().contains(part.use)) {  // dropped meanwhile: nothing in it lived
      i.end_part();
      continue;
    }
    if (!i.begun) {
      PEN_TRY(i.begin_part(part));
      looked += max / 8;  // as long as a few dozen entries take, longer when the disk is asked
      continue;
    }
    if (i.entry < i.entries.size()) {
      const std::uint32_t interval = i.entry < i.intervals.size() ? i.intervals[i.entry] : 0;
      PEN_TRY(i.consider(result, part, std::move(i.entries[i.entry++]), interval));
      continue;
    }
    if (!i.chunks.empty()) {
      PEN_TRY(i.next_chunk(part));
      continue;
    }
    if (!i.reader) {
      if (i.tail)
        i.read_tail(part);
      else
        i.end_part();
      continue;
    }
    PEN_TRY_ASSIGN(const auto got, i.reader->next());
    i.s.damage.note_unfinished(*i.reader);
    if (got == LogReader::Got::end) {
      i.end_part();
      continue;
    }
    if (got == LogReader::Got::more) {
      looked += max;
      continue;
    }
    if (got == LogReader::Got::hole && i.reader->hole().segment.use == part.use)
      i.s.damage.note_hole(i.reader->hole(), part.log);
    if (got != LogReader::Got::record) continue;
    const LogReader::Record& record = i.reader->record();
    if (record.position.use != part.use) {  // the next part's
      i.end_part();
      continue;
    }
    if (record.type != RecordType::envelope) continue;
    if (i.met && record.position.offset == i.last_met) continue;  // met already
    auto view = decode<EnvelopeView>(as_text(record.body));
    if (!view || !i.wants(view->queue_id)) continue;
    IndexEntry e;
    e.offset = record.position.offset;
    e.queue_id = view->queue_id;
    e.generation = view->generation;
    e.appended = view->appended;
    e.arrived = view->arrived;
    e.size = view->size;
    e.remaining = view->remaining.count();
    e.sender = view->sender;
    for (const auto& domain : view->domains) e.domains.emplace_back(domain);
    PEN_TRY(i.consider(result, part, std::move(e), view->interval));
  }
  return result;
}

}  // namespace pen::queue_log
