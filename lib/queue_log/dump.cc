#include "lib/queue_log/dump.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <tuple>

#include "lib/base/codec.h"
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

std::string time_text(WallTime t) {
  const std::time_t seconds = unix_seconds(t);
  std::tm tm{};
  ::gmtime_r(&seconds, &tm);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
  return text;
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

void Dump::record(const SegmentHeader& segment, const SegmentReader& reader) {
  const RecordHeader& h = reader.header();
  const std::string where = at(segment.use, reader.offset());
  const std::string_view body = as_text(reader.body());
  ++records_;
  const bool garbage = h.mark != 0 && h.mark == garbage_mark(segment, reader.offset());
  const bool first = (h.flags & kFirstPart) != 0, last = (h.flags & kLastPart) != 0;
  std::string text = fmt::format("{} {:<9} {:<7} {:>8}", where, type_name(h.type),
                                 garbage       ? "garbage"
                                 : h.mark == 0 ? "live"
                                               : "odd",
                                 record_size(h.length));
  if (!first || !last) text += first ? " first part" : last ? " last part" : " middle part";
  bool good = true;
  std::string more;
  const auto message = [&](const auto& decoded) {
    good = decoded && !decoded->queue_id.empty();
    if (good) text += fmt::format(" {} generation {}", printable(decoded->queue_id), decoded->generation);
  };
  if (h.type == RecordType::envelope && first) {
    // Of a first part only the beginning is there: the fields before the payload.
    Decoder d(body);
    EnvelopeView e;
    d.get(e.generation);
    d.get(e.appended);
    d.get(e.replaces);
    d.get(e.queue_id);
    d.get(e.recipients);
    d.get(e.remaining);
    d.get(e.arrived);
    d.get(e.size);
    d.get(e.sender);
    good = d.ok() && well_formed(e);
    auto whole = last ? decode<EnvelopeView>(body) : std::nullopt;
    good = good && (!last || (whole && well_formed(*whole)));
    if (good) {
      text += fmt::format(" {} generation {}", printable(e.queue_id), e.generation);
      if (e.replaces.use != 0) text += " replaces " + at(e.replaces);
    }
    if (good && options_.verbose) {
      more = fmt::format("    appended {} arrived {} size {} recipients {} left {} sender <{}>", time_text(e.appended),
                         time_text(e.arrived), e.size, e.recipients, ordinals_text(e.remaining), printable(e.sender));
      if (whole) {
        if (whole->interval != 0) more += fmt::format(" due after {} s", whole->interval);
        for (const auto& domain : whole->domains) more += " domain " + printable(domain);
        for (const auto& r : whole->results) more += " done with " + ordinals_text(r.ordinals);
        more += fmt::format(" payload {}", whole->payload.size());
        if (options_.payload) more += "\n" + options_.payload(whole->payload);
      }
    }
  } else if (!first) {
    // The rest of a body: nothing in it stands for itself.
  } else if (h.type == RecordType::start) {
    const auto b = decode<StartBody>(body);
    message(b);
    if (good) text += " envelope " + at(b->envelope);
  } else if (h.type == RecordType::delivery) {
    if (last) {
      const auto b = decode<DeliveryBody>(body);
      message(b);
      if (good) text += " recipients " + ordinals_text(b->ordinals);
    }
  } else if (h.type == RecordType::finish) {
    const auto b = decode<FinishBody>(body);
    message(b);
    if (good && b->moved) text += " moved";
  } else if (h.type == RecordType::tombstone) {
    const auto b = decode<TombstoneBody>(body);
    message(b);
    if (good) text += " envelope " + at(b->envelope);
  } else if (h.type == RecordType::index) {
    const auto b = decode<IndexBody>(body);
    good = b.has_value();
    if (good)
      text += fmt::format(" {} entries, filter {} bytes, previous {}{}", b->entries.size(), b->filter.size(),
                          b->previous, (h.flags & kSealed) != 0 ? ", sealed" : "");
  }
  if (options_.verbose)
    text += fmt::format(" body {} checksum {:016x} durable {} epoch {} flags {} mark {:08x}", h.length, h.checksum,
                        h.durable, h.epoch, h.flags, h.mark);
  line_(text);
  if (!more.empty()) line_(more);
  if (!good) damaged(where, h.length, "the record's body is malformed");
  if (h.mark != 0 && !garbage) damaged(where, 4, "odd garbage mark, taken as live");
}

}  // namespace pen::queue_log
