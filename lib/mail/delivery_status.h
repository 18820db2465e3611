#pragma once
/// What happened to a recipient, in the words that the log, notifications and the queue log share.
///
/// Source:  RFC 3463 (enhanced codes), RFC 3464 (fields of a report), Postfix's status= words in log lines.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/codec.h"

namespace pen::mail {

/// The successes differ in which host owes the sender a report (RFC 3461 section 5.2.2). We do after delivered and
/// after relayed (to a host that will not report). After transferred the next host does: it took over NOTIFY=SUCCESS.
enum class Action : std::uint8_t { delivered, deferred, failed, relayed, expanded, transferred };

struct DeliveryStatus {
  Action action = Action::deferred;
  std::string dsn;         // "5.1.1"
  std::string text;        // one line for the log and for people: "host x[1.2.3.4] said: 550 …"
  std::string diagnostic;  // "smtp; 550 5.1.1 no such user"; empty: none
  std::string remote_mta;  // the peer's host name; empty: the status is our own
  PEN_FIELDS(action, dsn, text, diagnostic, remote_mta)
  bool operator==(const DeliveryStatus&) const = default;
};
/// A status of our own, without a peer's diagnostic.
inline DeliveryStatus make_status(Action action, std::string dsn, std::string text) {
  return {action, std::move(dsn), std::move(text), {}, {}};
}
/// What the peer said, code first; empty: nobody did.
std::string_view peers_words(const DeliveryStatus& status);

}  // namespace pen::mail
