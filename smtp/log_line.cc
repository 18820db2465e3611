#include "smtp/log_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace pen::smtp {

std::string shown_delay(microseconds delay) {
  const auto us = std::max<std::int64_t>(0, delay.count());
  const auto whole = us / 1'000'000;
  if (whole >= 10) return std::to_string((us + 500'000) / 1'000'000);
  // One decimal from 1 s on, two below.
  std::string text = whole >= 1 ? fmt::format("{:.1f}", static_cast<double>(us) / 1e6)
                                : fmt::format("{:.2f}", static_cast<double>(us) / 1e6);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text.empty() ? "0" : text;
}

namespace {
std::string_view status_word(mail::Action action) {
  switch (action) {
    case mail::Action::delivered:
    case mail::Action::relayed:
    case mail::Action::expanded:
    case mail::Action::transferred:
      return "sent";
    case mail::Action::deferred:
      return "deferred";
    case mail::Action::failed:
      return "bounced";
  }
  return "deferred";
}
}  // namespace

std::string recipient_line(const std::string& queue_id, const mail::Recipient& recipient,
                           const std::string& relay, std::uint32_t connection_use,
                           const Delays& delays, const mail::DeliveryStatus& status) {
  std::string line = queue_id + ": to=<" + recipient.address + ">";
  if (recipient.shown_original() != recipient.address)
    line += ", orig_to=<" + recipient.original + ">";
  line += ", relay=" + relay;
  if (connection_use > 1) line += ", conn_use=" + std::to_string(connection_use);
  line += fmt::format(
      ", delay={}, delays={}/{}/{}/{}, dsn={}, status={} ({})", shown_delay(delays.total()),
      shown_delay(delays.before_active), shown_delay(delays.active), shown_delay(delays.setup),
      shown_delay(delays.transmission), status.dsn, status_word(status.action), status.text);
  return line;
}

}  // namespace pen::smtp
