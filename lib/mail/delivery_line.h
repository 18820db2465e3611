#pragma once
/// The log line with the result for one recipient, in the form that Postfix's users and log analysers know.
///
/// "4ABC: to=<a@b>, orig_to=<c@d>, relay=mx[192.0.2.1]:25, conn_use=2, delay=0.1, delays=0.05/0/0/0.05, dsn=2.0.0,
/// status=sent (text)". orig_to is shown only when it differs, conn_use only above 1. Pure functions.
///
/// Source:  the log lines of Postfix's delivery agents; pflogsumm reads these.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/mail/delivery_status.h"
#include "lib/mail/envelope.h"

namespace pen::mail {

/// Postfix's delays=: before the active queue / in it / connection set-up / transmission.
struct Delays {
  microseconds before_active{0}, active{0}, setup{0}, transmission{0};
  microseconds total() const { return before_active + active + setup + transmission; }
};
/// The delays of a delivery that sets up no connection: from when the message arrived and became active, and when its
/// delivery began and ended.
Delays delays_between(WallTime arrival, WallTime active, WallTime begun, WallTime ended);

/// In seconds, two significant digits, at most two decimals, no trailing zeros: "0.05", "1.2", "12", "0". Never
/// negative.
std::string delay_text(microseconds delay);

/// The words of status=. soft_bounce: a refusal is shown as "SOFTBOUNCE", because it will be retried. probe:
/// "deliverable" and "undeliverable".
enum class Wording : std::uint8_t { usual, soft_bounce, probe };
/// soft_bounce: the setting.
Wording wording_of(Purpose purpose, bool soft_bounce);

/// sent_sender: the sender that the peer got, where it is not the message's. source: what the mail was sent from,
/// by its name. They come last, where no analyser trips over them. connection_use: of the connection, with this; not 1.
std::string delivery_line(std::string_view queue_id, const Recipient& recipient, std::string_view relay,
                          std::uint32_t connection_use, const Delays& delays, const DeliveryStatus& status,
                          Wording wording = Wording::usual, std::string_view sent_sender = {},
                          std::string_view source = {});

}  // namespace pen::mail
