#include "lib/queue/queue_log/format.h"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <sstream>

#include "lib/base/codec.h"

using namespace pen;
using namespace pen::queue_log;

namespace {

std::string hex(std::string_view bytes, std::uint32_t offset) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 16) {
    out += fmt::format("{:06x} ", offset + i);
    for (char c : bytes.substr(i, 16)) out += fmt::format(" {:02x}", static_cast<unsigned char>(c));
    out += '\n';
  }
  return out;
}

struct Example {
  SegmentHeader segment;
  std::string start;

  Example() {
    segment.slot = 3;
    segment.size = 64U << 20;
    segment.use = 7;
    segment.key = 0x0123456789abcdef;
    segment.epoch = 2;
    const StartBody body{"4bGNsx3Ynxz1kGz8", 0, {7, 1024}};
    RecordHeader header;
    header.use = 7;
    header.offset = 0x1200;
    header.durable = 0x1200;
    header.epoch = 2;
    header.type = RecordType::start;
    header.flags = kFirstPart | kLastPart;
    encode_record(start, header, segment.key, as_bytes(encode(body)));
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_log_format)

BOOST_FIXTURE_TEST_CASE(the_example_of_the_format_page_is_what_the_code_writes, Example) {
  std::ifstream page("docs/queue-format.md");
  BOOST_REQUIRE(page.good());
  std::stringstream text;
  text << page.rdbuf();
  const std::string wanted = hex(start, 0x1200);
  BOOST_CHECK_MESSAGE(text.str().find(wanted) != std::string::npos, "docs/queue-format.md should show\n" << wanted);
  const std::string mark = fmt::format("{:08x}", garbage_mark(segment, 0x1200));
  BOOST_CHECK_MESSAGE(text.str().find(mark) != std::string::npos, "its garbage mark is " << mark);
}

BOOST_FIXTURE_TEST_CASE(a_record_is_read_back, Example) {
  const auto header = decode_record(as_bytes(start), segment, 0x1200);
  BOOST_REQUIRE(header.has_value());
  BOOST_TEST((header->type == RecordType::start));
  const auto body = decode<StartBody>(as_text(as_bytes(start).subspan(kRecordHeader, header->length)));
  BOOST_REQUIRE(body.has_value());
  BOOST_TEST(body->queue_id == "4bGNsx3Ynxz1kGz8");
}

BOOST_FIXTURE_TEST_CASE(any_flipped_bit_but_in_mark_and_padding_is_noticed, Example) {
  const std::size_t used = kRecordHeader + decode_record(as_bytes(start), segment, 0x1200)->length;
  for (std::size_t bit = 32; bit < used * 8; ++bit) {
    std::string flipped = start;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    BOOST_TEST(!decode_record(as_bytes(flipped), segment, 0x1200).has_value());
  }
}

BOOST_FIXTURE_TEST_CASE(a_record_counts_only_at_its_place_in_its_use_of_the_segment, Example) {
  BOOST_TEST(!decode_record(as_bytes(start), segment, 0x1208).has_value());
  SegmentHeader later = segment;
  later.use = 8;
  BOOST_TEST(!decode_record(as_bytes(start), later, 0x1200).has_value());
  SegmentHeader other_key = segment;
  other_key.key ^= 1;
  BOOST_TEST(!decode_record(as_bytes(start), other_key, 0x1200).has_value());
}

BOOST_AUTO_TEST_CASE(of_two_header_copies_the_higher_use_counts) {
  SegmentHeader old;
  old.slot = 1;
  old.size = 8192;
  old.use = 4;
  SegmentHeader fresh = old;
  fresh.use = 9;
  const std::string torn =
      encode_segment_header(fresh).substr(0, kSectorSize) + encode_segment_header(old).substr(kSectorSize);
  BOOST_TEST(decode_segment_header(as_bytes(torn))->use == 9u);
  std::string broken = encode_segment_header(fresh);
  broken[20] ^= 1;
  BOOST_TEST(decode_segment_header(as_bytes(broken))->use == 9u);
  broken[kSectorSize + 20] ^= 1;
  BOOST_TEST(!decode_segment_header(as_bytes(broken)).has_value());
}

BOOST_AUTO_TEST_CASE(ordinal_sets_stay_sorted_and_disjoint) {
  OrdinalSet set = OrdinalSet::span(0, 100000);
  set.remove(5);
  set.remove(OrdinalSet::span(10, 20));
  BOOST_TEST(set.count() == 99989u);
  BOOST_TEST(!set.contains(5));
  BOOST_TEST(set.contains(6));
  BOOST_TEST(!set.contains(19));
  BOOST_TEST(set.contains(20));
  set.add(OrdinalSet::span(5, 20));
  BOOST_TEST((set == OrdinalSet::span(0, 100000)));
  BOOST_TEST(set.well_formed());
}

BOOST_AUTO_TEST_SUITE_END()
