#include "lib/queue/queue_log/writer.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "lib/base/async/sync.h"
#include "lib/base/check.h"
#include "lib/base/metrics/metrics.h"

namespace pen::queue_log {

struct Writer::Impl : std::enable_shared_from_this<Writer::Impl> {
  Impl(async::Loop& l, QueueLog& q, Storage& s, std::function<void(const Error&)> f)
      : loop(l), log(q), storage(s), on_failure(std::move(f)) {}

  async::Loop& loop;
  QueueLog& log;
  Storage& storage;
  std::function<void(const Error&)> on_failure;
  std::function<void()> on_commit;

  // Loop's side.
  struct Group {
    Ticket most = 0;      // that somebody in it waits for
    bool closed = false;  // no later one joins: it is in hand
    std::shared_ptr<async::Event> done;
  };
  std::deque<Group> groups;  // oldest first; the last may be gathering
  bool kicked = false;
  std::size_t in_hand = 0;
  bool failed = false;

  // Between the threads.
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::shared_ptr<Batch>> work;
  bool stop = false;
  std::vector<std::thread> threads;

  std::shared_ptr<async::Event> group_of(Ticket ticket) {
    for (Group& group : groups)
      if (ticket <= group.most) return group.done;
    if (groups.empty() || groups.back().closed) groups.push_back({0, false, std::make_shared<async::Event>(loop)});
    groups.back().most = ticket;
    return groups.back().done;
  }

  void kick() {
    if (kicked || failed || in_hand == QueueLog::kBatchesAtOnce) return;
    kicked = true;
    loop.post([self = weak_from_this()] {
      if (auto impl = self.lock()) {
        impl->kicked = false;
        impl->hand_over();
      }
    });
  }

  void hand_over() {
    while (!failed) {
      auto batch = log.commits().next_batch();
      if (!batch) return;
      if (batch->covers() != 0 && !groups.empty()) groups.back().closed = true;
      ++in_hand;
      {
        const std::lock_guard lock(mutex);
        work.push_back(std::make_shared<Batch>(*std::move(batch)));
      }
      wake.notify_one();
    }
  }

  /// A thread: there is one for each batch that may be in hand, so that none waits for another.
  void run() {
    for (;;) {
      std::unique_lock lock(mutex);
      wake.wait(lock, [this] { return !work.empty() || stop; });
      if (work.empty()) return;
      auto batch = std::move(work.front());
      work.pop_front();
      lock.unlock();
      const auto begun = std::chrono::steady_clock::now();
      auto executed = batch->execute(storage);
      metrics::queue_syncs.add();
      metrics::queue_sync.observe(std::chrono::steady_clock::now() - begun);
      loop.post_from_thread(
          [self = weak_from_this(), batch = std::move(batch), executed = std::move(executed)]() mutable {
            if (auto impl = self.lock()) impl->take_back(std::move(*batch), std::move(executed));
          });
    }
  }

  void take_back(Batch batch, Result<void> executed) {
    --in_hand;
    if (failed) return;
    auto durable = log.commits().complete(std::move(batch), std::move(executed));
    if (!durable) return fail_all(durable.error());
    while (!groups.empty() && groups.front().most <= *durable) {
      groups.front().done->set();
      groups.pop_front();
    }
    hand_over();  // what waited for this one does not wait for what on_commit() does
    if (on_commit) on_commit();
    kick();
  }

  void fail_all(const Error& why) {
    failed = true;
    for (Group& group : groups) group.done->set();
    groups.clear();
    if (on_failure) on_failure(why);
  }
};

Writer::Writer(async::Loop& loop, QueueLog& log, Storage& storage, std::function<void(const Error&)> on_failure)
    : impl_(std::make_shared<Impl>(loop, log, storage, std::move(on_failure))) {
  for (std::size_t n = 0; n < QueueLog::kBatchesAtOnce; ++n)
    impl_->threads.emplace_back([impl = impl_.get()] { impl->run(); });
  kick();
}

Writer::~Writer() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->wake.notify_all();
  for (std::thread& thread : impl_->threads) thread.join();
}

void Writer::kick() { impl_->kick(); }
void Writer::hand_over() { impl_->hand_over(); }
void Writer::on_commit(std::function<void()> fn) { impl_->on_commit = std::move(fn); }
bool Writer::busy() const { return impl_->in_hand != 0; }

async::Task<Result<void>> Writer::committed(Ticket ticket, async::Until until) {
  const auto impl = impl_;
  if (impl->failed) co_return fail(QueueLogError::io_error);
  if (ticket <= impl->log.commits().committed()) co_return Result<void>{};
  impl->kick();
  const auto done = impl->group_of(ticket);
  PEN_CO_TRY(co_await done->wait(until));
  if (impl->failed) co_return fail(QueueLogError::io_error);
  PEN_CHECK(ticket <= impl->log.commits().committed());
  co_return Result<void>{};
}

}  // namespace pen::queue_log
