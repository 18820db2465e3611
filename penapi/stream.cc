// Server-sent events: figures every two seconds, and what happens to mail as it happens.
#include <nlohmann/json.hpp>

#include "lib/queue/views/destinations.h"
#include "penapi/overview.h"
#include "penapi/server.h"

namespace pen::api {

using async::Task;
using async::Until;

namespace {
constexpr seconds kEach{2};
// An open page that takes nothing for so long is gone.
constexpr seconds kTaken{30};
// A burst is shown in part: the page keeps the last ones only, anyhow.
constexpr std::size_t kEventsAtOnce = 200;

std::string message(std::string_view type, std::string_view line) {
  while (line.ends_with('\n')) line.remove_suffix(1);
  return std::string("event: ").append(type).append("\ndata: ").append(line).append("\n\n");
}
}  // namespace

Task<bool> Server::stream_figures(async::Stream& stream) {
  const auto limit = static_cast<std::size_t>(config.settings().penapi_stream_limit);
  if (streams_ >= limit) {
    const Response no = failure(503, "penapi_stream_limit pages are open already");
    co_return co_await write(stream, no, false, true);
  }
  ++streams_;
  Response begin;
  begin.type = "text/event-stream";
  stream.write(stream_head(begin));
  std::uint64_t seen_events = events_ ? events_->last() : 0;
  bool draining = false;
  while (!draining) {
    const Seen seen = co_await survey.look();
    stream.write(message("overview", views::text_of(overview(*this, seen))));
    // Until the next figures: events as they come.
    const SteadyTime next = loop.now() + kEach;
    while (loop.now() < next) {
      if (!co_await stream.flush({.deadline = loop.now() + kTaken})) {
        --streams_;
        co_return false;
      }
      const Until until{.deadline = next, .cancel = options_.draining};
      if (events_ == nullptr)
        (void)co_await loop.sleep(next - loop.now(), until);
      else if (co_await events_->wait(seen_events, until))
        send_events(stream, seen_events);
      if (options_.draining != nullptr && options_.draining->raised()) {
        draining = true;
        break;
      }
    }
  }
  (void)co_await stream.flush({.deadline = loop.now() + kTaken});
  --streams_;
  co_return false;
}

void Server::send_events(async::Stream& stream, std::uint64_t& seen) {
  for (const auto& line : events_->recent()) {
    if (line.number <= seen) continue;
    if (events_->last() - line.number >= kEventsAtOnce) continue;
    stream.write(message("event", line.text));
  }
  seen = events_->last();
}

}  // namespace pen::api
