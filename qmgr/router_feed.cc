#include "qmgr/router_feed.h"

#include "lib/base/log.h"

namespace pen::qmgr {

RouterFeed::RouterFeed(async::Loop& loop, std::string path)
    : link_(loop,
            {.path = std::move(path), .conversation = ipc::route::kName, .on_demand = true, .report = log::as_warning},
            *this) {}

void RouterFeed::start(Manager& manager) {
  manager_ = &manager;
  link_.start();
}

void RouterFeed::route(const ipc::route::Route& request) {
  if (link_.connected()) {
    send(request);
    return;
  }
  waiting_.push_back({request.request, std::string(request.recipient), std::string(request.sender), request.requiretls,
                      std::string(request.transport), request.flushed, request.verification, request.forwarded});
  link_.want();
}

void RouterFeed::send(const ipc::route::Route& request) {
  last_sent_ = request.request;
  (void)link_.channel().send(request);
}

void RouterFeed::on_connected() {
  for (const Waiting& w : std::exchange(waiting_, {}))
    send({w.request, w.recipient, w.sender, w.requiretls, w.transport, w.flushed, w.verification, w.forwarded});
}
void RouterFeed::on_message(Link::Channel::Received& received) {
  manager_->event()->routes.routed(std::get<ipc::route::Routed>(received.message));
}
void RouterFeed::on_lost(const Error&) { manager_->event()->routes.lost(last_sent_); }
void RouterFeed::on_refused(const Error&) {
  if (!waiting_.empty()) link_.want();
}

}  // namespace pen::qmgr
