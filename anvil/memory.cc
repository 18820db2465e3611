#include "anvil/memory.h"

#include <cerrno>
#include <utility>

namespace pen::anvil {
namespace {

constexpr milliseconds kTryAgain{50};
// Address space, not memory: twice what full tables take, since LMDB writes changed pages anew.
constexpr std::size_t kMapSize = std::size_t{1} << 28;
constexpr std::size_t kAtOnce = 2000;     // records taken over in one turn of the loop
constexpr std::size_t kPlaces = 2000;     // of the tables, looked at for stale records after each pause
constexpr std::size_t kWritten = 20'000;  // changes in one transaction

}  // namespace

Memory::Memory(async::Loop& loop, const std::string& data_directory, Warn warn)
    : loop_(loop),
      directory_(data_directory + "/senders"),
      warn_(std::move(warn)),
      loaded_(loop),
      pool_(loop, 1),
      tasks_(loop) {}

async::Task<void> Memory::ready() {
  if (!std::exchange(started_, true)) tasks_.spawn("memory", run(this));
  (void)co_await loaded_.wait();  // bounded by open()
}

async::Task<void> Memory::run(Memory* memory) {
  co_await memory->open();
  co_await memory->load();
  memory->loaded_.set();
  while (co_await memory->loop_.sleep(kWriteEvery, {.cancel = &memory->stopping_})) {
    memory->greylist_.collect_some(memory->loop_.clock().wall_now(), kPlaces);
    memory->quotas_.collect_some(memory->loop_.clock().wall_now(), kPlaces);
    co_await memory->write();
  }
}

async::Task<void> Memory::open() {
  const SteadyTime end = loop_.now() + kPatience;
  for (;;) {
    auto opened = co_await pool_.run([directory = directory_] {
      return lmdb::HintStore::open(directory, "greylisting and quotas begin anew", kMapSize);
    });
    if (opened) {
      store_ = *std::move(opened);
      if (!store_->warning().empty()) warn_(store_->warning());
      co_return;
    }
    const bool busy = opened.error().is_errno(EWOULDBLOCK) && loop_.now() < end;
    const bool again = busy && co_await loop_.sleep(kTryAgain, {.cancel = &stopping_});
    if (!again) {
      warn_(opened.error().message() + ": greylisting and quotas are remembered by this process only");
      co_return;
    }
  }
}

async::Task<void> Memory::load() {
  using Records = std::vector<std::pair<std::string, std::string>>;
  if (!store_) co_return;
  auto read = co_await pool_.run([store = store_]() -> Result<Records> {
    Records out;
    PEN_TRY(store->each([&](std::string_view key, std::string_view value) { out.emplace_back(key, value); }));
    return out;
  });
  if (!read) {
    warn_(read.error().message() + ": greylisting and quotas begin anew");
    co_return;
  }
  std::size_t taken = 0;
  for (const auto& [key, value] : *read) {
    greylist_.take(key, value);
    quotas_.take(key, value);
    if (++taken % kAtOnce == 0) co_await loop_.yield();
  }
}

async::Task<void> Memory::write() {
  while (greylist_.changed() || quotas_.changed()) {
    auto changes = greylist_.changed() ? greylist_.take_changes(kWritten) : quotas_.take_changes(kWritten);
    if (!store_) continue;
    const auto written =
        co_await pool_.run([store = store_, changes = std::move(changes)] { return store->write(changes); });
    const bool failed = !written;
    if (failed && !std::exchange(failing_, true))
      warn_(written.error().message() + ": what is learned of senders now is lost at the next restart");
    if (!failed) failing_ = false;
  }
}

async::Task<void> Memory::finish() {
  stopping_.raise();
  if (!started_) co_return;
  (void)co_await tasks_.drained();  // its waits end now, but for a write
  co_await write();
  store_.reset();
}

}  // namespace pen::anvil
