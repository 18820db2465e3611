#include "lib/queue/queue_log/format.h"

#include <algorithm>

// On x86 the library's own choice of the widest instructions there are: a third of the time for 4 KiB.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "lib/base/check.h"
#include "lib/base/codec.h"
#include "lib/queue/queue_log/breakage.h"

namespace pen::queue_log {
namespace {

constexpr std::uint64_t kSegmentMagic = 0x31474553'4b544e50;    // "PNTKSEG1"
constexpr std::uint64_t kPositionsMagic = 0x31534f50'4b544e50;  // "PNTKPOS1"
constexpr std::uint64_t kTrailerSeed = 0x52454c49'41525401;
constexpr std::uint64_t kMarkSeed = 0x4b52414d'01;

std::uint64_t hash(const void* data, std::size_t size, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, size, seed);
}
std::uint64_t key_of(const SegmentHeader& segment) { return broken(Breakage::unkeyed_checksum) ? 0 : segment.key; }

constexpr std::size_t kHeaderUsed = 64;  // checksum covers what comes before it

std::string one_header(const SegmentHeader& h, std::uint32_t version) {
  std::string out(kSectorSize, '\0');
  auto* p = reinterpret_cast<std::byte*>(out.data());
  store_le(p, kSegmentMagic);
  store_le(p + 8, version);
  store_le(p + 12, h.slot);
  store_le(p + 16, h.size);
  store_le(p + 20, h.epoch);
  store_le(p + 24, h.use);
  store_le(p + 32, h.key);
  store_le(p + 40, static_cast<std::uint64_t>(h.interval));
  store_le(p + 48, h.oldest);
  store_le(p + kHeaderUsed, hash(p, kHeaderUsed, kSegmentMagic));
  return out;
}

/// Magic, version and checksum are at these places in every version. nullopt: they are not right.
std::optional<std::uint32_t> version_of_header(const std::byte* p) {
  if (load_le<std::uint64_t>(p) != kSegmentMagic) return std::nullopt;
  if (load_le<std::uint64_t>(p + kHeaderUsed) != hash(p, kHeaderUsed, kSegmentMagic)) return std::nullopt;
  return load_le<std::uint32_t>(p + 8);
}

std::optional<SegmentHeader> read_one_header(const std::byte* p) {
  if (version_of_header(p) != kFormatVersion) return std::nullopt;
  SegmentHeader h;
  h.slot = load_le<std::uint32_t>(p + 12);
  h.size = load_le<std::uint32_t>(p + 16);
  h.epoch = load_le<std::uint32_t>(p + 20);
  h.use = load_le<std::uint64_t>(p + 24);
  h.key = load_le<std::uint64_t>(p + 32);
  h.interval = static_cast<std::int64_t>(load_le<std::uint64_t>(p + 40));
  h.oldest = load_le<std::uint64_t>(p + 48);
  if (h.use == 0) return std::nullopt;
  return h;
}

}  // namespace

std::string encode_segment_header(const SegmentHeader& header, std::uint32_t version) {
  const std::string one = one_header(header, version);
  return one + one;
}

std::optional<std::uint32_t> other_version_of_header(Bytes block) {
  if (block.size() < kDataStart) return std::nullopt;
  for (const std::size_t copy : {std::size_t{0}, kSectorSize}) {
    const auto version = version_of_header(block.data() + copy);
    if (version && *version != kFormatVersion) return version;
  }
  return std::nullopt;
}

std::string tell_other_version(std::uint32_t version) {
  return "was written by version " + std::to_string(version) +
         " of the queue's format, and this program reads version " + std::to_string(kFormatVersion);
}

std::string slot_name(Slot slot) {
  if (slot == kPositionsSlot) return "positions";
  const std::string number = std::to_string(slot);
  return "segment-" + std::string(8 - std::min<std::size_t>(number.size(), 8), '0') + number;
}

std::optional<SegmentHeader> decode_segment_header(Bytes block) {
  if (block.size() < kDataStart) return std::nullopt;
  auto a = read_one_header(block.data());
  auto b = read_one_header(block.data() + kSectorSize);
  if (a && b) return a->use >= b->use ? a : b;
  return a ? a : b;
}

std::size_t begin_record(std::string& out) {
  const std::size_t start = out.size();
  out.append(kRecordHeader, '\0');
  return start;
}

void end_record(std::string& out, std::size_t start, const RecordHeader& h, std::uint64_t key) {
  const std::size_t body = out.size() - start - kRecordHeader;
  out.append(record_size(body) - kRecordHeader - body, '\0');
  auto* p = reinterpret_cast<std::byte*>(out.data() + start);
  store_le(p, h.mark);
  store_le(p + 4, static_cast<std::uint32_t>(body));
  store_le(p + 16, h.use);
  store_le(p + 24, h.offset);
  store_le(p + 28, h.durable);
  store_le(p + 32, h.epoch);
  p[36] = static_cast<std::byte>(h.type);
  p[37] = static_cast<std::byte>(h.flags);
  if (broken(Breakage::unkeyed_checksum)) key = 0;
  // The length is covered by being the length hashed; the mark is left out, as it changes later.
  store_le(p + 8, hash(p + 16, kRecordHeader - 16 + body, key));
}

void encode_record(std::string& out, const RecordHeader& header, std::uint64_t key, Bytes body) {
  const std::size_t start = begin_record(out);
  out.append(as_text(body));
  end_record(out, start, header, key);
}

std::optional<RecordHeader> decode_record(Bytes at, const SegmentHeader& segment, std::uint32_t offset) {
  if (at.size() < kRecordHeader) return std::nullopt;
  const std::byte* p = at.data();
  RecordHeader h;
  h.use = load_le<std::uint64_t>(p + 16);
  h.offset = load_le<std::uint32_t>(p + 24);
  if (h.offset != offset) return std::nullopt;
  if (h.use != segment.use && !broken(Breakage::unkeyed_checksum)) return std::nullopt;
  h.length = load_le<std::uint32_t>(p + 4);
  if (h.length > at.size() - kRecordHeader || h.length > max_body(segment.size)) return std::nullopt;
  h.checksum = load_le<std::uint64_t>(p + 8);
  if (h.checksum != hash(p + 16, kRecordHeader - 16 + h.length, key_of(segment))) return std::nullopt;
  h.mark = load_le<std::uint32_t>(p);
  h.durable = load_le<std::uint32_t>(p + 28);
  h.epoch = load_le<std::uint32_t>(p + 32);
  h.type = static_cast<RecordType>(p[36]);
  h.flags = static_cast<std::uint8_t>(p[37]);
  if (h.type < RecordType::envelope || h.type > RecordType::index) return std::nullopt;
  return h;
}

std::uint32_t garbage_mark(const SegmentHeader& segment, std::uint32_t offset) {
  std::byte raw[12];
  store_le(raw, segment.use);
  store_le(raw + 8, offset);
  const auto word = static_cast<std::uint32_t>(hash(raw, sizeof raw, segment.key ^ kMarkSeed));
  return word == 0 ? 1 : word;
}

std::string encode_trailer(const SegmentHeader& segment, std::uint32_t last_index) {
  std::string out(kTrailer, '\0');
  auto* p = reinterpret_cast<std::byte*>(out.data());
  store_le(p, last_index);
  store_le(p + 8, hash(p, 8, segment.key ^ kTrailerSeed ^ segment.use));
  return out;
}

std::optional<std::uint32_t> decode_trailer(Bytes bytes, const SegmentHeader& segment) {
  if (bytes.size() != kTrailer) return std::nullopt;
  const std::byte* p = bytes.data();
  if (load_le<std::uint64_t>(p + 8) != hash(p, 8, segment.key ^ kTrailerSeed ^ segment.use)) return std::nullopt;
  const auto last = load_le<std::uint32_t>(p);
  if (last < kDataStart || last >= segment.size) return std::nullopt;
  return last;
}

bool well_formed(const EnvelopeView& body) {
  if (body.queue_id.empty() || !body.remaining.well_formed()) return false;
  if (!body.remaining.empty() && body.remaining.ranges().back().end > body.recipients) return false;
  for (const auto& r : body.results)
    if (!r.ordinals.well_formed()) return false;
  return true;
}

std::string encode_positions(const SavedPositions& positions) {
  const std::string body = encode(positions);
  std::string out(24, '\0');
  auto* p = reinterpret_cast<std::byte*>(out.data());
  store_le(p, kPositionsMagic);
  store_le(p + 8, static_cast<std::uint64_t>(body.size()));
  store_le(p + 16, hash(body.data(), body.size(), kPositionsMagic));
  return out + body;
}

namespace {
/// What magic and checksum say is whole, of whatever version.
std::optional<Bytes> body_of_positions(Bytes copy) {
  if (copy.size() < 24 || load_le<std::uint64_t>(copy.data()) != kPositionsMagic) return std::nullopt;
  const auto size = load_le<std::uint64_t>(copy.data() + 8);
  if (size > copy.size() - 24) return std::nullopt;
  const Bytes body = copy.subspan(24, size);
  if (load_le<std::uint64_t>(copy.data() + 16) != hash(body.data(), body.size(), kPositionsMagic)) return std::nullopt;
  return body;
}
}  // namespace

std::optional<SavedPositions> decode_positions(Bytes copy) {
  const auto body = body_of_positions(copy);
  if (!body) return std::nullopt;
  auto positions = decode<SavedPositions>(as_text(*body));
  if (!positions || positions->version != kFormatVersion) return std::nullopt;
  return positions;
}

std::optional<std::uint32_t> other_version_of_positions(Bytes copy) {
  const auto body = body_of_positions(copy);
  if (!body) return std::nullopt;
  // The first field in every version; what follows it may be anything.
  std::uint32_t version = 0;
  Decoder decoder(as_text(*body));
  decoder.get(version);
  if (!decoder.ok() || version == kFormatVersion) return std::nullopt;
  return version;
}

}  // namespace pen::queue_log
