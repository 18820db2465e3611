#include "smtpd/server.h"

#include "smtpd/checks.h"

namespace pen::smtpd {

CheckTools Server::check_tools() {
  return {loop,           intake.tables,    names, lists, policies, &stopping_, sender_memory.get(),
          verifier.get(), suppression.get()};
}

void Server::tell_short_memory(const std::string& client) {
  if (told_short_ != SteadyTime::min() && loop.now() < told_short_ + seconds(60)) return;
  told_short_ = loop.now();
  log::warning("recipients of all sessions together take {} bytes: further ones are put off, now of {}",
               intake.memory.used(), client);
}

}  // namespace pen::smtpd
