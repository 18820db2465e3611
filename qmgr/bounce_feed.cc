#include "qmgr/bounce_feed.h"

#include "lib/base/log.h"

namespace pen::qmgr {

BounceFeed::BounceFeed(async::Loop& loop, std::string path)
    : loop_(loop),
      link_(loop,
            {.path = std::move(path), .conversation = ipc::bounce::kName, .on_demand = true, .report = log::as_warning},
            *this) {}

void BounceFeed::start(Manager& manager) {
  manager_ = &manager;
  link_.start();
}

void BounceFeed::notify(const ipc::bounce::Notify& request, Fd body) {
  if (!link_.connected()) {
    link_.want();
    return;
  }
  Fd fds[] = {std::move(body)};
  const std::span<Fd> with(fds, fds[0] ? 1 : 0);
  if (auto sent = link_.channel().send(request, with); !sent) {
    // Only a message with an immense envelope: it can never be reported in one frame.
    loop_.post([this, number = request.request, why = sent.error().message()] {
      manager_->event()->reports.notified({number, false, {}, why});
    });
  }
}

void BounceFeed::on_connected() { manager_->event()->reports.ready(); }
void BounceFeed::on_message(Link::Channel::Received& received) {
  manager_->event()->reports.notified(std::get<ipc::bounce::Notified>(received.message));
}
void BounceFeed::on_lost(const Error&) { manager_->event()->reports.lost(); }
void BounceFeed::on_refused(const Error& why) { manager_->event()->reports.unavailable(why.message()); }

}  // namespace pen::qmgr
