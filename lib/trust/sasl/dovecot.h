#pragma once
/// Dovecot's authentication protocol, the client's side: encodes requests, decodes lines. No I/O.
///
/// Use:     out = greeting(pid); Handshake hello; for each line: auto done = hello.feed(line); until *done;
///          out = auth_line(id, request); out = continue_line(id, base64); out = cancel_line(id);
///          auto reply = parse_reply(line);        // nullopt: a line of no interest
/// Form:    lines of fields separated by tabs; TAB, LF, CR, NUL and 0x01 inside a field are escaped (escape()). We
///          number requests; their answers carry the number. The server sends VERSION, MECH for each mechanism, SPID,
///          CUID, COOKIE, DONE; later CONT, OK, FAIL.
/// Source:  Dovecot, "Dovecot Authentication Protocol" v1.1 and v1.2 (doc/auth-protocol.txt). Unknown words and fields
///          are ignored, as it demands.
/// Bounds:  kMaxLine for a line, kMaxMechanisms; the caller must enforce kMaxLine when reading.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/trust/sasl/properties.h"

namespace pen::sasl::dovecot {

inline constexpr unsigned kMajor = 1, kMinor = 1;
/// Bytes of a line, without its end, in either direction: Dovecot's limit. Dovecot closes the connection at a longer
/// line.
inline constexpr std::size_t kMaxLine = 8192 - 1;
inline constexpr std::size_t kMaxMechanisms = 64;

std::string escape(std::string_view text);
std::string unescape(std::string_view text);

std::string greeting(unsigned pid);

/// What cyrus learns of a client's side, behind the greeting: a line that Dovecot does not know.
struct Application {
  std::string name;   // smtpd_sasl_path
  std::string realm;  // smtpd_sasl_local_domain
  std::string host;   // myhostname
  bool operator==(const Application&) const = default;
};
std::string application_line(const Application& application);

/// What Dovecot learns of a client that logs in.
struct Request {
  std::string mechanism, service;
  bool secured = false;  // the connection is encrypted
  std::string local_address, remote_address;
  std::uint16_t local_port = 0, remote_port = 0;  // 0: not known
  /// Base 64; nullopt: the client sent no initial response (which differs from an empty one).
  std::optional<std::string> initial;
};
std::string auth_line(std::uint32_t id, const Request& request);
std::string continue_line(std::uint32_t id, std::string_view base64);
std::string cancel_line(std::uint32_t id);

/// The server's greeting.
class Handshake {
 public:
  /// True: the greeting is complete. Errors: wrong_version, bad_line, no_mechanism (at DONE).
  Result<bool> feed(std::string_view line);
  const std::vector<Mechanism>& mechanisms() const { return mechanisms_; }
  std::vector<Mechanism> take_mechanisms() { return std::move(mechanisms_); }

 private:
  std::vector<Mechanism> mechanisms_;
  bool version_ = false;
};

struct Reply {
  enum class Kind : std::uint8_t { ok, fail, challenge } kind = Kind::fail;
  std::uint32_t id = 0;
  std::string user;        // when ok; when failed, if it is known
  std::string text;        // challenge: base 64; fail: the reason, for people, may be empty
  bool temporary = false;  // fail: the client is not at fault
};
/// nullopt: a line with another word. Error: bad_line.
Result<std::optional<Reply>> parse_reply(std::string_view line);

}  // namespace pen::sasl::dovecot
