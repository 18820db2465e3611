#pragma once
/// The time that a peer's temporary refusal names: "421 4.7.0 Too many connections, try again in 5 minutes".
///
/// Use:     auto wait = stated_delay(status);    // nullopt: the reply names no time
/// Looks:   for a word that asks to come back (again, retry, try, wait, greylisted, later, come back) and after it for
///          a duration: "300 seconds", "5 min", "1 hour 30 minutes", "120s", or "in 00:04:59". Not taken for a
///          duration: a time of day ("at 12:30"), a count ("100 messages in 60 seconds, try again later"), and
///          anything before the word.
/// Bounds:  a peer's words are only a hint: the result is at most kMaxStatedDelay, and the caller has bounds of its
///          own.
/// Pure; any thread. Cost: one pass over the text.
#include <optional>
#include <string_view>

#include "lib/base/time.h"
#include "lib/mail/delivery_status.h"

namespace pen::mail {

inline constexpr seconds kMaxStatedDelay{7 * 86400};

std::optional<seconds> stated_delay(std::string_view reply);
/// Searches the peer's own words if there are any, else the status's text.
std::optional<seconds> stated_delay(const DeliveryStatus& status);

}  // namespace pen::mail
