#pragma once
/// The conversation with trivial-rewrite: requests out, answers in.
///
/// Requests wait here while there is no connection; the scheduler bounds how many are under way.
#include <deque>
#include <string>

#include "lib/suite/ipc/link.h"
#include "lib/suite/ipc/route.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

class RouterFeed {
 public:
  RouterFeed(async::Loop& loop, std::string path);
  void start(Manager& manager);
  void route(const ipc::route::Route& request);

 private:
  using Link = ipc::Link<ipc::route::FromRewrite, ipc::route::ToRewrite, RouterFeed>;
  friend Link;
  struct Waiting {
    std::uint64_t request = 0;
    std::string recipient, sender;
    mail::RequireTls requiretls = mail::RequireTls::unspecified;
    std::string transport;
    bool flushed = false;
    bool verification = false;
    bool forwarded = false;
  };
  void send(const ipc::route::Route& request);
  void on_connected();
  void on_message(Link::Channel::Received& received);
  void on_lost(const Error& why);
  void on_refused(const Error& why);

  Manager* manager_ = nullptr;
  std::deque<Waiting> waiting_;
  std::uint64_t last_sent_ = 0;
  Link link_;
};

}  // namespace pen::qmgr
