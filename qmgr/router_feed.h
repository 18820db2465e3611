#pragma once
/// The conversation with trivial-rewrite: requests out, answers in.
///
/// Requests wait here while there is no connection; the scheduler bounds how many are under way.
#include <deque>
#include <string>

#include "lib/ipc/route.h"
#include "qmgr/feed.h"

namespace pen::qmgr {

class RouterFeed final : public Feed<ipc::route::FromRewrite, ipc::route::ToRewrite> {
 public:
  RouterFeed(async::Loop& loop, std::string path) : Feed(loop, std::move(path), ipc::route::kName) {}
  void route(const ipc::route::Route& request);

 private:
  struct Waiting {
    std::uint64_t request = 0;
    std::string recipient, sender;
    mail::RequireTls requiretls = mail::RequireTls::unspecified;
    std::string transport;
    bool flushed = false;
  };
  void send(const ipc::route::Route& request);
  void on_connected() override;
  void on_refused(const Error& why) override;
  void on_message(ipc::route::FromRewrite& message) override;
  void on_lost() override;

  std::deque<Waiting> waiting_;
  std::uint64_t last_sent_ = 0;
};

}  // namespace pen::qmgr
