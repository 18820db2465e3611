#include "lib/suite/ipc/link.h"

namespace pen::ipc {

// A try costs one system call, and somebody waits.
constexpr Pace::Options kPace{.first = milliseconds(50), .longest = milliseconds(1000)};

LinkBase::LinkBase(async::Loop& loop, LinkOptions options, async::Reconnecting::Attempt attempt,
                   async::Reconnecting::Ended ended)
    : loop_(loop),
      options_(std::move(options)),
      kept_(loop, {.pace = kPace, .on_demand = options_.on_demand}, std::move(attempt), std::move(ended)) {}

void LinkBase::give_up(Error why) {
  if (!connected() || given_up_) return;
  given_up_ = std::move(why);
  hung_up_.raise();
}

Error LinkBase::reason(Error received) {
  hung_up_.reset();
  if (!given_up_) return received;
  Error why = *std::move(given_up_);
  given_up_.reset();
  return why;
}

void LinkBase::say(const async::Reconnecting::End& end) const {
  if (!options_.report) return;
  if (end.lost ? end.why.is(async::WaitError::closed) : end.failures > 1) return;
  std::string line = (end.lost ? "" : "connect to ") + options_.path + ": " + end.why.message();
  if (!options_.meanwhile.empty()) line += "; until the program is there, " + options_.meanwhile;
  options_.report(line);
}

}  // namespace pen::ipc
