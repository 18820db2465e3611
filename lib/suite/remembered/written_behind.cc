#include "lib/suite/remembered/written_behind.h"

#include <cerrno>
#include <utility>

namespace pen::remembered {
namespace {

constexpr milliseconds kTryAgain{50};
constexpr std::size_t kAtOnce = 2000;     // records taken over in one turn of the loop
constexpr std::size_t kWritten = 20'000;  // changes in one transaction

}  // namespace

WrittenBehind::WrittenBehind(async::Loop& loop, Table& table, Options options, Warn warn)
    : loop_(loop),
      table_(table),
      options_(std::move(options)),
      warn_(std::move(warn)),
      loaded_(loop),
      changed_(loop),
      pool_(loop, 1),
      tasks_(loop) {}

void WrittenBehind::start() {
  if (!std::exchange(started_, true)) tasks_.spawn("file of hints", run(this));
}

async::Task<void> WrittenBehind::loaded() {
  (void)co_await loaded_.wait();  // bounded by open()
}

async::Task<void> WrittenBehind::run(WrittenBehind* file) {
  co_await file->open();
  if (file->store_) co_await file->read();
  file->loaded_.set();
  while (co_await file->changed_.wait({.cancel = &file->stopping_})) {
    file->changed_.reset();
    co_await file->write();
    if (!co_await file->loop_.sleep(kWriteEvery, {.cancel = &file->stopping_})) co_return;
  }
}

async::Task<void> WrittenBehind::open() {
  const SteadyTime end = loop_.now() + kPatience;
  while (!options_.directory.empty()) {
    auto opened =
        co_await pool_.run([directory = options_.directory, anew = options_.words.anew, size = options_.map_size] {
          return lmdb::HintStore::open(directory, anew, size);
        });
    if (opened) {
      store_ = *std::move(opened);
      if (!store_->warning().empty()) warn_(store_->warning());
      co_return;
    }
    const bool busy = opened.error().is_errno(EWOULDBLOCK) && loop_.now() < end;
    const bool again = busy && co_await loop_.sleep(kTryAgain, {.cancel = &stopping_});
    if (!again) co_return warn_(opened.error().message() + ": " + options_.words.only_here);
  }
}

async::Task<void> WrittenBehind::read() {
  using Records = std::vector<std::pair<std::string, std::string>>;
  auto read = co_await pool_.run([store = store_]() -> Result<Records> {
    Records out;
    PEN_TRY(store->each([&](std::string_view key, std::string_view value) { out.emplace_back(key, value); }));
    return out;
  });
  if (!read) co_return warn_(read.error().message() + ": " + options_.words.anew);
  std::size_t taken = 0;
  for (const auto& [key, value] : *read) {
    table_.take(key, value);
    if (++taken % kAtOnce == 0) co_await loop_.yield();
  }
  if (table_.changed()) changed_.set();
}

async::Task<void> WrittenBehind::write() {
  while (table_.changed()) {
    auto changes = table_.take_changes(kWritten);
    if (!store_) continue;
    const auto written =
        co_await pool_.run([store = store_, changes = std::move(changes)] { return store->write(changes); });
    const bool failed = !written;
    if (failed && !std::exchange(failing_, true)) warn_(written.error().message() + ": " + options_.words.forgotten);
    if (!failed) failing_ = false;
  }
}

async::Task<void> WrittenBehind::finish() {
  stopping_.raise();
  if (!started_) co_return;
  (void)co_await tasks_.drained();  // its waits end now, but for a write
  co_await write();
  store_.reset();
}

}  // namespace pen::remembered
