#include "smtpd/screen_file.h"

#include <cerrno>
#include <utility>

#include "lib/base/log.h"

namespace pen::smtpd {
namespace {

constexpr milliseconds kTryAgain{50};
constexpr std::size_t kAtOnce = 2000;     // records taken over in one turn of the loop
constexpr std::size_t kWritten = 20'000;  // changes in one transaction
// Address space, not memory: several times what a full cache takes, since LMDB writes changed pages anew.
constexpr std::size_t kMapSize = std::size_t{1} << 30;

}  // namespace

ScreenFile::ScreenFile(async::Loop& loop, Screener& screener, Times times)
    : loop_(loop), screener_(screener), times_(times), changed_(loop), pool_(loop, 1), tasks_(loop) {}

void ScreenFile::start() {
  screener_.on_change = [this] { changed_.set(); };
  tasks_.spawn("cache of tested clients", run(this));
  if (times_.clean_each > milliseconds(0)) tasks_.spawn("cleaning of that cache", clean(this));
}

async::Task<void> ScreenFile::run(ScreenFile* file) {
  co_await file->open();
  while (co_await file->changed_.wait({.cancel = &file->stopping_})) {
    file->changed_.reset();
    co_await file->write();
    if (!co_await file->loop_.sleep(kWriteEvery, {.cancel = &file->stopping_})) co_return;
  }
}

async::Task<void> ScreenFile::clean(ScreenFile* file) {
  while (co_await file->loop_.sleep(file->times_.clean_each, {.cancel = &file->stopping_})) {
    const auto result = file->screener_.cache().drop_old(file->loop_.clock().wall_now(), file->times_.retention);
    // As Postfix words it, for log readers.
    log::info("cache postscreen_cache_map full cleanup: retained={} dropped={} entries", result.kept, result.dropped);
    file->changed_.set();
  }
}

async::Task<void> ScreenFile::open() {
  const SteadyTime end = loop_.now() + kPatience;
  const std::string& directory = screener_.screening().cache_directory;
  while (!directory.empty() && !store_) {
    auto opened = co_await pool_.run(
        [directory] { return lmdb::HintStore::open(directory, "clients are tested anew", kMapSize); });
    if (opened) {
      store_ = *std::move(opened);
      if (!store_->warning().empty()) log::warning("{}", store_->warning());
      break;
    }
    const bool busy = opened.error().is_errno(EWOULDBLOCK) && loop_.now() < end;
    const bool again = busy && co_await loop_.sleep(kTryAgain, {.cancel = &stopping_});
    if (!again) {
      log::warning("postscreen_cache_map: {}: clients that pass are known to this process only",
                   opened.error().message());
      break;
    }
  }
  if (store_) co_await read();
}

async::Task<void> ScreenFile::read() {
  using Records = std::vector<std::pair<std::string, std::string>>;
  auto read = co_await pool_.run([store = store_]() -> Result<Records> {
    Records out;
    PEN_TRY(store->each([&](std::string_view key, std::string_view value) { out.emplace_back(key, value); }));
    return out;
  });
  if (!read) {
    log::warning("postscreen_cache_map: {}: clients are tested anew", read.error().message());
    co_return;
  }
  std::size_t taken = 0;
  for (const auto& [key, value] : *read) {
    screener_.cache().take(key, value);
    if (++taken % kAtOnce == 0) co_await loop_.yield();
  }
  if (screener_.cache().changed()) changed_.set();
}

async::Task<void> ScreenFile::write() {
  while (screener_.cache().changed()) {
    auto changes = screener_.cache().take_changes(kWritten);
    if (!store_) continue;
    const auto written =
        co_await pool_.run([store = store_, changes = std::move(changes)] { return store->write(changes); });
    const bool failed = !written;
    if (failed && !std::exchange(failing_, true))
      log::warning("postscreen_cache_map: {}: clients that passed are forgotten at the next restart",
                   written.error().message());
    if (!failed) failing_ = false;
  }
}

async::Task<void> ScreenFile::finish() {
  stopping_.raise();
  (void)co_await tasks_.drained();  // its waits end now, but for a write
  co_await write();
  store_.reset();
}

}  // namespace pen::smtpd
