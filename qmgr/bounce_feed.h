#pragma once
/// The conversation with bounce: reports out, answers in. Connects when the first report is due.
#include <functional>
#include <optional>
#include <string>

#include "lib/async/loop.h"
#include "lib/async/sync.h"
#include "lib/ipc/bounce.h"
#include "lib/ipc/channel.h"
#include "qmgr/manager.h"
#include "qmgr/pace.h"

namespace pen::qmgr {

class BounceFeed {
 public:
  BounceFeed(async::Loop& loop, std::string path, std::function<void()> poke);
  void start(Manager& manager);
  /// Without a connection the request is forgotten here; once there is one, or none can be had, the manager is told
  /// and asks again or lets the message wait.
  void notify(const ipc::bounce::Notify& request, async::Fd body);

 private:
  using Channel = ipc::Channel<ipc::bounce::FromBounce, ipc::bounce::ToBounce>;
  async::Task<void> run();

  async::Loop& loop_;
  std::string path_;
  std::function<void()> poke_;
  Manager* manager_ = nullptr;
  std::optional<Channel> channel_;
  async::Event wanted_;
};

}  // namespace pen::qmgr
