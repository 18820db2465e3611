#include "anvil/memory.h"

#include <utility>

namespace pen::anvil {
namespace {

constexpr std::size_t kMapSize = std::size_t{1} << 28;
constexpr std::size_t kPlaces = 2000;  // of the tables, looked at for stale records after each pause

}  // namespace

Memory::Memory(async::Loop& loop, const std::string& data_directory, remembered::WrittenBehind::Warn warn)
    : loop_(loop),
      file_(loop, *this,
            {.directory = data_directory + "/senders",
             .map_size = kMapSize,
             .words = {.anew = "greylisting and quotas begin anew",
                       .only_here = "greylisting and quotas are remembered by this process only",
                       .forgotten = "what is learned of senders now is lost at the next restart"}},
            std::move(warn)),
      tasks_(loop) {}

async::Task<void> Memory::ready() {
  if (!std::exchange(started_, true)) {
    file_.start();
    tasks_.spawn("cleaning", clean(this));
  }
  return file_.loaded();
}

async::Task<void> Memory::clean(Memory* memory) {
  co_await memory->file_.loaded();
  while (co_await memory->loop_.sleep(kCleanEvery, {.cancel = &memory->stopping_})) {
    memory->greylist_.collect_some(memory->loop_.clock().wall_now(), kPlaces);
    memory->quotas_.collect_some(memory->loop_.clock().wall_now(), kPlaces);
    if (memory->changed()) memory->file_.write_soon();
  }
}

void Memory::take(std::string_view key, std::string_view value) {
  greylist_.take(key, value);
  quotas_.take(key, value);
}

std::vector<Change> Memory::take_changes(std::size_t most) {
  return greylist_.changed() ? greylist_.take_changes(most) : quotas_.take_changes(most);
}

async::Task<void> Memory::finish() {
  stopping_.raise();
  if (!started_) co_return;
  co_await file_.finish();
  (void)co_await tasks_.drained();
}

}  // namespace pen::anvil
