#include "qmgr/router_feed.h"

namespace pen::qmgr {

void RouterFeed::route(const ipc::route::Route& request) {
  if (connected()) {
    send(request);
    return;
  }
  waiting_.push_back({request.request, std::string(request.recipient), std::string(request.sender), request.requiretls,
                      std::string(request.transport), request.flushed});
  want();
}

void RouterFeed::send(const ipc::route::Route& request) {
  last_sent_ = request.request;
  static_cast<void>(channel().send(request));
}

void RouterFeed::on_connected() {
  for (const Waiting& w : std::exchange(waiting_, {}))
    send({w.request, w.recipient, w.sender, w.requiretls, w.transport, w.flushed});
}
void RouterFeed::on_refused(const Error&) {
  if (!waiting_.empty()) want();
}
void RouterFeed::on_message(ipc::route::FromRewrite& message) {
  manager().event()->routes.routed(std::get<ipc::route::Routed>(message));
}
void RouterFeed::on_lost() { manager().event()->routes.lost(last_sent_); }

}  // namespace pen::qmgr
