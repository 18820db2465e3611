#include "qmgr/discharges.h"

#include "lib/base/text.h"
#include "qmgr/message.h"

namespace pen::qmgr {

void Discharges::add(const mail::Envelope& message) {
  if (found_.size() >= kMost) return;
  for (const auto& d : message.discharges) found_[d.queue_id].push_back(d);
}

bool Discharges::may_be_notice(std::string_view sender) const {
  // Notices come from the null sender, those about notices from double_bounce_sender.
  return sender.empty() || iequals(sender, around_.options.double_bounce_sender);
}

bool Discharges::look() {
  if (known_) return true;
  if (!scan_) scan_ = around_.log.scan();
  auto some = scan_->step(100);
  if (!some) around_.ports.fatal(some.error());
  for (const auto& l : *some) {
    if (!may_be_notice(l.sender) || found_.size() >= kMost) continue;
    auto stored = around_.log.runners().read(l.place);
    if (!stored) continue;
    if (const auto notice = from_log(*std::move(stored))) add(notice->envelope());
  }
  if (!scan_->done()) return false;
  scan_.reset();
  known_ = true;
  return true;
}

std::vector<mail::Discharge> Discharges::take(const std::string& queue_id) {
  auto at = found_.extract(queue_id);
  return at.empty() ? std::vector<mail::Discharge>() : std::move(at.mapped());
}

}  // namespace pen::qmgr
