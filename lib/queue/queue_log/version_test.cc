// A queue that another version of the format wrote: refused as a whole, and left as it is.
#include <algorithm>
#include <map>
#include <vector>

#include "lib/queue/queue_log/dump.h"
#include "lib/queue/queue_log/format.h"
#include "lib/queue/queue_log/queue_fixture.h"
#include "lib/queue/queue_log/version_check.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::queue_log;

namespace {

constexpr std::uint32_t kLater = kFormatVersion + 1;

struct Versions : Queue {
  Versions() {
    recover();
    for (int i = 0; i < 20; ++i) accept(envelope("m" + std::to_string(i), std::string(2000, 'x')));
    // Both copies of the positions.
    for (int i = 0; i < 2; ++i) {
      log->commits().save_positions();
      commit();
    }
    log.reset();
    disk = disk.cut(FaultStorage::Cut::none, random);
  }
  void write(Slot slot, std::uint64_t at, const std::string& bytes) {
    BOOST_REQUIRE(disk.write(slot, at, as_bytes(bytes)).has_value());
    BOOST_REQUIRE(disk.sync(slot).has_value());
  }
  /// One copy of the slot's header, or of the positions, becomes one of the version after ours.
  void make_later(Slot slot, int copy) {
    const std::string content = disk.content(slot);
    if (slot == kPositionsSlot) {
      const std::uint64_t at = static_cast<std::uint64_t>(copy) * kPositionsCopy;
      auto positions = decode_positions(as_bytes(content).subspan(at, kPositionsCopy));
      BOOST_REQUIRE(positions.has_value());
      positions->version = kLater;
      return write(slot, at, encode_positions(*positions));
    }
    auto header = decode_segment_header(as_bytes(content));
    if (!header) header = SegmentHeader{.slot = slot, .size = options.segment_size, .use = 1};
    write(slot, static_cast<std::uint64_t>(copy) * kSectorSize,
          encode_segment_header(*header, kLater).substr(0, kSectorSize));
  }
  std::map<Slot, std::string> contents() {
    std::map<Slot, std::string> all;
    for (const auto& info : *disk.list()) all[info.slot] = disk.content(info.slot);
    return all;
  }
  void expect_refused(Slot slot) {
    const auto before = contents();
    const auto writes = disk.writes();
    const auto opened = QueueLog::open(disk, options, clock, random);
    BOOST_REQUIRE(!opened.has_value());
    BOOST_TEST(opened.error().is(QueueLogError::other_version));
    const std::string wanted = slot_name(slot) +
                               " was written by version 2 of the queue's format, and this program "
                               "reads version 1 (start the program that wrote it";
    BOOST_TEST(opened.error().message().starts_with(wanted), opened.error().message());
    BOOST_TEST(disk.writes() == writes);
    BOOST_TEST(disk.aside() == 0u);
    BOOST_TEST((contents() == before));
  }
  std::vector<std::string> dumped(std::uint64_t& damage, std::uint64_t& other) {
    std::vector<std::string> lines;
    Dump dump({}, [&](const std::string& line) { lines.push_back(line); });
    BOOST_REQUIRE(dump.directory(disk).has_value());
    damage = dump.damage();
    other = dump.other_versions();
    return lines;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_log)

BOOST_FIXTURE_TEST_CASE(a_queue_with_a_segment_of_another_version_is_refused_and_not_touched, Versions) {
  const FaultStorage whole = disk.cut(FaultStorage::Cut::none, random);
  const auto slots = static_cast<Slot>(whole.slots());
  for (Slot slot = 1; slot < slots; ++slot)  // in use, and free
    for (int copy = 0; copy < 2; ++copy) {
      disk = whole.cut(FaultStorage::Cut::none, random);
      make_later(slot, copy);
      expect_refused(slot);
    }
  // What a start would make anew or write over before it comes to that segment stays as it is too.
  disk = whole.cut(FaultStorage::Cut::none, random);
  make_later(slots - 1, 0);
  disk.lose(kPositionsSlot);
  disk.truncate(slots - 2, 0);
  disk.flip(1, 20, 1);
  disk.flip(1, kSectorSize + 20, 1);
  expect_refused(slots - 1);
}

BOOST_FIXTURE_TEST_CASE(a_queue_with_positions_of_another_version_is_refused_and_not_touched, Versions) {
  const FaultStorage whole = disk.cut(FaultStorage::Cut::none, random);
  for (int copy = 0; copy < 2; ++copy) {
    disk = whole.cut(FaultStorage::Cut::none, random);
    make_later(kPositionsSlot, copy);
    expect_refused(kPositionsSlot);
  }
}

BOOST_FIXTURE_TEST_CASE(who_asks_before_a_change_of_programs_hears_of_another_version, Versions) {
  const FaultStorage whole = disk.cut(FaultStorage::Cut::none, random);
  const pen::testing::ScratchDir dir;
  const auto check = [&] {
    for (const auto& [slot, content] : contents()) dir.write(slot_name(slot), content);
    return check_versions(dir.path().string());
  };
  BOOST_TEST(check().has_value());
  BOOST_TEST(check_versions(dir.file("nothing")).has_value());
  for (const Slot slot : {kPositionsSlot, Slot{1}}) {
    for (int copy = 0; copy < 2; ++copy) {
      disk = whole.cut(FaultStorage::Cut::none, random);
      make_later(slot, copy);
      const auto refused = check();
      BOOST_REQUIRE(!refused.has_value());
      BOOST_TEST(refused.error().is(QueueLogError::other_version));
      BOOST_TEST(refused.error().message().contains(slot_name(slot) + " was written by version 2"));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_version_that_fails_its_checksum_is_damage, Versions) {
  disk.flip(1, 8, 2);
  disk.flip(1, kSectorSize + 8, 2);
  disk.flip(kPositionsSlot, 24, 2);
  open();
  recover();
  BOOST_TEST(log->restart().report().damage_count > 0u);
  std::uint64_t damage = 0, other = 0;
  (void)dumped(damage, other);
  BOOST_TEST(other == 0u);
}

BOOST_FIXTURE_TEST_CASE(who_prints_the_log_is_told_of_another_version, Versions) {
  std::uint64_t damage = 0, other = 0;
  (void)dumped(damage, other);
  BOOST_TEST(other == 0u);
  make_later(1, 0);
  make_later(kPositionsSlot, 1);
  const auto lines = dumped(damage, other);
  BOOST_TEST(other == 2u);
  BOOST_TEST(damage == 0u);
  const std::string told = " was written by version 2 of the queue's format, and this program reads version 1";
  for (const char* what : {"segment-00000001", "positions copy 1"})
    BOOST_TEST(std::count(lines.begin(), lines.end(), what + told) == 1, what);
}

BOOST_AUTO_TEST_SUITE_END()
