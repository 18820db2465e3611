#pragma once
/// Emits what became of one attempt to deliver to one recipient, wherever its log line is written.
///
/// Use:     events::tell_attempt({job.queue_id, job, recipient, relay, 1, delays, status, wording});
/// Probes are no mail, and have no events.
/// Thread:  the loop's.
#include <string_view>

#include "lib/mail/delivery_line.h"
#include "lib/suite/events/emitter.h"

namespace pen::events {

/// What the line is made of.
struct Attempt {
  std::string_view queue_id;
  const mail::MessageFacts& message;
  const mail::Recipient& recipient;
  std::string_view relay;  // "host[192.0.2.1]:25", as in the log
  std::uint32_t connection_use = 1;
  const mail::Delays& delays;
  const mail::DeliveryStatus& status;
  mail::Wording wording = mail::Wording::usual;
  std::string_view nexthop = {}, source_address = {}, source = {};  // source: the name of where it was sent from
  std::uint32_t number = 0;                             // which try of the message this is, from 1 on; 0: not known
  std::string_view session = {};                        // of the connection: session_text()
  std::string_view tls_protocol = {}, tls_cipher = {};  // of the connection; empty: clear text
  bool tls_trusted = false;
  // "expired": no attempt, but the end of a recipient that had become too old; status is what its last attempt came to.
  std::string_view ended = {};
};
void tell_attempt(const Attempt& attempt);

/// The code and the reason of a recipient that was given up because its message was too old (RFC 3463).
inline constexpr std::string_view kExpiredCode = "4.4.7";
inline constexpr std::string_view kExpiredReason = "message expired before it could be delivered";

}  // namespace pen::events
