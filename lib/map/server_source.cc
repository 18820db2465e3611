/// Asks a table server and waits for the answer, for programs and threads without a loop.
#include "lib/map/source.h"

namespace pen::map {

Result<bool> ServerSource::complete(std::string_view bytes) const {
  const std::size_t size = whole(bytes);
  if (size == std::string::npos || bytes.size() > most_bytes())
    return fail(MapError::syntax, name() + ": not an answer of this protocol");
  if (size != 0 && size != bytes.size()) return fail(MapError::syntax, name() + ": more than one answer");
  return size != 0;
}

Value ServerSource::ask_now(const std::string& key) const {
  const auto deadline = system_clock().now() + kPatience;
  const std::string question = request(key);
  // An idle connection that turns out to be dead is replaced once.
  if (Fd idle = take_idle()) {
    if (auto answer = talk(std::move(idle), question, deadline)) return meaning(*answer);
  }
  auto fresh = connect_before(address_, deadline);
  if (!fresh) return std::unexpected(std::move(fresh).error().within(name()));
  PEN_TRY_ASSIGN(const auto answer, talk(*std::move(fresh), question, deadline));
  return meaning(answer);
}

Fd ServerSource::take_idle() const {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return Fd();
  Fd fd = std::move(idle_.back());
  idle_.pop_back();
  return fd;
}

Result<std::string> ServerSource::talk(Fd fd, std::string_view request, SteadyTime deadline) const {
  PEN_TRY(send_before(fd.get(), request, deadline));
  std::string got;
  for (;;) {
    char chunk[4096];
    PEN_TRY_ASSIGN(const std::size_t n, receive_before(fd.get(), chunk, deadline));
    if (n == 0) return fail(MapError::unreadable, name() + ": the server closed the connection");
    got.append(chunk, n);
    PEN_TRY_ASSIGN(const bool all, complete(got));
    if (!all) continue;
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(fd));
    return got;
  }
}

}  // namespace pen::map
