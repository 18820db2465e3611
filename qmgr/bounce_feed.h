#pragma once
/// The conversation with bounce: reports out, answers in. Connects when the first report is due.
#include <string>

#include "lib/ipc/bounce.h"
#include "qmgr/feed.h"

namespace pen::qmgr {

class BounceFeed final : public Feed<ipc::bounce::FromBounce, ipc::bounce::ToBounce> {
 public:
  BounceFeed(async::Loop& loop, std::string path) : Feed(loop, std::move(path), ipc::bounce::kName) {}
  /// Without a connection the request is forgotten here; once there is one, or none can be had, the manager is told
  /// and asks again or lets the message wait.
  void notify(const ipc::bounce::Notify& request, Fd body);

 private:
  void on_connected() override;
  void on_refused(const Error& why) override;
  void on_message(ipc::bounce::FromBounce& message) override;
  void on_lost() override;
};

}  // namespace pen::qmgr
