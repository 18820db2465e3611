#pragma once
/// The conversation with bounce: reports out, answers in. Connects when the first report is due.
#include <string>

#include "lib/suite/ipc/bounce.h"
#include "lib/suite/ipc/link.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

class BounceFeed {
 public:
  BounceFeed(async::Loop& loop, std::string path);
  void start(Manager& manager);
  /// Without a connection the request is forgotten here; once there is one, or none can be had, the manager hears
  /// and asks again or lets the message wait.
  void notify(const ipc::bounce::Notify& request, Fd body);

 private:
  using Link = ipc::Link<ipc::bounce::FromBounce, ipc::bounce::ToBounce, BounceFeed>;
  friend Link;
  void on_connected();
  void on_message(Link::Channel::Received& received);
  void on_lost(const Error& why);
  void on_refused(const Error& why);

  async::Loop& loop_;
  Manager* manager_ = nullptr;
  Link link_;
};

}  // namespace pen::qmgr
