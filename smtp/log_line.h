#pragma once
/// The line that tells one recipient's fate, in the form that Postfix's users and log analysers know.
///
/// "QUEUEID: to=<…>, orig_to=<…>, relay=…, conn_use=N, delay=…, delays=a/b/c/d, dsn=…, status=sent (…)"; orig_to and
/// conn_use only where they say something. Pure functions.
#include <string>

#include "lib/base/time.h"
#include "lib/mail/delivery_status.h"
#include "lib/mail/envelope.h"

namespace pen::smtp {

/// Postfix's delays=: before the active queue / in it / connection set-up / transmission.
struct Delays {
  microseconds before_active{0}, active{0}, setup{0}, transmission{0};
  microseconds total() const { return before_active + active + setup + transmission; }
};

/// Two significant digits, at most two decimals, no trailing zeros: "0.05", "1.2", "12", "0".
std::string shown_delay(microseconds delay);

std::string recipient_line(const std::string& queue_id, const mail::Recipient& recipient,
                           const std::string& relay, std::uint32_t connection_use,
                           const Delays& delays, const mail::DeliveryStatus& status);

}  // namespace pen::smtp
