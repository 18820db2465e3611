#include "lib/mailbox/log_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace pen::mailbox {

std::string delay_text(std::chrono::microseconds time) {
  const double s = std::max<double>(0, static_cast<double>(time.count()) / 1e6);
  if (s >= 10) return fmt::format("{:.0f}", s);
  if (s >= 1) return fmt::format("{:.2g}", s);
  if (s < 0.005) return "0";
  return fmt::format("{:.2g}", static_cast<double>(static_cast<long>(s * 100 + 0.5)) / 100);
}

std::string_view status_word(mail::Action action) {
  switch (action) {
    case mail::Action::deferred:
      return "deferred";
    case mail::Action::failed:
      return "bounced";
    case mail::Action::delivered:
    case mail::Action::relayed:
    case mail::Action::expanded:
    case mail::Action::transferred:
      return "sent";
  }
  return "deferred";
}

std::string log_line(std::string_view queue_id, const mail::Recipient& recipient,
                     std::string_view relay, const Times& times,
                     const mail::DeliveryStatus& status) {
  std::string orig;
  if (recipient.shown_original() != recipient.address)
    orig = fmt::format(" orig_to=<{}>,", recipient.original);
  return fmt::format(
      "{}: to=<{}>,{} relay={}, delay={}, delays={}/{}/0/{}, dsn={}, status={} ({})", queue_id,
      recipient.address, orig, relay, delay_text(times.end - times.arrival),
      delay_text(times.active - times.arrival), delay_text(times.start - times.active),
      delay_text(times.end - times.start), status.dsn, status_word(status.action), status.text);
}

}  // namespace pen::mailbox
