#include "lib/mail/delivery_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/mail/logged.h"

namespace pen::mail {

Delays delays_between(WallTime arrival, WallTime active, WallTime begun, WallTime ended) {
  return {.before_active = active - arrival, .active = begun - active, .setup = {}, .transmission = ended - begun};
}

std::string delay_text(microseconds delay) {
  const auto us = std::max<std::int64_t>(0, delay.count());
  const auto whole = us / 1'000'000;
  if (whole >= 10) return std::to_string((us + 500'000) / 1'000'000);
  // Two digits that count, as far as the setting permits.
  int digits = 1;
  for (std::int64_t least = 1'000'000; us < least && digits < 6; least /= 10) ++digits;
  std::string text = fmt::format("{:.{}f}", static_cast<double>(us) / 1e6, std::min(digits, log_form().delay_digits));
  if (!text.contains('.')) return text;
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text.empty() ? "0" : text;
}

namespace {
std::string_view status_word(Action action, Wording wording) {
  const bool probe = wording == Wording::probe;
  switch (action) {
    case Action::delivered:
    case Action::relayed:
    case Action::expanded:
    case Action::transferred:
      return probe ? "deliverable" : "sent";
    case Action::deferred:
      return probe ? "undeliverable" : "deferred";
    case Action::failed:
      return probe ? "undeliverable" : wording == Wording::soft_bounce ? "SOFTBOUNCE" : "bounced";
  }
  return "deferred";
}
}  // namespace

Wording wording_of(Purpose purpose, bool soft_bounce) {
  if (is_probe(purpose)) return Wording::probe;
  return soft_bounce ? Wording::soft_bounce : Wording::usual;
}

std::string delivery_line(std::string_view queue_id, const Recipient& recipient, std::string_view relay,
                          std::uint32_t connection_use, const Delays& delays, const DeliveryStatus& status,
                          Wording wording, std::string_view sent_sender, std::string_view source) {
  std::string line = std::string(queue_id) + ": to=<" + logged(recipient.address) + ">";
  if (recipient.shown_original() != recipient.address) line += ", orig_to=<" + logged(recipient.original) + ">";
  line += ", relay=";
  line += relay;
  if (connection_use > 1) line += ", conn_use=" + std::to_string(connection_use);
  line += fmt::format(", delay={}, delays={}/{}/{}/{}, dsn={}, status={} ({})", delay_text(delays.total()),
                      delay_text(delays.before_active), delay_text(delays.active), delay_text(delays.setup),
                      delay_text(delays.transmission), status.dsn, status_word(status.action, wording), status.text);
  if (!sent_sender.empty()) line.append(", sender=<").append(logged(sent_sender)).append(">");
  if (!source.empty()) line.append(", source=").append(source);
  return line;
}

}  // namespace pen::mail
