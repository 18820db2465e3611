#include "penapi/event_tail.h"

#include <charconv>

#include "lib/base/async/socket.h"

namespace pen::api {
namespace {

/// The number after {"id": at the beginning of a line; 0: there is none.
std::uint64_t id_of(std::string_view line) {
  constexpr std::string_view kStart = "{\"id\":";
  std::uint64_t id = 0;
  if (line.starts_with(kStart)) std::from_chars(line.data() + kStart.size(), line.data() + line.size(), id);
  return id;
}

}  // namespace

void EventTail::add(std::string_view text) {
  const std::uint64_t id = id_of(text);
  if (id == 0 || text.back() != '}') return;  // no event
  last_id_ = std::max(last_id_, id);
  lines_.push_back({++count_, std::string(text)});
  if (lines_.size() > kMost) lines_.pop_front();
  more_.set();
}

async::Task<bool> EventTail::wait(std::uint64_t after, async::Until until) {
  while (count_ <= after) {
    more_.reset();
    if (!co_await more_.wait(until)) co_return false;
  }
  co_return true;
}

async::Task<void> EventTail::follow(EventTail* self) {
  for (;;) {
    const async::Until until{.deadline = self->loop_.now() + seconds(5)};
    auto stream = co_await async::connect(self->loop_, async::SocketAddress::unix(self->path_), until);
    if (stream) {
      self->connected_ = true;
      // What was seen before does not come again after a loss.
      stream->write("{\"since\":" + std::to_string(self->last_id_) + "}\n");
      for (;;) {
        const auto line = co_await stream->read_line(kMaxLine);
        if (!line) break;
        self->add(*line);
      }
      self->connected_ = false;
      self->more_.set();
    }
    (void)co_await self->loop_.sleep(kAgain);
  }
}

}  // namespace pen::api
