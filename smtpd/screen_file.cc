#include "smtpd/screen_file.h"

#include "lib/base/log.h"

namespace pen::smtpd {
namespace {

constexpr std::size_t kMapSize = std::size_t{1} << 30;

}  // namespace

ScreenFile::ScreenFile(async::Loop& loop, Screener& screener, Times times)
    : loop_(loop),
      screener_(screener),
      times_(times),
      file_(loop, screener.cache(),
            {.directory = screener.screening().cache_directory,
             .map_size = kMapSize,
             .words = {.anew = "clients are tested anew",
                       .only_here = "clients that pass are known to this process only",
                       .forgotten = "clients that passed are forgotten at the next restart"}},
            [](const std::string& line) { log::warning("postscreen_cache_map: {}", line); }),
      tasks_(loop) {}

void ScreenFile::start() {
  screener_.on_change = [this] { file_.write_soon(); };
  file_.start();
  if (times_.clean_each > milliseconds(0)) tasks_.spawn("cleaning of the clients that passed", clean(this));
}

async::Task<void> ScreenFile::clean(ScreenFile* file) {
  while (co_await file->loop_.sleep(file->times_.clean_each, {.cancel = &file->stopping_})) {
    const auto result = file->screener_.cache().drop_old(file->loop_.clock().wall_now(), file->times_.retention);
    // As Postfix words it, for log readers.
    log::info("cache postscreen_cache_map full cleanup: retained={} dropped={} entries", result.kept, result.dropped);
    file->file_.write_soon();
  }
}

async::Task<void> ScreenFile::finish() {
  stopping_.raise();
  (void)co_await tasks_.drained();
  co_await file_.finish();
}

}  // namespace pen::smtpd
