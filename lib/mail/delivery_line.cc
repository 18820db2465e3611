#include "lib/mail/delivery_line.h"

#include <algorithm>

#include "lib/mail/logged.h"

namespace pen::mail {

Delays delays_between(WallTime arrival, WallTime active, WallTime begun, WallTime ended) {
  return {.before_active = active - arrival, .active = begun - active, .setup = {}, .transmission = ended - begun};
}

std::string delay_text(microseconds delay) {
  constexpr std::int64_t kSecond = 1'000'000;
  const auto us = std::max<std::int64_t>(0, delay.count());
  // Two digits that count, as far as the setting permits; of ten seconds and more there are whole ones.
  int digits = us < 10 * kSecond ? 1 : 0;
  for (std::int64_t least = kSecond; us < least && digits < 6; least /= 10) ++digits;
  digits = std::min(digits, log_form().delay_digits);
  std::int64_t last = kSecond;  // what the last digit counts
  for (int i = 0; i < digits; ++i) last /= 10;
  const std::int64_t shown = (us + last / 2) / last * last;
  std::string text = std::to_string(shown / kSecond);
  if (shown % kSecond == 0) return text;
  text += '.';
  for (std::int64_t rest = shown % kSecond * 10; rest != 0; rest = rest % kSecond * 10)
    text += static_cast<char>('0' + rest / kSecond);
  return text;
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
  std::string line;
  line.reserve(256 + status.text.size());
  line.append(queue_id).append(": to=<").append(logged(recipient.address)).append(">");
  if (recipient.shown_original() != recipient.address)
    line.append(", orig_to=<").append(logged(recipient.original)).append(">");
  line.append(", relay=").append(relay);
  if (connection_use > 1) line.append(", conn_use=").append(std::to_string(connection_use));
  line.append(", delay=").append(delay_text(delays.total()));
  line.append(", delays=").append(delay_text(delays.before_active));
  for (const microseconds delay : {delays.active, delays.setup, delays.transmission})
    line.append("/").append(delay_text(delay));
  line.append(", dsn=").append(status.dsn).append(", status=").append(status_word(status.action, wording));
  line.append(" (").append(status.text).append(")");
  if (!sent_sender.empty()) line.append(", sender=<").append(logged(sent_sender)).append(">");
  if (!source.empty()) line.append(", source=").append(source);
  return line;
}

}  // namespace pen::mail
