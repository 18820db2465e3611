#include "tools/waiting_message.h"

namespace pen::tools {

void WaitingMessage::add(const ipc::queue::Entry& entry) {
  place = entry.place;
  for (std::size_t i = 0; i < entry.recipients.size(); ++i) {
    const std::string& address = entry.recipients[i].address;
    recipients.emplace_back(address, i < entry.originals.size() ? entry.originals[i] : address);
  }
  owes = owes || !entry.bounced.empty();
}

std::optional<std::vector<mail::Recipient>> WaitingMessage::among(const std::vector<mail::Recipient>& all) const {
  std::vector<mail::Recipient> left;
  for (const auto& r : all) {
    const std::size_t at = left.size();
    if (at < recipients.size() && recipients[at].first == r.address && recipients[at].second == r.shown_original())
      left.push_back(r);
  }
  if (left.size() != recipients.size()) return std::nullopt;
  return left;
}

}  // namespace pen::tools
