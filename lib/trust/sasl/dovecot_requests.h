#pragma once
/// Dovecot's authentication protocol, the server's side, as the program cyrus speaks it with smtpd: decodes requests,
/// encodes answers. No I/O.
///
/// Use:     ClientHello hello; for each line: auto done = hello.feed(line); until *done;
///          out = server_greeting(mechanisms, pid, cookie);
///          auto asked = parse_request(line);      // nullopt: a line of no interest
///          out = ok_line(…), fail_line(…), challenge_line(…);
/// Form:    as in dovecot.h. The client sends VERSION, CPID, and APPLICATION, behind which it gets the greeting: what
///          is offered depends on the application. Then AUTH, CONT, CANCEL.
/// Bounds:  kMaxField for names and addresses; responses as long as a line, which the caller bounds.
/// Errors:  bad_line, wrong_version: the client is not ours, or was taken over.
/// Pure; any thread.
#include "lib/base/result.h"
#include "lib/trust/sasl/dovecot.h"

namespace pen::sasl::dovecot {

inline constexpr std::size_t kMaxField = 1024;

class ClientHello {
 public:
  /// True: it is complete.
  Result<bool> feed(std::string_view line);
  Application take_application() { return std::move(application_); }

 private:
  Application application_;
  bool version_ = false;
};

/// What a client asks. Responses are decoded.
struct Asked {
  enum class Kind : std::uint8_t { start, respond, cancel } kind = Kind::cancel;
  std::uint32_t id = 0;
  Request request;       // start; .initial is decoded too
  std::string response;  // respond
};
Result<std::optional<Asked>> parse_request(std::string_view line);

/// cookie: 32 hexadecimal digits that no other connection has.
std::string server_greeting(const std::vector<Mechanism>& mechanisms, unsigned pid, std::string_view cookie);
/// bytes: not yet in base 64.
std::string challenge_line(std::uint32_t id, std::string_view bytes);
std::string ok_line(std::uint32_t id, std::string_view user);
/// user: may be empty. temporary: the client is not at fault.
std::string fail_line(std::uint32_t id, std::string_view user, std::string_view reason, bool temporary);

}  // namespace pen::sasl::dovecot
