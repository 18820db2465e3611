#include "lib/queue_log/scan.h"

#include <algorithm>

#include "lib/base/codec.h"
#include "lib/queue_log/breakage.h"
#include "lib/queue_log/state.h"

namespace pen::queue_log {

struct Scan::Impl {
  Impl(QueueLog::State& state, InTransit transit)
      : s(state), show_moving(transit == InTransit::shown) {}
  QueueLog::State& s;
  bool show_moving;

  struct Part {
    LogId log;
    SegmentUse use;
    std::uint32_t from;
  };
  std::deque<Part> parts;
  bool journal_again = false;
  Position journal_end;
  std::size_t finished = 0;

  // The part being read: by its index records, or whole.
  std::vector<std::uint32_t> chunks;  // offsets of index records, the first to read last
  bool indexed = false;
  bool begun = false;
  std::vector<IndexEntry> entries;
  std::vector<std::uint32_t> intervals;  // of the entries
  std::size_t entry = 0;
  std::unique_ptr<LogReader> reader;

  void begin() {
    std::size_t n = s.logs.size();
    for (LogId id = 0; id < n; ++id)
      for (const SegmentUse use : s.logs[id].uses) parts.push_back({id, use, kDataStart});
    journal_end = s.logs[kJournal].written_to;
  }

  Result<std::optional<IndexBody>> index_at(const SegmentHeader& segment, std::uint32_t offset) {
    SegmentReader r(s.storage, segment, offset, SegmentReader::Search::window,
                    static_cast<std::uint32_t>(std::min<std::uint64_t>(
                        segment.size, offset + record_size(max_index(segment.size) + 16))));
    PEN_TRY_ASSIGN(const auto got, r.next());
    if (got != SegmentReader::Got::record || r.offset() != offset ||
        r.header().type != RecordType::index)
      return std::nullopt;
    return decode<IndexBody>(as_text(r.body()));
  }

  Result<void> begin_part(const Part& part) {
    begun = true;
    indexed = false;
    chunks.clear();
    entries.clear();
    entry = 0;
    reader.reset();
    const SegmentHeader& segment = s.segments.at(part.use).header;
    const Log& log = s.logs[part.log];
    // Footers are only believed where the log went on after them: a crash may leave a trailer without the rest.
    const auto next = std::upper_bound(log.uses.begin(), log.uses.end(), part.use);
    const bool sealed =
        broken(Breakage::footer_of_torn_segment) ||
        (next != log.uses.end() && s.segments.at(*next).header.epoch == segment.epoch);
    if (part.from == kDataStart && sealed) {
      std::byte raw[kTrailer];
      const auto got = s.storage.read(segment.slot, segment.size - kTrailer, raw);
      if (!got && !got.error().is_errno(EIO)) return got;
      if (auto last = got ? decode_trailer(raw, segment) : std::nullopt) {
        // The chain is walked once from its end; offsets only fall, so it ends.
        bool whole = true;
        for (std::uint32_t at = *last; at != 0;) {
          PEN_TRY_ASSIGN(auto body, index_at(segment, at));
          if (!body || body->previous >= at) {
            whole = false;
            break;
          }
          chunks.push_back(at);
          at = body->previous;
        }
        if (whole) {
          indexed = true;
          return {};
        }
        chunks.clear();
      }
    }
    // A log of which nothing was written yet has a segment already; no position at all would be no limit.
    const Position limit = std::max(log.written_to, Position{1, 0});
    reader =
        std::make_unique<LogReader>(s.storage, s.segments_of(log), Position{part.use, part.from},
                                    limit, SegmentReader::Search::whole);
    return {};
  }

  void end_part() {
    parts.pop_front();
    ++finished;
    begun = false;
    if (parts.empty() && !journal_again) {
      journal_again = true;
      for (const SegmentUse use : s.logs[kJournal].uses)
        if (use >= journal_end.use)
          parts.push_back(
              {kJournal, use, use == journal_end.use ? journal_end.offset : kDataStart});
    }
  }

  /// Adds the entry if its version lives.
  Result<void> consider(std::vector<Listed>& into, const Part& part, IndexEntry e,
                        std::uint32_t interval) {
    const Place place{part.log, {part.use, e.offset}};
    const auto work = s.working.find(e.queue_id);
    const bool active = work != s.working.end() && work->second.envelope == place;
    if (active && work->second.moving && !show_moving) return {};
    if (!active) {
      if (s.dead.contains(place.position)) return {};
      PEN_TRY_ASSIGN(const bool garbage, s.garbage_on_disk(place.position));
      if (garbage) return {};
      if (e.in_parts) {
        const auto whole = s.read(place);
        if (!whole && whole.error().is(QueueLogError::damaged)) return {};
        if (!whole) return std::unexpected(whole.error());
      }
    }
    const Log& log = s.logs[part.log];
    into.push_back({place, std::move(e.queue_id), e.generation, e.appended,
                    s.due(s.interval_of(log, interval), e.appended, s.clock.wall_now()), e.arrived,
                    e.size, e.remaining, std::move(e.sender), std::move(e.domains), active});
    return {};
  }
};

Scan::Scan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Scan::~Scan() = default;
bool Scan::done() const { return impl_->parts.empty(); }
Scan::Progress Scan::progress() const {
  return {impl_->finished, impl_->finished + impl_->parts.size()};
}

std::unique_ptr<Scan> QueueLog::scan(InTransit transit) {
  flush_wanted_ = true;
  auto impl = std::make_unique<Scan::Impl>(*state_, transit);
  impl->begin();
  return std::unique_ptr<Scan>(new Scan(std::move(impl)));
}

Result<std::vector<Listed>> Scan::step(std::size_t max) {
  Impl& i = *impl_;
  std::vector<Listed> result;
  for (std::size_t looked = 0; looked < 4 * max && result.size() < max && !i.parts.empty();
       ++looked) {
    const Impl::Part part = i.parts.front();
    if (!i.s.segments.contains(part.use)) {  // dropped meanwhile: nothing in it lived
      i.end_part();
      continue;
    }
    if (!i.begun) PEN_TRY(i.begin_part(part));
    if (i.indexed) {
      if (i.entry == i.entries.size()) {
        if (i.chunks.empty()) {
          i.end_part();
          continue;
        }
        PEN_TRY_ASSIGN(auto body, i.index_at(i.s.segments.at(part.use).header, i.chunks.back()));
        i.chunks.pop_back();
        i.intervals = body ? std::move(body->intervals) : std::vector<std::uint32_t>();
        i.entries = body ? std::move(body->entries) : std::vector<IndexEntry>();
        i.entry = 0;
        continue;
      }
      const std::uint32_t interval = i.entry < i.intervals.size() ? i.intervals[i.entry] : 0;
      PEN_TRY(i.consider(result, part, std::move(i.entries[i.entry++]), interval));
      continue;
    }
    PEN_TRY_ASSIGN(const auto got, i.reader->next());
    i.s.note_unfinished(*i.reader);
    if (got == LogReader::Got::end) {
      i.end_part();
      continue;
    }
    if (got == LogReader::Got::more) {
      looked += max;
      continue;
    }
    if (got == LogReader::Got::hole && i.reader->hole().segment.use == part.use)
      i.s.note_hole(i.reader->hole(), part.log);
    if (got != LogReader::Got::record) continue;
    const LogReader::Record& record = i.reader->record();
    if (record.position.use != part.use) {  // the next part's
      i.end_part();
      continue;
    }
    if (record.type != RecordType::envelope) continue;
    auto view = decode<EnvelopeView>(as_text(record.body));
    if (!view) continue;
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
