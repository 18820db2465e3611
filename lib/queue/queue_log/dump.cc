#include "lib/queue/queue_log/dump.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "lib/base/codec.h"
#include "lib/base/date.h"
#include "lib/base/text.h"

namespace pen::queue_log {
namespace {

std::string at(std::uint64_t use, std::uint32_t offset) { return fmt::format("{}:{}", use, offset); }
std::string at(const Position& p) { return at(p.use, p.offset); }

std::string log_name(std::int64_t interval) {
  if (interval == 0) return "journal";
  if (interval == -1) return "hold";
  if (interval == kSharedRetryLog) return "retry";
  return fmt::format("retry-{}s", interval);
}

const char* type_name(RecordType type) {
  switch (type) {
    case RecordType::envelope:
      return "ENVELOPE";
    case RecordType::start:
      return "START";
    case RecordType::delivery:
      return "DELIVERY";
    case RecordType::finish:
      return "FINISH";
    case RecordType::tombstone:
      return "TOMBSTONE";
    case RecordType::index:
      return "INDEX";
  }
  return "?";
}

std::string ordinals_text(const OrdinalSet& set) {
  std::string out;
  for (const auto& r : set.ranges()) {
    if (!out.empty()) out += ',';
    if (out.size() > 200) return out + "...";
    out += r.end - r.first == 1 ? fmt::format("{}", r.first) : fmt::format("{}-{}", r.first, r.end - 1);
  }
  return out.empty() ? "none" : out;
}

bool all_zero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

void Dump::damaged(const std::string& where, std::uint64_t bytes, const std::string& what) {
  ++damage_;
  damaged_bytes_ += bytes;
  line_(fmt::format("DAMAGE {} {} bytes: {}", where, bytes, what));
}

void Dump::other_version(const std::string& where, std::uint32_t version) {
  ++other_versions_;
  line_(fmt::format("{} {}", where, tell_other_version(version)));
}

Result<void> Dump::positions(Storage& storage, std::uint64_t file_size) {
  bool any_bytes = false;
  int readable = 0;
  for (std::uint64_t copy = 0; copy < 2; ++copy) {
    const std::uint64_t start = copy * kPositionsCopy;
    if (start + 24 > file_size) continue;
    std::string bytes(static_cast<std::size_t>(std::min(kPositionsCopy, file_size - start)), '\0');
    const auto got = storage.read(kPositionsSlot, start, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
    if (!got && !got.error().is_errno(EIO)) return got;
    if (!got) damaged(fmt::format("positions copy {}", copy), bytes.size(), "the disk cannot read it");
    if (const auto version = other_version_of_positions(as_bytes(bytes))) {
      any_bytes = true;
      other_version(fmt::format("positions copy {}", copy), *version);
      continue;
    }
    const auto p = decode_positions(as_bytes(bytes));
    if (!p) {
      const bool unused = all_zero(as_bytes(bytes));
      any_bytes = any_bytes || !unused;
      line_(
          fmt::format("positions copy {}: {}", copy,
                      unused ? "never written" : "unreadable: a write that was cut, or damage; the other one counts"));
      continue;
    }
    ++readable;
    line_(
        fmt::format("positions copy {}: save {} epoch {} next use {} segment size {} working suffix from {} "
                    "{} segments",
                    copy, p->sequence, p->epoch, p->next_use, p->segment_size, at(p->suffix), p->segments.size()));
    for (const SavedLog& log : p->logs)
      line_(fmt::format("positions copy {}: log {} runner {} synced to {} oldest use {}", copy, log_name(log.interval),
                        at(log.runner), at(log.end), log.oldest));
    if (options_.verbose)
      for (const SavedSegment& s : p->segments)
        line_(fmt::format("positions copy {}: use {} in {}", copy, s.use, slot_name(s.slot)));
    if (!saved_ || p->sequence > saved_->sequence) saved_ = *p;
  }
  if (readable == 0 && any_bytes && other_versions_ == 0)
    damaged("positions", file_size, "no copy is readable; recovery reads every segment");
  return {};
}

Result<std::optional<SegmentHeader>> Dump::header(Storage& storage, Slot slot, std::uint64_t file_size) {
  if (file_size < kDataStart) {
    damaged(slot_name(slot), kDataStart - file_size,
            fmt::format("the file is cut short: {} bytes are left", file_size));
    return std::nullopt;
  }
  std::byte block[kDataStart];
  if (auto got = storage.read(slot, 0, block); !got) {
    if (!got.error().is_errno(EIO)) return std::unexpected(std::move(got).error());
    damaged(slot_name(slot), kDataStart, "the disk cannot read the header");
    return std::nullopt;
  }
  if (const auto version = other_version_of_header(block)) {
    other_version(slot_name(slot), *version);
    return std::nullopt;
  }
  auto found = decode_segment_header(block);
  if (!found) {
    if (all_zero(block))
      line_(fmt::format("{}: never used", slot_name(slot)));
    else
      damaged(slot_name(slot), kDataStart, "neither copy of the header is whole; nothing of it can be read");
    return std::nullopt;
  }
  if (found->size < kMinSegment || found->size > kMaxSegment) {
    damaged(slot_name(slot), kDataStart, "the header's size is impossible");
    return std::nullopt;
  }
  return found;
}

Result<void> Dump::segment(Storage& storage, Slot slot, std::uint64_t file_size) {
  PEN_TRY_ASSIGN(const auto found, header(storage, slot, file_size));
  if (!found) return {};
  return records(storage, *found, file_size, {});
}

Result<void> Dump::directory(Storage& storage) {
  PEN_TRY_ASSIGN(auto slots, storage.list());
  struct Found {
    SegmentHeader header;
    Slot slot = 0;
    std::uint64_t size = 0;
  };
  std::vector<Found> used, other;
  std::sort(slots.begin(), slots.end(), [](const auto& a, const auto& b) { return a.slot < b.slot; });
  for (const auto& slot : slots)
    if (slot.slot == kPositionsSlot) PEN_TRY(positions(storage, slot.size));
  for (const auto& slot : slots) {
    if (slot.slot == kPositionsSlot) continue;
    PEN_TRY_ASSIGN(const auto found, header(storage, slot.slot, slot.size));
    if (!found) continue;
    // As recovery decides it: what the saved positions list, and what was begun after them.
    const bool in_use = !saved_ || found->use >= saved_->next_use ||
                        std::any_of(saved_->segments.begin(), saved_->segments.end(),
                                    [&](const SavedSegment& s) { return s.use == found->use && s.slot == slot.slot; });
    (in_use ? used : other).push_back({*found, slot.slot, slot.size});
  }
  std::sort(used.begin(), used.end(), [](const Found& a, const Found& b) {
    return std::tie(a.header.interval, a.header.use) < std::tie(b.header.interval, b.header.use);
  });
  for (std::size_t i = 0; i < used.size(); ++i) {
    Surroundings around;
    const SegmentHeader& h = used[i].header;
    if (i + 1 < used.size() && used[i + 1].header.interval == h.interval)
      around.went_on = used[i + 1].header.epoch == h.epoch;
    if (saved_)
      for (const SavedLog& log : saved_->logs)
        if (log.interval == h.interval) around.synced = log.end;
    PEN_TRY(records(storage, h, used[i].size, around));
  }
  for (const Found& f : other)
    line_(fmt::format("{}: free, last used for log {} as use {}", slot_name(f.slot), log_name(f.header.interval),
                      f.header.use));
  return {};
}

Result<void> Dump::records(Storage& storage, const SegmentHeader& h, std::uint64_t file_size,
                           const Surroundings& around) {
  line_(fmt::format("{}: log {} use {} epoch {} size {} key {:016x} oldest use {}", slot_name(h.slot),
                    log_name(h.interval), h.use, h.epoch, h.size, h.key, h.oldest));
  std::uint32_t limit = 0;
  if (file_size < h.size) {
    damaged(at(h.use, static_cast<std::uint32_t>(file_size)), h.size - file_size,
            fmt::format("the file is cut short: {} of {} bytes", file_size, h.size));
    limit = static_cast<std::uint32_t>(file_size);
  }
  SegmentReader reader(storage, h, kDataStart, SegmentReader::Search::whole, limit);
  const auto synced = [&](std::uint32_t offset) { return around.went_on || Position{h.use, offset} < around.synced; };
  for (;;) {
    PEN_TRY_ASSIGN(const auto got, reader.next());
    if (got == SegmentReader::Got::end) break;
    if (got == SegmentReader::Got::hole) {
      const std::uint32_t hole = reader.hole_start();
      if (reader.unreadable())
        damaged(at(h.use, hole), reader.hole_bytes(), "the disk cannot read these bytes");
      else if (synced(hole) || reader.header().durable > hole)
        damaged(at(h.use, hole), reader.hole_bytes(), "bytes that were synced are not records");
      else
        line_(fmt::format("{} {} bytes are not records: a write that was cut", at(h.use, hole), reader.hole_bytes()));
    }
    if (got == SegmentReader::Got::record) record(h, reader);
  }
  const std::uint32_t tail = reader.tail_start();
  if (reader.sealed()) {
    std::byte raw[kTrailer];
    if (limit == 0) {
      const auto got = storage.read(h.slot, h.size - kTrailer, raw);
      if (!got && !got.error().is_errno(EIO)) return got;
      if (around.went_on && (!got || !decode_trailer(raw, h)))
        damaged(at(h.use, h.size - static_cast<std::uint32_t>(kTrailer)), kTrailer,
                "the trailer is unreadable: listings read this segment whole");
    }
    line_(fmt::format("{} end: sealed", at(h.use, tail)));
    return {};
  }
  if (around.went_on) {
    damaged(at(h.use, tail), h.size - tail, "the log went on elsewhere, but here its end is lost");
  } else if (reader.unreadable()) {
    damaged(at(h.use, tail), (limit == 0 ? h.size : limit) - tail, "the disk cannot read bytes here");
  } else if (Position{h.use, tail} < around.synced && around.synced.use == h.use) {
    damaged(at(h.use, tail), around.synced.offset - tail, "bytes that were synced are not records");
  } else {
    line_(fmt::format("{} end: not sealed", at(h.use, tail)));
  }
  return {};
}

namespace {

/// What a record says: the rest of its line, and a second line for readers who want all.
struct Said {
  bool good = true;  // else the body is malformed
  std::string text = {}, more = {};
};

template <class Body>
Said said_of(const std::optional<Body>& body) {
  if (!body || body->queue_id.empty()) return {.good = false};
  return {.text = fmt::format(" {} generation {}", printable(body->queue_id), body->generation)};
}

/// The fields of an envelope before its domains, which the first of several parts has too. nullopt: not even those.
std::optional<EnvelopeView> beginning_of(std::string_view body) {
  Decoder decoder(body);
  EnvelopeView envelope;
  bool there = false;
  envelope.visit_fields([&](auto&... fields) {
    const auto take = [&](auto& field) {
      decoder.get(field);
      if (static_cast<void*>(&field) == &envelope.sender) there = decoder.ok();
    };
    (take(fields), ...);
  });
  if (!there) return std::nullopt;
  envelope.domains.clear();
  envelope.results.clear();
  envelope.payload = {};
  return envelope;
}

Said envelope_says(std::string_view body, bool whole, const Dump::Options& options) {
  auto e = beginning_of(body);  // of a whole body too: decode() takes one that ends sooner
  if (e && whole) e = decode<EnvelopeView>(body);
  if (!e || !well_formed(*e)) return {.good = false};
  Said said = said_of(e);
  if (e->replaces.use != 0) said.text += " replaces " + at(e->replaces);
  if (!options.verbose) return said;
  said.more =
      fmt::format("    appended {} arrived {} size {} recipients {} left {} sender <{}>", utc_text(e->appended),
                  utc_text(e->arrived), e->size, e->recipients, ordinals_text(e->remaining), printable(e->sender));
  if (!whole) return said;
  if (e->interval != 0) said.more += fmt::format(" due after {} s", e->interval);
  for (const auto& domain : e->domains) said.more += " domain " + printable(domain);
  for (const auto& r : e->results) said.more += " done with " + ordinals_text(r.ordinals);
  said.more += fmt::format(" payload {}", e->payload.size());
  if (options.payload) said.more += "\n" + options.payload(e->payload);
  return said;
}

Said record_says(const RecordHeader& h, std::string_view body, const Dump::Options& options) {
  const bool last = (h.flags & kLastPart) != 0;
  if ((h.flags & kFirstPart) == 0) return {};  // the rest of a body: nothing in it stands for itself
  switch (h.type) {
    case RecordType::envelope:
      return envelope_says(body, last, options);
    case RecordType::start: {
      const auto b = decode<StartBody>(body);
      Said said = said_of(b);
      if (said.good) said.text += " envelope " + at(b->envelope);
      return said;
    }
    case RecordType::delivery: {
      if (!last) return {};
      const auto b = decode<DeliveryBody>(body);
      Said said = said_of(b);
      if (said.good) said.text += " recipients " + ordinals_text(b->ordinals);
      return said;
    }
    case RecordType::finish: {
      const auto b = decode<FinishBody>(body);
      Said said = said_of(b);
      if (said.good && b->moved) said.text += " moved";
      return said;
    }
    case RecordType::tombstone: {
      const auto b = decode<TombstoneBody>(body);
      Said said = said_of(b);
      if (said.good) said.text += " envelope " + at(b->envelope);
      return said;
    }
    case RecordType::index: {
      const auto b = decode<IndexBody>(body);
      if (!b) return {.good = false};
      return {.text = fmt::format(" {} entries, filter {} bytes, previous {}{}", b->entries.size(), b->filter.size(),
                                  b->previous, (h.flags & kSealed) != 0 ? ", sealed" : "")};
    }
  }
  return {};
}

}  // namespace

void Dump::record(const SegmentHeader& segment, const SegmentReader& reader) {
  const RecordHeader& h = reader.header();
  const std::string where = at(segment.use, reader.offset());
  ++records_;
  const bool garbage = h.mark != 0 && h.mark == garbage_mark(segment, reader.offset());
  const bool first = (h.flags & kFirstPart) != 0, last = (h.flags & kLastPart) != 0;
  std::string text = fmt::format("{} {:<9} {:<7} {:>8}", where, type_name(h.type),
                                 garbage       ? "garbage"
                                 : h.mark == 0 ? "live"
                                               : "odd",
                                 record_size(h.length));
  if (!first || !last) text += first ? " first part" : last ? " last part" : " middle part";
  const Said said = record_says(h, as_text(reader.body()), options_);
  text += said.text;
  if (options_.verbose)
    text += fmt::format(" body {} checksum {:016x} durable {} epoch {} flags {} mark {:08x}", h.length, h.checksum,
                        h.durable, h.epoch, h.flags, h.mark);
  line_(text);
  if (!said.more.empty()) line_(said.more);
  if (!said.good) damaged(where, h.length, "the record's body is malformed");
  if (h.mark != 0 && !garbage) damaged(where, 4, "odd garbage mark, taken as live");
}

}  // namespace pen::queue_log
