#pragma once
/// The bytes of segments and records. docs/queue-format.md is the description for people; this is the same for code.
///
/// Segment: header block (two copies, one sector each), records, trailer in the last 16 bytes once sealed.
/// Record:  mark u32, length u32, checksum u64, use u64, offset u32, durable u32, epoch u32, type u8, flags u8,
///          zero u16, body; padded with zeros to a multiple of 8. All integers little-endian.
/// No I/O.
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/queue/queue_log/message.h"
#include "lib/queue/queue_log/storage.h"

namespace pen::queue_log {

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::size_t kSectorSize = 512;  // what a disk writes whole or not at all
inline constexpr std::uint32_t kDataStart = 2 * kSectorSize;
inline constexpr std::size_t kRecordHeader = 40;
inline constexpr std::size_t kTrailer = 16;
inline constexpr std::uint32_t kMinSegment = 8192;
inline constexpr std::uint32_t kMaxSegment = 1U << 30;

enum class RecordType : std::uint8_t {
  envelope = 1,
  start = 2,
  delivery = 3,
  finish = 4,
  tombstone = 5,
  index = 6,  // footer facts of the envelopes before it
};
inline constexpr std::uint8_t kFirstPart = 1;  // flags of a record; a record in one piece has both
inline constexpr std::uint8_t kLastPart = 2;
inline constexpr std::uint8_t kSealed = 4;  // an index record after which the segment holds nothing

inline constexpr std::int64_t kHoldLog = -1;
inline constexpr std::int64_t kSharedRetryLog = -2;  // one log for all intervals

/// One use of a segment.
struct SegmentHeader {
  Slot slot = 0;
  std::uint32_t size = 0;
  std::uint64_t use = 0;
  std::uint64_t key = 0;  // of the checksums of this use
  std::uint32_t epoch = 0;
  std::int64_t interval = 0;  // of the log it belongs to: seconds; 0 the journal, or one of the next two
  std::uint64_t oldest = 0;   // first use that its log still needed then
};
/// kDataStart bytes. `version`: another one only for tests.
std::string encode_segment_header(const SegmentHeader& header, std::uint32_t version = kFormatVersion);
/// Of both copies the one with the highest use. nullopt: neither is valid (a slot never used, or
/// torn at first use).
std::optional<SegmentHeader> decode_segment_header(Bytes block);
/// The version of the format that wrote the block, or a copy of the positions, if that is not ours: one with the right
/// magic and checksum, in either copy of the header. It is no damage, and not ours to write over.
std::optional<std::uint32_t> other_version_of_header(Bytes block);
std::optional<std::uint32_t> other_version_of_positions(Bytes copy);
/// A sentence about it for people, after the name of the file.
std::string tell_other_version(std::uint32_t version);
/// "positions", "segment-00000007": the slot's file.
std::string slot_name(Slot slot);

struct RecordHeader {
  std::uint32_t mark = 0;
  std::uint32_t length = 0;  // of the body
  std::uint64_t checksum = 0;
  std::uint64_t use = 0;
  std::uint32_t offset = 0;
  // bytes of this segment that were synced when the record was made: a hole below is damage
  std::uint32_t durable = 0;
  std::uint32_t epoch = 0;
  RecordType type = RecordType::envelope;
  std::uint8_t flags = 0;
};
constexpr std::size_t record_size(std::size_t body) { return (kRecordHeader + body + 7) & ~std::size_t{7}; }
/// Of one part: a quarter of a segment with its header.
constexpr std::size_t max_body(std::uint32_t segment_size) { return segment_size / 4 - kRecordHeader; }
/// Bytes of one chunk of index entries.
constexpr std::size_t max_index(std::uint32_t segment_size) {
  return segment_size / 16 < 32768 ? segment_size / 16 : 32768;
}
/// Bytes of the filter of queue ids that a sealed segment ends with: 256 KiB for 64 MiB, enough for 175,000 envelopes.
constexpr std::size_t max_filter(std::uint32_t segment_size) { return std::bit_floor(segment_size / 256); }

/// Bytes that must stay free in a segment for index records: one that closes a full chunk, the last chunk, and the
/// filter.
constexpr std::size_t index_room(std::uint32_t segment_size) {
  return 2 * record_size(max_index(segment_size) + 16) + record_size(max_filter(segment_size) + 16) + kTrailer;
}

/// Appends the record to out; length and checksum are filled in.
void encode_record(std::string& out, const RecordHeader& header, std::uint64_t key, Bytes body);
/// The same in two steps around what appends the body to out: where the record starts, and header and padding.
std::size_t begin_record(std::string& out);
void end_record(std::string& out, std::size_t start, const RecordHeader& header, std::uint64_t key);
/// Looks at the start of `at`; the record must lie in it whole. nullopt: not a record of this use
/// at this offset.
std::optional<RecordHeader> decode_record(Bytes at, const SegmentHeader& segment, std::uint32_t offset);
/// The word that means garbage for a record at this place; never 0.
std::uint32_t garbage_mark(const SegmentHeader& segment, std::uint32_t offset);

/// Where the last index record of a sealed segment is.
std::string encode_trailer(const SegmentHeader& segment, std::uint32_t last_index);
std::optional<std::uint32_t> decode_trailer(Bytes bytes, const SegmentHeader& segment);

// --- bodies ---

struct StartBody {
  std::string queue_id;
  std::uint32_t generation = 0;
  Position envelope;
  PEN_FIELDS(queue_id, generation, envelope)
};
struct DeliveryBody {
  std::string queue_id;
  std::uint32_t generation = 0;
  OrdinalSet ordinals;
  std::string payload;
  PEN_FIELDS(queue_id, generation, ordinals, payload)
};
struct FinishBody {
  std::string queue_id;
  std::uint32_t generation = 0;
  bool moved = false;
  PEN_FIELDS(queue_id, generation, moved)
};
struct TombstoneBody {
  std::string queue_id;
  std::uint32_t generation = 0;
  Position envelope;
  PEN_FIELDS(queue_id, generation, envelope)
};
/// Text is std::string, or std::string_view to read without copying.
template <class Text>
struct EnvelopeBodyOf {
  std::uint32_t generation = 0;
  WallTime appended;
  Position replaces;  // use 0: a new message
  Text queue_id;
  std::uint32_t recipients = 0;
  OrdinalSet remaining;
  WallTime arrived;
  std::uint64_t size = 0;
  Text sender;
  std::vector<Text> domains;
  std::vector<DeliveryResult> results;
  Text payload;
  std::uint32_t interval = 0;   // in a retry log: seconds after `appended` at which it is due
  bool self_contained = false;  // for its index entry only
  PEN_FIELDS(generation, appended, replaces, queue_id, recipients, remaining, arrived, size, sender, domains, results,
             payload, interval)
};
using EnvelopeView = EnvelopeBodyOf<std::string_view>;
using EnvelopeBody = EnvelopeBodyOf<std::string>;
bool well_formed(const EnvelopeView& body);

/// Text is std::string, or std::string_view to write without copying.
template <class Text>
struct IndexEntryOf {
  std::uint32_t offset = 0;
  Text queue_id;
  std::uint32_t generation = 0;
  WallTime appended;
  WallTime arrived;
  std::uint64_t size = 0;
  std::uint64_t remaining = 0;
  Text sender;
  std::vector<Text> domains;
  std::uint8_t flags = 0;  // bits of kInParts, kSelfContained
  PEN_FIELDS(offset, queue_id, generation, appended, arrived, size, remaining, sender, domains, flags)
};
inline constexpr std::uint8_t kInParts = 1;        // whether it was completed is not known here: read it
inline constexpr std::uint8_t kSelfContained = 2;  // Envelope::self_contained
using IndexEntry = IndexEntryOf<std::string>;
using IndexEntryView = IndexEntryOf<std::string_view>;
/// Entries in their encoded form, as a log gathers them.
struct EncodedEntries {
  std::uint64_t count = 0;
  std::string text;
  template <class Encoder>
  void visit_fields(Encoder&& encoder) const {
    encoder.varint(count);
    encoder.raw(text);
  }
};
/// Entries is a vector of them, or EncodedEntries to write.
template <class Entries>
struct IndexBodyOf {
  std::uint32_t previous = 0;  // offset of the index record before; 0: none
  Entries entries;
  std::vector<std::uint32_t> intervals;  // of the entries, as in the envelope
  // of the segment's queue ids (id_filter.h), in its last index record; empty: none
  std::string filter;
  PEN_FIELDS(previous, entries, intervals, filter)
};
using IndexBody = IndexBodyOf<std::vector<IndexEntry>>;
using GatheredIndex = IndexBodyOf<EncodedEntries>;

// --- restart positions ---

struct SavedLog {
  std::int64_t interval = 0;
  Position runner;
  Position end;              // everything below was synced and is consistent
  std::uint64_t oldest = 0;  // first use still needed
  PEN_FIELDS(interval, runner, end, oldest)
};
struct SavedSegment {
  std::uint64_t use = 0;
  Slot slot = 0;
  PEN_FIELDS(use, slot)
};
/// One of several runners of a log.
struct SavedRunner {
  std::uint64_t interval = 0;  // seconds
  Position at;
  PEN_FIELDS(interval, at)
};
struct SavedPositions {
  std::uint32_t version = kFormatVersion;
  std::uint64_t sequence = 0;
  std::uint32_t epoch = 0;
  std::uint64_t next_use = 1;
  std::uint32_t segment_size = 0;
  Position suffix;  // start of the working suffix in the journal
  std::vector<SavedLog> logs;
  std::vector<SavedSegment> segments;
  std::vector<SavedRunner> runners;  // of the shared retry log
  std::vector<Slot> damaged;         // not to be used again: to be set aside when nothing in them is needed
  PEN_FIELDS(version, sequence, epoch, next_use, segment_size, suffix, logs, segments, runners, damaged)
};
inline constexpr std::uint64_t kPositionsCopy = 256 * 1024;  // two copies, written in turn
std::string encode_positions(const SavedPositions& positions);
std::optional<SavedPositions> decode_positions(Bytes copy);

}  // namespace pen::queue_log
