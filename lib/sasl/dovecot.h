#pragma once
/// Dovecot's authentication protocol, the client's side: lines in, what they say out; requests in, lines out. No I/O.
///
/// Use:     out = greeting(pid); Handshake hello; for each line: auto done = hello.feed(line); until *done;
///          out = auth_line(id, request); out = continue_line(id, base64); out = cancel_line(id);
///          auto reply = parse_reply(line);        // nullopt: a line that says nothing to us
/// Form:    lines of fields between tabs; TAB, LF, CR, NUL and 0x01 inside a field are escaped (escape()). A request
///          is a number of ours; its answers carry the number. The server says VERSION, MECH for each mechanism,
///          SPID, CUID, COOKIE, DONE; later CONT, OK, FAIL.
/// Source:  Dovecot, "Dovecot Authentication Protocol" v1.1 and v1.2 (doc/auth-protocol.txt). Words and fields
///          that are not known are left alone, as it asks for.
/// Bounds:  kMaxLine for a line, kMaxMechanisms; the caller keeps to kMaxLine when reading.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/sasl/properties.h"

namespace pen::sasl::dovecot {

inline constexpr unsigned kMajor = 1, kMinor = 1;
/// Bytes of a line, without its end, in either direction: what Dovecot takes. A longer one makes it hang up.
inline constexpr std::size_t kMaxLine = 8192 - 1;
inline constexpr std::size_t kMaxMechanisms = 64;

std::string escape(std::string_view text);
std::string unescape(std::string_view text);

std::string greeting(unsigned pid);

/// What a client that logs in is told of.
struct Request {
  std::string mechanism, service;
  bool secured = false;  // the connection is encrypted
  std::string local_address, remote_address;
  std::uint16_t local_port = 0, remote_port = 0;  // 0: not known
  /// Base 64; nullopt: the client sent none (which is not the same as an empty one).
  std::optional<std::string> initial;
};
std::string auth_line(std::uint32_t id, const Request& request);
std::string continue_line(std::uint32_t id, std::string_view base64);
std::string cancel_line(std::uint32_t id);

/// The server's greeting.
class Handshake {
 public:
  /// True: it is complete. Errors: wrong_version, bad_line, no_mechanism (at DONE).
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
  std::string user;        // ok; fail where known
  std::string text;        // challenge: base 64; fail: the reason, for people, may be empty
  bool temporary = false;  // fail: for no fault of the client's
};
/// nullopt: another word. Error: bad_line.
Result<std::optional<Reply>> parse_reply(std::string_view line);

}  // namespace pen::sasl::dovecot
