#pragma once
/// A message apart from its content: its facts, its recipients, and what the queue is to do with it.
///
/// Use:     smtpd, bounce and local fill one in; qmgr stores it; delivery programs get the parts they need.
/// Rules:   plain data, encodable (lib/base/codec.h); addresses are in external form without angle brackets, the
///          null sender is "". The receivers enforce limits. A struct that is sent or stored at top level grows only at
///          its end; nested structs change only with the version of the conversation or the log. So the bytes of an
///          envelope are without `tenant` and the facts that came later: whatever sends or stores one names them after
///          it.
/// Source:  RFC 5321 section 2.3.1, RFC 3461 (DSN parameters), RFC 6531.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/mail/message_facts.h"

namespace pen::mail {

/// RFC 3461 section 4.1 NOTIFY, as bits; 0: not given.
namespace notify {
inline constexpr std::uint8_t kSuccess = 1, kFailure = 2, kDelay = 4, kNever = 8;
}
struct Recipient {
  std::string address;  // where it is delivered now, after rewriting and aliases
  // As the client gave it (after the first rewriting); empty: the same as address.
  std::string original;
  std::string orcpt;  // RFC 3461 "addr-type;xtext", as received; empty: none
  std::uint8_t notify = 0;
  PEN_FIELDS(address, original, orcpt, notify)
  bool operator==(const Recipient&) const = default;
  const std::string& shown_original() const { return original.empty() ? address : original; }
};

/// Which reports of which message a notification (bounce, delay, success) discharges.
struct Discharge {
  std::string queue_id;
  std::vector<std::uint32_t> ordinals;  // of that message's recipients
  std::uint8_t kind = 0;                // ipc::bounce::Kind
  PEN_FIELDS(queue_id, ordinals, kind)
  bool operator==(const Discharge&) const = default;
};

struct Envelope : MessageFacts {
  std::string queue_id;
  std::vector<Recipient> recipients;
  std::string message_id;  // for the log
  std::vector<Discharge> discharges;
  // "transport:nexthop" for the whole message, whatever the routing rules say. Without nexthop: the recipients'
  // domains. "": none.
  std::string transport;
  // The content filter, as `transport`, in place of the recipients' routes. Without nexthop: default_filter_nexthop,
  // then the recipients' domains. "": none.
  std::string filter;
  bool hold = false;  // put it on hold first; unset once it is on hold
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls, client, body,
             message_id, discharges, transport, filter, hold, purpose, verp)
  bool operator==(const Envelope&) const = default;
};

}  // namespace pen::mail
