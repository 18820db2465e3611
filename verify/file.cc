#include "verify/file.h"

#include <cerrno>
#include <utility>

#include "lib/base/log.h"
#include "lib/base/text.h"

namespace pen::verify {
namespace {

constexpr std::size_t kMapSize = std::size_t{1} << 30;

}  // namespace

Result<std::string> cache_directory(std::string_view map) {
  map = trim(map);
  const auto colon = map.find(':');
  if (map.empty() || (colon == map.npos && map.starts_with('/'))) return std::string(map);
  std::string_view type = map.substr(0, colon);
  std::string_view path = colon == map.npos ? std::string_view() : map.substr(colon + 1);
  if (type == "proxy") return cache_directory(path);
  if ((type != "btree" && type != "hash" && type != "lmdb") || !path.starts_with('/'))
    return fail_errno("address_verify_map: not btree:, hash: or lmdb: and an absolute path", EINVAL);
  return std::string(path);
}

File::File(async::Loop& loop, std::string directory, Cache& cache)
    : loop_(loop),
      cache_(cache),
      file_(loop, *this,
            {.directory = std::move(directory),
             .map_size = kMapSize,
             .words = {.anew = "addresses are verified anew",
                       .only_here = "results of address probes are known to this process only",
                       .forgotten = "results of address probes are lost at the next restart"}},
            log::as_warning) {}

async::Task<void> File::open() {
  file_.start();
  return file_.loaded();
}

void File::take(std::string_view key, std::string_view value) {
  cache_.take(key, value, loop_.clock().wall_now(), true);
}

}  // namespace pen::verify
