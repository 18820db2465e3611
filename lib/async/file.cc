#include "lib/async/file.h"

#include <fcntl.h>
#include <unistd.h>

#include "lib/async/sync.h"

namespace pen::async {
namespace {

Result<void> sync_data(const Fd& fd) {
  while (::fdatasync(fd.get()) != 0)
    if (errno != EINTR) return fail_errno("fdatasync");
  return {};
}

}  // namespace

File::File(HandlerPool& pool, Fd fd) : pool_(&pool), fd_(std::make_shared<Fd>(std::move(fd))) {}

Task<Result<File>> File::open(HandlerPool& pool, std::string path, int flags, unsigned mode) {
  auto open_now = [path = std::move(path), flags, mode]() -> Result<std::shared_ptr<Fd>> {
    Fd fd(::open(path.c_str(), flags | O_CLOEXEC, mode));
    if (!fd) return fail_errno("open " + path);
    return std::make_shared<Fd>(std::move(fd));
  };
  PEN_CO_TRY_ASSIGN(const std::shared_ptr<Fd> fd, co_await pool.run(std::move(open_now)));
  co_return File(pool, std::move(*fd));
}

Task<Result<std::string>> File::pread(std::size_t size, std::uint64_t offset) const {
  auto read_now = [fd = fd_, size, offset]() -> Result<std::string> {
    std::string text(size, '\0');
    std::size_t done = 0;
    while (done < size) {
      const ssize_t n =
          ::pread(fd->get(), text.data() + done, size - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail_errno("read");
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    text.resize(done);
    return text;
  };
  co_return co_await pool_->run(std::move(read_now));
}

Task<Result<void>> File::pwrite(std::string data, std::uint64_t offset) const {
  return pwrite(std::make_shared<const std::string>(std::move(data)), offset);
}

Task<Result<void>> File::pwrite(std::shared_ptr<const std::string> data,
                                std::uint64_t offset) const {
  auto write_now = [fd = fd_, data = std::move(data), offset]() -> Result<void> {
    std::size_t done = 0;
    while (done < data->size()) {
      const ssize_t n = ::pwrite(fd->get(), data->data() + done, data->size() - done,
                                 static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail_errno("write");
      done += static_cast<std::size_t>(n);
    }
    return {};
  };
  co_return co_await pool_->run(std::move(write_now));
}

Task<Result<void>> File::sync() const {
  auto sync_now = [fd = fd_] { return sync_data(*fd); };
  co_return co_await pool_->run(std::move(sync_now));
}

struct GroupSync::State {
  State(Loop& l, HandlerPool& p, std::function<Result<void>()> w)
      : loop(l), pool(p), work(std::move(w)), changed(l) {}
  Loop& loop;
  HandlerPool& pool;
  std::function<Result<void>()> work;
  std::uint64_t asked = 0;  // the highest round that somebody waits for
  std::uint64_t started = 0;
  std::uint64_t completed = 0;
  bool running = false;
  std::unique_ptr<Error> error;  // the first; kept for good
  Event changed;
};

namespace {

// Runs rounds as long as somebody waits for one.
template <class State>
Task<void> drive(std::shared_ptr<State> s) {
  while (s->completed < s->asked) {
    ++s->started;
    auto work = s->work;
    Result<void> done = co_await s->pool.run(std::move(work));
    s->completed = s->started;
    if (!done && !s->error) s->error = std::make_unique<Error>(std::move(done).error());
    s->changed.set();
    s->changed.reset();
  }
  s->running = false;
}

template <class State>
Task<Result<void>> wait_for_round(std::shared_ptr<State> s, Until until) {
  const std::uint64_t round = s->started + 1;
  s->asked = round;
  if (!s->running) {
    s->running = true;
    s->loop.spawn("sync", drive(s));
  }
  while (s->completed < round && !s->error) PEN_CO_TRY(co_await s->changed.wait(until));
  if (s->error) co_return fail(*s->error);
  co_return Result<void>{};
}

}  // namespace

GroupSync::GroupSync(Loop& loop, HandlerPool& pool, std::function<Result<void>()> work)
    : state_(std::make_shared<State>(loop, pool, std::move(work))) {}
GroupSync::GroupSync(Loop& loop, const File& file)
    : GroupSync(loop, file.pool(), [fd = file.shared_fd()] { return sync_data(*fd); }) {}
GroupSync::~GroupSync() = default;

Task<Result<void>> GroupSync::sync(Until until) { return wait_for_round(state_, until); }
std::uint64_t GroupSync::rounds() const { return state_->completed; }

}  // namespace pen::async
