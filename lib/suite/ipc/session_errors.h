#pragma once
/// Conversation "session_errors": smtpd and smtp tell bounce of a session with errors of a class in notify_classes;
/// bounce sends the postmaster its transcript.
///
/// Nothing is answered: a notice that cannot be made is not worth holding anything for (docs/notices.md).
/// Use:     as lib/suite/ipc/one_way.h says.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "lib/base/codec.h"
#include "lib/suite/ipc/one_way.h"

namespace pen::ipc {

namespace session_errors {

inline constexpr std::string_view kName = "session_errors";

enum class Role : std::uint8_t { smtp_server, smtp_client, lmtp_client };

// smtpd, smtp → bounce
struct Session {
  Role role = Role::smtp_server;
  std::string peer;          // "host[192.0.2.1]", as in the log
  std::uint8_t classes = 0;  // mail::ErrorClasses::bits(), of those that are to be reported
  std::string transcript;    // mail::Transcript::text(); empty: nothing was said
  std::string reason;        // how it ended, if not by QUIT: "lost connection"; what went wrong
  PEN_FIELDS(role, peer, classes, transcript, reason)
};
// bounce → nobody
struct Nothing {
  std::uint8_t unused = 0;
  PEN_FIELDS(unused)
};

using ToBounce = std::variant<Session>;
using FromBounce = std::variant<Nothing>;

}  // namespace session_errors

class SessionErrors : public OneWay<session_errors::Session, session_errors::ToBounce, session_errors::FromBounce> {
 public:
  // each up to mail::Transcript::kMost bytes
  static constexpr std::size_t kMost = 50;

  /// path: of bounce's socket.
  SessionErrors(async::Loop& loop, std::string path, Report report = {})
      : OneWay(loop, std::move(path), {session_errors::kName, "sessions with errors", kMost}, std::move(report)) {}
};

}  // namespace pen::ipc
