#pragma once
/// The conversation with trivial-rewrite: requests out, answers in, reconnecting when the program dies.
///
/// Requests wait here while there is no connection; the scheduler bounds how many are under way.
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "lib/async/loop.h"
#include "lib/async/sync.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/route.h"
#include "qmgr/manager.h"
#include "qmgr/pace.h"

namespace pen::qmgr {

class RouterFeed {
 public:
  /// path: of the socket. poke: ask for a settle() in this turn.
  RouterFeed(async::Loop& loop, std::string path, std::function<void()> poke);
  void start(Manager& manager);
  void route(const ipc::route::Route& request);
  bool connected() const { return channel_.has_value(); }

 private:
  using Channel = ipc::Channel<ipc::route::FromRewrite, ipc::route::ToRewrite>;
  struct Waiting {
    std::uint64_t request = 0;
    std::string recipient, sender;
  };
  async::Task<void> run();
  void send(const Waiting& w);

  async::Loop& loop_;
  std::string path_;
  std::function<void()> poke_;
  Manager* manager_ = nullptr;
  std::optional<Channel> channel_;
  std::deque<Waiting> waiting_;
  async::Event wanted_;
  std::uint64_t last_sent_ = 0;
};

}  // namespace pen::qmgr
