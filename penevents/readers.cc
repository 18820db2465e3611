#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "penevents/hub.h"
#include "penevents/json.h"

namespace pen::penevents {
namespace {

constexpr seconds kRequestWait{1};  // for the line that a reader may send
constexpr seconds kHalfClosedLook{1};
constexpr seconds kSlow{60};  // to take what the kernel has no room for
constexpr std::size_t kPart = 64 * 1024;

std::string refusal(std::string_view why) {
  std::string line = "{\"error\":";
  append_json(line, why);
  return line + "}\n";
}

async::Task<void> refuse(async::Loop& loop, async::Stream& stream, std::string why) {
  stream.write(refusal(why));
  (void)co_await stream.flush({.deadline = loop.now() + seconds(5)});
}

bool hung_up(int fd) {
  pollfd at{.fd = fd, .events = 0, .revents = 0};
  return ::poll(&at, 1, 0) != 0;  // an error, or no direction is open any more
}

/// Ends every wait of the reader when it has hung up, or the program drains. Nothing more is expected from it, and it
/// may have closed its half.
async::Task<void> watch(async::Loop* loop, async::Stream* stream, async::Cancel* gone, async::Cancel* draining) {
  while (co_await stream->read_some(kPart, {.deadline = kNever, .cancel = draining})) continue;
  while (!draining->raised() && stream->is_open() && !hung_up(stream->fd()))
    (void)co_await loop->sleep(kHalfClosedLook, {.deadline = kNever, .cancel = draining});
  gone->raise();
}

}  // namespace

/// Until the reader goes, or is too slow: then why.
async::Task<Result<void>> Hub::hand_out(async::Stream& stream, Request wanted) {
  async::Cancel gone;
  async::Gate gate(loop_);
  gate.spawn("watch a reader", watch(&loop_, &stream, &gone, &context_.draining()));
  std::uint64_t next = recent_.start();
  for (;;) {
    if (next < recent_.first()) co_return fail(async::WaitError::timed_out, "events that it has not read are gone");
    std::string part;
    for (; next < recent_.end() && part.size() < kPart; ++next) {
      const auto& entry = recent_.at(next);
      if (wanted.wants(entry.type, entry.queue_id, entry.id)) part += entry.line;
    }
    if (!part.empty()) {
      stream.write(part);
      PEN_CO_TRY(co_await stream.flush({.deadline = loop_.now() + kSlow, .cancel = &gone}));
    }
    if (next < recent_.end()) {
      co_await loop_.yield();
      continue;
    }
    more_.reset();
    PEN_CO_TRY(co_await more_.wait({.deadline = kNever, .cancel = &gone}));
  }
}

async::Task<void> Hub::read_stream(std::shared_ptr<Hub> hub, async::Stream stream) {
  async::Loop& loop = hub->loop_;
  const auto peer = async::peer_credentials(stream.fd());
  const bool allowed = peer && (peer->uid == 0 || peer->uid == ::geteuid() || peer->uid == hub->context_.owner().uid);
  auto line = co_await stream.read_line(Request::kMaxLine,
                                        {.deadline = loop.now() + kRequestWait, .cancel = &hub->context_.draining()});
  std::expected<Request, std::string> asked = Request();
  if (line)
    asked = Request::parse(*line);
  else if (line.error().is(async::WaitError::line_too_long))
    asked = std::unexpected("the request is too long");
  if (!allowed) asked = std::unexpected("only root and mail_owner may read events");
  if (hub->readers_ >= static_cast<std::size_t>(hub->settings_.event_subscriber_limit))
    asked = std::unexpected("too many readers (event_subscriber_limit)");
  if (!asked) co_return co_await refuse(loop, stream, asked.error());
  ++hub->readers_;
  const auto ended = co_await hub->hand_out(stream, *std::move(asked));
  if (!ended && ended.error().is(async::WaitError::timed_out)) {
    ++hub->late_readers_;
    log::warning("a reader of events (pid {}) is too slow and is disconnected", peer->pid);
    stream.write(
        fmt::format("{{\"id\":{},\"time\":\"{}\",\"type\":\"lagging\",\"reason\":\"too slow: later events are not "
                    "sent\"}}\n",
                    hub->last_id_, date_of(loop.clock().wall_now())));
    (void)co_await stream.flush({.deadline = loop.now() + seconds(1)});
  }
  --hub->readers_;
}

}  // namespace pen::penevents
