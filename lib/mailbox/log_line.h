#pragma once
/// The line that a delivery agent logs for each recipient, in Postfix's shape, and the fields within it.
///
/// "4ABC: to=<a@b>, orig_to=<c@d>, relay=local, delay=0.1, delays=0.05/0/0/0.05, dsn=2.0.0, status=sent (text)"
///
/// Source:  Postfix's log_adhoc; pflogsumm reads these.
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/mail/delivery_status.h"
#include "lib/mail/envelope.h"

namespace pen::mailbox {

struct Times {
  WallTime arrival{}, active{}, start{}, end{};
};
/// Seconds with two significant digits, as in 0.05, 1.2, 34; never negative.
std::string delay_text(std::chrono::microseconds time);
std::string_view status_word(mail::Action action);
std::string log_line(std::string_view queue_id, const mail::Recipient& recipient,
                     std::string_view relay, const Times& times,
                     const mail::DeliveryStatus& status);

}  // namespace pen::mailbox
