#pragma once
/// What smtpd emits as events, beside its lines in the log (docs/events.md).
///
/// Use:     tell_rejected(client, {.queue_id = id, .stage = "RCPT", .reply = reply, .sender = &sender});
/// Thread:  the loop's.
#include <optional>
#include <string>
#include <string_view>

#include "smtpd/client.h"

namespace pen::smtpd {

struct Refused {
  std::string_view queue_id;  // empty: none yet
  std::string_view stage;     // "RCPT"
  std::string_view reply;
  std::string_view sender = {}, recipient = {};
  std::string_view action = "reject";  // the verb of the log line: "milter-reject"
};
void tell_rejected(const ClientFacts& client, const Refused& what);
void tell_auth_failed(const ClientFacts& client, std::string_view mechanism, std::string_view user,
                      std::string_view why);
/// protocol empty: the handshake failed, and `why` says how.
void tell_tls(const ClientFacts& client, std::string_view protocol, std::string_view cipher, bool trusted,
              std::string_view why = {});

}  // namespace pen::smtpd
