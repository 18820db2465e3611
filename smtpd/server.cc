#include "smtpd/server.h"

#include "lib/base/log.h"
#include "smtpd/session.h"

namespace pen::smtpd {

async::Task<void> Server::accept_all(async::Listener listener) {
  while (!draining()) {
    auto accepted = co_await listener.accept({.cancel = &draining_});
    if (!accepted) {
      const Error& error = accepted.error();
      if (error.is(async::WaitError::cancelled) || error.is(async::WaitError::closed)) co_return;
      log::warning("accept: {}", error.message());  // the listener has paused for a moment already
      continue;
    }
    ++counts.sessions;
    sessions.spawn("session " + accepted->peer.text(), Session::serve(*this, std::move(accepted->stream),
                                                                      std::move(accepted->peer),
                                                                      std::move(accepted->slot)));
  }
}

void Server::drain() { draining_.raise(); }

}  // namespace pen::smtpd
