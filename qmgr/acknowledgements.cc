#include "qmgr/acknowledgements.h"

#include <algorithm>

namespace pen::qmgr {

void Acknowledgements::when_durable(queue_log::Ticket ticket, Then then) {
  if (!waiting_.empty()) ticket = std::max(ticket, waiting_.back().first);
  waiting_.emplace_back(ticket, std::move(then));
}

bool Acknowledgements::due() const { return !waiting_.empty() && waiting_.front().first <= log_.commits().committed(); }

bool Acknowledgements::call_next() {
  if (!due()) return false;
  Then then = std::move(waiting_.front().second);
  waiting_.pop_front();
  then();
  return true;
}

void Acknowledgements::commit_came() {
  for (const auto& then : std::exchange(after_commit_, {})) then();
}

}  // namespace pen::qmgr
