// Indexed table files, lmdb and cdb, in any state: any bytes, and well-made files with bytes changed or cut off.
// Look-ups and listings answer or fail; they never crash, hang, or read beyond the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "lib/base/check.h"
#include "lib/map/cdb_file.h"
#include "lib/map/lmdb_file.h"

using namespace pen::map;

namespace {

/// A well-made file with keys on several pages, and a value too long for one page.
std::string well_made(bool cdb) {
  char name[] = "/tmp/pen-fuzz-XXXXXX";
  PEN_CHECK(::mkdtemp(name) != nullptr);
  const std::string path = std::string(name) + "/table";
  std::vector<TableEntry> entries;
  for (unsigned i = 0; i < 120; ++i)
    entries.push_back({i + 1, "key" + std::to_string(i), std::string(i == 7 ? 6000 : 40, 'v')});
  const auto made = cdb ? build_cdb(path, entries, "f", {}) : build_lmdb(path, entries, "f", {});
  PEN_CHECK(made.has_value());
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  ::unlink(path.c_str());
  ::rmdir(name);
  return bytes;
}

template <class File>
void read_all(const std::string& path, std::size_t size) {
  auto file = File::open(path);
  if (!file) return;
  for (const char* key : {"key7", "key99", "absent", ""})
    if (const auto value = (*file)->find(key); value && *value) PEN_CHECK((*value)->size() <= size);
  std::size_t seen = 0;
  (void)(*file)->each([&](std::string_view key, std::string_view value) {
    PEN_CHECK(key.size() <= size && value.size() <= size);
    return ++seen < 10000;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string kWellMade[] = {well_made(false), well_made(true)};
  static const int fd = ::memfd_create("table", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  PEN_CHECK(fd >= 0);
  if (size < 2) return 0;
  const bool cdb = (data[0] & 1) != 0;
  std::string bytes;
  if ((data[0] & 2) != 0) {
    bytes.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  } else {
    bytes = kWellMade[cdb ? 1 : 0];
    for (std::size_t at = 2; at + 4 <= size; at += 4) {
      const std::size_t where = data[at] + 256U * data[at + 1] + 65536U * data[at + 2];
      bytes[where % bytes.size()] = static_cast<char>(data[at + 3]);
    }
    bytes.resize(bytes.size() - bytes.size() * (data[1] & 15) / 16);
  }
  PEN_CHECK(::ftruncate(fd, 0) == 0);
  PEN_CHECK(::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  if (cdb)
    read_all<CdbFile>(path, bytes.size());
  else
    read_all<LmdbFile>(path, bytes.size());
  return 0;
}
