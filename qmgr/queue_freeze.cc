/// Copies of the queue while it is in use: docs/snapshot.md.
#include "qmgr/queue_server.h"

namespace pen::qmgr {

using namespace ipc::queue;

namespace {
constexpr auto kSaveWait = milliseconds(10);  // between two looks whether a save has ended
constexpr auto kLongestSave = seconds(120);   // a disk that takes longer is not copied
}  // namespace

async::Task<void> QueueServer::handle(std::shared_ptr<Session> s, Freeze m) {
  Done failed{m.request, Outcome::failed, 0, {}};
  if (!s->right.all) {
    failed.outcome = Outcome::denied;
    failed.text = kMayNotChange;
    (void)s->channel.send(failed);
    co_return;
  }
  co_await recovered();
  if (!s->frozen) {
    auto& commits = manager_.log().commits();
    s->frozen = std::make_unique<Frozen>(commits);
    const SteadyTime until = loop_.now() + kLongestSave;
    while (commits.saving() && loop_.now() < until) (void)co_await loop_.sleep(kSaveWait);
    if (!commits.saving()) s->frozen->save = commits.last_save();
  }
  if (!s->frozen->kept()) {
    s->frozen.reset();
    failed.text = "the disk is full, so the queue had to use again what was to be copied";
    (void)s->channel.send(failed);
    co_return;
  }
  LogEnds ends{m.request, {}};
  for (const auto& end : manager_.log().commits().durable_ends())
    ends.logs.push_back({end.interval, end.durable.use, end.durable.offset});
  (void)s->channel.send(ends);
}

async::Task<void> QueueServer::handle(std::shared_ptr<Session> s, Thaw m) {
  const bool kept = s->frozen && s->frozen->kept();
  s->frozen.reset();
  (void)s->channel.send(Done{m.request, kept ? Outcome::ok : Outcome::failed, 0,
                             kept ? "" : "the disk is full, so the queue had to use again what was to be copied"});
  co_return;
}

}  // namespace pen::qmgr
