// The file of restart positions, and a segment header, with any content.
#include "lib/base/check.h"
#include "lib/base/codec.h"
#include "lib/queue/queue_log/format.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pen;
  using namespace pen::queue_log;
  const Bytes bytes{reinterpret_cast<const std::byte*>(data), size};
  (void)decode_positions(bytes);
  (void)decode_segment_header(bytes);
  (void)other_version_of_header(bytes);
  (void)other_version_of_positions(bytes);
  if (auto positions = decode<SavedPositions>(as_text(bytes))) {
    const std::string encoded = encode_positions(*positions);
    const auto again = decode_positions(as_bytes(encoded));
    PEN_CHECK(again.has_value() == (positions->version == kFormatVersion));
    PEN_CHECK(other_version_of_positions(as_bytes(encoded)).has_value() != again.has_value());
  }
  return 0;
}
