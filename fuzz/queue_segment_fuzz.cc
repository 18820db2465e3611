// A segment with any content: header, records, holes, chains, index records, and decoding the bodies.
#include <cstring>

#include "lib/base/check.h"
#include "lib/base/codec.h"
#include "lib/queue/queue_log/dump.h"
#include "lib/queue/queue_log/id_filter.h"
#include "lib/queue/queue_log/log_reader.h"

namespace {

using namespace pen;
using namespace pen::queue_log;

class OneSegment final : public Storage {
 public:
  explicit OneSegment(std::string bytes) : bytes_(std::move(bytes)) {}
  Result<std::vector<SlotInfo>> list() override { return std::vector<SlotInfo>{{1, bytes_.size()}}; }
  Result<void> allocate(Slot, std::uint64_t) override { return {}; }
  Result<void> write(Slot, std::uint64_t, Bytes) override { return {}; }
  Result<void> sync(Slot) override { return {}; }
  Result<void> drop_cache(Slot) override { return {}; }
  Result<void> set_aside(Slot) override { return {}; }
  Result<void> read(Slot, std::uint64_t offset, MutableBytes into) override {
    PEN_CHECK(offset + into.size() <= bytes_.size());
    std::memcpy(into.data(), bytes_.data() + offset, into.size());
    return {};
  }

 private:
  std::string bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The input is a list of pieces: a kind byte, a length byte, bytes. Kind 0 is stored unchanged; any other becomes
  // the body of a valid record of that type, so that the fuzzer gets past the checksum.
  SegmentHeader header;
  header.slot = 1;
  header.size = kMinSegment;
  header.use = 1;
  header.key = 42;
  std::string segment = encode_segment_header(header);
  while (size >= 2 && segment.size() < kMinSegment) {
    const std::uint8_t kind = data[0];
    const std::size_t length = std::min<std::size_t>(data[1], size - 2);
    const Bytes piece{reinterpret_cast<const std::byte*>(data + 2), length};
    if (kind == 0) {
      segment.append(as_text(piece));
    } else {
      segment.resize((segment.size() + 7) & ~std::size_t{7});
      RecordHeader record;
      record.use = 1;
      record.offset = static_cast<std::uint32_t>(segment.size());
      record.type = static_cast<RecordType>(kind & 7);
      record.flags = static_cast<std::uint8_t>(kind >> 3 & 7);
      record.mark = kind >> 6;
      encode_record(segment, record, header.key, piece);
    }
    data += 2 + length;
    size -= 2 + length;
  }
  segment.resize(kMinSegment);

  OneSegment storage(std::move(segment));
  const auto the_segment = [&](std::uint64_t use) { return use <= header.use ? std::optional(header) : std::nullopt; };
  LogReader reader(storage, the_segment, {}, {}, SegmentReader::Search::whole);
  Position last;
  for (;;) {
    const auto got = reader.next();
    PEN_CHECK(got.has_value());
    if (*got == LogReader::Got::end) break;
    if (*got != LogReader::Got::record) continue;
    const auto& record = reader.record();
    PEN_CHECK(last < record.position, "positions rise");
    last = record.position;
    const auto text = as_text(record.body);
    if (auto envelope = decode<EnvelopeView>(text)) (void)well_formed(*envelope);
    (void)decode<StartBody>(text);
    (void)decode<DeliveryBody>(text);
    (void)decode<FinishBody>(text);
    (void)decode<TombstoneBody>(text);
    (void)decode<IndexBody>(text);
  }
  // Index records, which the log's reader skips, and each record read by itself.
  SegmentReader single(storage, header, kDataStart, SegmentReader::Search::whole);
  for (;;) {
    const auto got = single.next();
    PEN_CHECK(got.has_value());
    if (*got == SegmentReader::Got::end) break;
    if (*got != SegmentReader::Got::record) continue;
    const auto again = read_record(storage, header, single.offset(), size % 64);
    PEN_CHECK(again.has_value() && again->has_value() && as_text((*again)->body()) == as_text(single.body()),
              "a record is the same however it is read");
    if (const auto index = decode<IndexBody>(as_text(single.body())))
      (void)IdFilter::may_contain(index->filter, IdFilter::hash("4bGNsx3Ynxz1kGz8"));
  }
  std::size_t lines = 0;
  Dump dump({.verbose = (size & 1) != 0, .payload = {}}, [&lines](const std::string&) { ++lines; });
  PEN_CHECK(dump.segment(storage, 1, kMinSegment).has_value() && lines > dump.records(),
            "whatever the bytes are, they are shown");
  for (std::uint32_t at = 0; at < kMinSegment; at += 8) PEN_CHECK(read_record(storage, header, at, 4096).has_value());
  return 0;
}
