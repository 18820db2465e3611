// // Table files with bytes changed at random: refused, or harmless. A crash would end the test program.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "lib/base/random.h"
#include "lib/map/lmdb_file.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::map;

namespace {

constexpr unsigned kEntries = 3000;

std::string key(unsigned i) { return "key" + std::to_string(i * 7919 % kEntries); }

struct Damage {
  testing::ScratchDir dir;
  std::string good;
  Random random{20260917};

  Damage() {
    std::vector<TableEntry> entries;
    for (unsigned i = 0; i < kEntries; ++i) {
      // Some values do not fit into a page.
      const std::size_t size = i % 100 == 0 ? 9000 : 40;
      entries.push_back({i, key(i), std::string(size, static_cast<char>('a' + i % 26))});
    }
    BOOST_REQUIRE(build_lmdb(dir.file("t.lmdb"), entries, "t", {}).has_value());
    std::ifstream file(dir.file("t.lmdb"), std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(file), {});
  }

  /// Whether the file could be opened; its answers may then be anything.
  bool survives(const std::string& content) {
    const std::string path = dir.write("d.lmdb", content);
    const auto file = LmdbFile::open(path);
    if (!file) {
      BOOST_TEST(file.error().message().find(path) != std::string::npos);
      return false;
    }
    std::size_t bytes = 0;
    for (unsigned i = 0; i < kEntries; i += 7) {
      const auto value = (*file)->find(key(i));
      if (value && *value) bytes += (*value)->size();
    }
    const auto all = (*file)->each([&](std::string_view, std::string_view value) {
      bytes += value.size();
      return true;
    });
    BOOST_TEST((!all || bytes <= std::size_t{1} << 30));
    return true;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(lmdb_damage, Damage)

BOOST_AUTO_TEST_CASE(a_sound_file_is_taken) { BOOST_TEST(survives(good)); }

BOOST_AUTO_TEST_CASE(a_file_cut_anywhere_is_refused) {
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{4096}, std::size_t{4097},
                           std::size_t{8192}, good.size() / 2, good.size() - 4096}) {
    BOOST_TEST_CONTEXT(size) { BOOST_TEST(!survives(good.substr(0, size))); }
  }
}

BOOST_AUTO_TEST_CASE(a_file_of_something_else_is_refused) {
  BOOST_TEST(!survives(std::string(100'000, '\0')));
  BOOST_TEST(!survives(std::string(100'000, '\xff')));
}

BOOST_AUTO_TEST_CASE(changed_page_headers_and_nodes_never_crash) {
  unsigned refused = 0;
  constexpr unsigned kRounds = 1500;
  for (unsigned round = 0; round < kRounds; ++round) {
    std::string content = good;
    const std::size_t pages = content.size() / 4096;
    for (std::uint64_t n = random.below(3) + 1; n > 0; --n) {
      // The places of liblmdb's own numbers: meta pages, page headers, tables of nodes, nodes.
      const std::size_t page = random.below(4) == 0 ? random.below(2) : random.below(pages);
      const std::size_t reach = random.below(2) == 0 ? 200 : 4096;
      content[page * 4096 + random.below(reach)] = static_cast<char>(random.below(256));
    }
    refused += survives(content) ? 0 : 1;
  }
  BOOST_TEST(refused > kRounds / 10);
}

BOOST_AUTO_TEST_CASE(pages_written_over_each_other_never_crash) {
  unsigned refused = 0;
  const std::size_t pages = good.size() / 4096;
  for (unsigned round = 0; round < 300; ++round) {
    std::string content = good;
    const std::size_t from = random.below(pages), to = random.below(pages);
    content.replace(to * 4096, 4096, good.substr(from * 4096, 4096));
    const bool taken = survives(content);
    refused += taken ? 0 : 1;
  }
  BOOST_TEST(refused > 100);
}

BOOST_AUTO_TEST_SUITE_END()
