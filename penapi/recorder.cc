#include "penapi/recorder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <system_error>

#include "lib/base/lmdb/hints.h"
#include "lib/base/log.h"
#include "penapi/exposition.h"
#include "penapi/overview.h"
#include "penapi/server.h"

namespace pen::api {

namespace {
constexpr std::size_t kMapSize = std::size_t{16} << 20;
}  // namespace

Recorder::Recorder(Server& server, std::string path) : server_(server) {
  if (path.empty()) return;
  lock_ = Fd(::open((path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_) {
    log::warning("penapi_history_map: {}/lock: {}: the plots of the status page begin anew at each start", path,
                 std::generic_category().message(errno));
    return;
  }
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    log::info("penapi_history_map: another process has {}: the plots here are of this process", path);
    return;
  }
  std::string warning;
  auto opened = lmdb::open_or_begin_anew(path + "/history", "the plots of the status page begin anew", warning,
                                         [&] { return lmdb::open_hints(path + "/history", kMapSize); });
  if (!warning.empty()) log::warning("{}", warning);
  if (!opened) {
    log::warning("penapi_history_map: {}: the plots of the status page begin anew at each start",
                 opened.error().message());
    return;
  }
  database_ = *std::move(opened);
  if (auto read = take_up(); !read)
    log::warning("penapi_history_map: {}: the plots of the status page begin anew", read.error().message());
}

Result<void> Recorder::take_up() {
  PEN_TRY_ASSIGN(const auto read, lmdb::Read::begin(*database_));
  for (std::size_t i = 0; i < kRanges.size(); ++i) {
    PEN_TRY_ASSIGN(const auto value, read.get(kRanges[i].name));
    if (value && !history_.restore(static_cast<Range>(i), *value))
      log::warning("penapi_history_map: the points of the last {} are damaged: that plot begins anew", kRanges[i].name);
  }
  return {};
}

void Recorder::start() { server_.loop.spawn("history", record(this)); }

Result<void> Recorder::keep(unsigned ranges) {
  PEN_TRY_ASSIGN(auto write, lmdb::Write::begin(*database_));
  for (std::size_t i = 0; i < kRanges.size(); ++i)
    if ((ranges >> i & 1U) != 0) PEN_TRY(write.put(kRanges[i].name, history_.stored(static_cast<Range>(i))));
  return write.commit();
}

async::Task<void> Recorder::record(Recorder* self) {
  Server& server = self->server_;
  do {
    const Seen seen = co_await server.survey.look();
    const auto sums = server.counted();
    if (!sums) continue;
    const unsigned fresh = self->history_.add(reading_of(*sums, seen), server.loop.clock().wall_now());
    if (fresh == 0 || !self->database_) continue;
    if (const auto kept = self->keep(fresh); !kept && !std::exchange(self->told_, true))
      log::warning("penapi_history_map cannot be written: {}", kept.error().message());
  } while ((co_await server.loop.sleep(server.config.settings().penapi_history_interval)).has_value());
}

}  // namespace pen::api
