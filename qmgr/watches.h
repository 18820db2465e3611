#pragma once
/// The tools that watch messages (penqueue --follow), and what they receive.
///
/// Use:     `if (watches.any()) watches.tell(id, {.step = Step::removed});` where something happens to a message.
///          A tool's conversation: co_await Watches::serve(&watches, channel, request, id).
/// Cost:    while nobody watches: any(), a comparison.
/// Bounds:  kMost watchers; kWaiting bytes wait for each. One that takes nothing gets no more until it has taken what
///          waits, and then learns how much is missing. Nobody waits for a watcher.
/// Thread:  the loop's.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/async/sync.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/queue.h"

namespace pen::qmgr {

class Watches {
 public:
  using Channel = ipc::Channel<ipc::queue::ToQmgr, ipc::queue::FromQmgr>;
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kWaiting = 1 << 20;

  explicit Watches(async::Loop& loop) : loop_(loop) {}
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;

  bool any() const { return !watchers_.empty(); }
  /// Completes `what` with the time and the id. Names kMaxHappenedTo recipients at most.
  void tell(std::string_view queue_id, ipc::queue::Happened what);
  /// Until the tool closes, or says anything more. queue_id: empty: every message. Errors: those of the channel.
  static async::Task<Result<void>> serve(Watches* watches, Channel* channel, std::uint64_t request,
                                         std::string queue_id);

 private:
  struct Watcher {
    Watcher(async::Loop& loop, Channel& channel_in, std::uint64_t request_in, std::string id_in)
        : channel(channel_in), request(request_in), id(std::move(id_in)), fell_behind(loop) {}
    Channel& channel;
    std::uint64_t request;
    std::string id;
    std::uint64_t missed = 0;  // not 0: nothing is sent until what waits is taken
    async::Event fell_behind;
  };
  static async::Task<void> tell_gaps(Watcher* watcher);
  static void send(Watcher& watcher, const ipc::queue::Happened& what);

  async::Loop& loop_;
  std::vector<Watcher*> watchers_;
};

}  // namespace pen::qmgr
