#include "qmgr/watches.h"

#include <fmt/format.h>

#include <algorithm>

namespace pen::qmgr {

using namespace ipc::queue;

namespace {
constexpr std::size_t kFrame = 64;  // bytes besides the texts, about

std::size_t size_of(const Happened& what) {
  std::size_t size = kFrame + what.queue_id.size() + what.text.size() + what.where.size();
  for (const std::string& r : what.recipients) size += r.size() + 2;
  return size;
}
}  // namespace

void Watches::send(Watcher& watcher, const Happened& what) {
  if (watcher.missed == 0 && watcher.channel.queued() + size_of(what) <= kWaiting) {
    Happened own = what;
    own.request = watcher.request;
    (void)watcher.channel.send(own);  // far below the longest frame
    return;
  }
  ++watcher.missed;
  watcher.fell_behind.set();
}

void Watches::tell(std::string_view queue_id, Happened what) {
  what.queue_id = queue_id;
  what.time = loop_.clock().wall_now();
  for (Watcher* watcher : watchers_)
    if (watcher->id.empty() || watcher->id == queue_id) send(*watcher, what);
}

/// Reports how much is missing as soon as the watcher has taken what came before the gap.
async::Task<void> Watches::tell_gaps(Watcher* watcher) {
  for (;;) {
    if (!co_await watcher->fell_behind.wait()) co_return;
    if (!co_await watcher->channel.flush()) co_return;
    watcher->fell_behind.reset();
    Happened gap;
    gap.request = watcher->request;
    gap.step = Step::missed;
    gap.count = std::exchange(watcher->missed, 0);
    (void)watcher->channel.send(gap);
  }
}

async::Task<Result<void>> Watches::serve(Watches* watches, Channel* channel, std::uint64_t request,
                                         std::string queue_id) {
  if (watches->watchers_.size() >= kMost) {
    PEN_CO_TRY(channel->send(Done{request, Outcome::failed, 0, fmt::format("{} tools watch already", kMost)}));
    co_return Result<void>{};
  }
  Watcher watcher(watches->loop_, *channel, request, std::move(queue_id));
  watches->watchers_.push_back(&watcher);
  Happened begun;
  begun.request = request;
  begun.step = Step::watched;
  Result<void> ended = channel->send(begun);
  if (ended) {
    async::Gate gate(watches->loop_);
    gate.spawn("gaps of a watch", tell_gaps(&watcher));
    if (const auto more = co_await channel->receive(); !more) ended = fail(more.error());
  }
  std::erase(watches->watchers_, &watcher);
  if (ended) PEN_CO_TRY(channel->send(Done{request, Outcome::ok, 0, {}}));
  co_return ended;
}

}  // namespace pen::qmgr
