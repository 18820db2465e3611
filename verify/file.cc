#include "verify/file.h"

#include <cerrno>
#include <utility>

#include "lib/base/log.h"
#include "lib/base/text.h"

namespace pen::verify {
namespace {

constexpr milliseconds kTryAgain{50};
constexpr std::size_t kAtOnce = 2000;     // records taken over in one turn of the loop
constexpr std::size_t kWritten = 20'000;  // changes in one transaction
// Address space, not memory: several times what a full cache takes, since LMDB writes changed pages anew.
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
    : loop_(loop), directory_(std::move(directory)), cache_(cache), changed_(loop), pool_(loop, 1), tasks_(loop) {}

async::Task<void> File::open() {
  const SteadyTime end = loop_.now() + kPatience;
  while (!directory_.empty() && !store_) {
    auto opened = co_await pool_.run(
        [directory = directory_] { return lmdb::HintStore::open(directory, "addresses are verified anew", kMapSize); });
    if (opened) {
      store_ = *std::move(opened);
      if (!store_->warning().empty()) log::warning("{}", store_->warning());
      break;
    }
    const bool busy = opened.error().is_errno(EWOULDBLOCK) && loop_.now() < end;
    const bool again = busy && co_await loop_.sleep(kTryAgain, {.cancel = &stopping_});
    if (!again) {
      log::warning("{}: results of address probes are known to this process only", opened.error().message());
      break;
    }
  }
  if (store_) co_await read();
  tasks_.spawn("cache", keep_writing(this));
}

async::Task<void> File::read() {
  using Records = std::vector<std::pair<std::string, std::string>>;
  auto read = co_await pool_.run([store = store_]() -> Result<Records> {
    Records out;
    PEN_TRY(store->each([&](std::string_view key, std::string_view value) { out.emplace_back(key, value); }));
    return out;
  });
  if (!read) {
    log::warning("{}: addresses are verified anew", read.error().message());
    co_return;
  }
  std::size_t taken = 0;
  for (const auto& [key, value] : *read) {
    cache_.take(key, value, loop_.clock().wall_now(), true);
    if (++taken % kAtOnce == 0) co_await loop_.yield();
  }
}

async::Task<void> File::keep_writing(File* file) {
  while (co_await file->changed_.wait({.cancel = &file->stopping_})) {
    file->changed_.reset();
    co_await file->write();
    if (!co_await file->loop_.sleep(kWriteEvery, {.cancel = &file->stopping_})) co_return;
  }
}

async::Task<void> File::write() {
  while (cache_.changed()) {
    auto changes = cache_.take_changes(kWritten);
    if (!store_) continue;
    const auto written =
        co_await pool_.run([store = store_, changes = std::move(changes)] { return store->write(changes); });
    const bool failed = !written;
    if (failed && !std::exchange(failing_, true))
      log::warning("{}: results of address probes are lost at the next restart", written.error().message());
    if (!failed) failing_ = false;
  }
}

async::Task<void> File::finish() {
  stopping_.raise();
  (void)co_await tasks_.drained();  // its waits end now, but for a write
  co_await write();
  store_.reset();
}

}  // namespace pen::verify
