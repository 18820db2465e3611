#include "qmgr/bounce_feed.h"

namespace pen::qmgr {

void BounceFeed::notify(const ipc::bounce::Notify& request, Fd body) {
  if (!connected()) {
    want();
    return;
  }
  Fd fds[] = {std::move(body)};
  const std::span<Fd> with(fds, fds[0] ? 1 : 0);
  if (auto sent = channel().send(request, with); !sent) {
    // Only a message with an immense envelope: it can never be reported in one frame.
    loop().post([this, number = request.request, why = sent.error().message()] {
      manager().event()->reports.notified({number, false, {}, why});
    });
  }
}

void BounceFeed::on_connected() { manager().event()->reports.ready(); }
void BounceFeed::on_refused(const Error& why) { manager().event()->reports.unavailable(why.message()); }
void BounceFeed::on_message(ipc::bounce::FromBounce& message) {
  manager().event()->reports.notified(std::get<ipc::bounce::Notified>(message));
}
void BounceFeed::on_lost() { manager().event()->reports.lost(); }

}  // namespace pen::qmgr
