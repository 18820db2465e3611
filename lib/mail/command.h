#pragma once
/// The SMTP command grammar, as a server reads it. No I/O, no state of a session: one line in, what
/// it says out.
///
/// Use:     auto line = split_command("RCPT TO:<a@b> NOTIFY=NEVER");
///          if (line.verb == Verb::rcpt) { auto rcpt = parse_rcpt(line.args, options, smtputf8); … }
/// Source:  RFC 5321 section 4.1, RFC 1870 (SIZE), 3030 (BDAT), 3461 (DSN), 4954 (AUTH=), 6152 (BODY), 6531
///          (SMTPUTF8), 8689 (REQUIRETLS).
/// Errors:  CommandError; the error's context is the parameter or address complained of. The table from error
///          to reply is the server's.
/// Bounds:  the caller bounds the line; nothing here allocates more than a small multiple of it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/mail/envelope.h"

namespace pen::mail {

enum class Verb : std::uint8_t {
  helo,
  ehlo,
  lhlo,
  starttls,
  auth,
  mail,
  rcpt,
  data,
  bdat,
  rset,
  noop,
  vrfy,
  expn,
  etrn,
  help,
  quit,
  xclient,
  xforward,
  unknown,
};
inline constexpr std::size_t kVerbs = static_cast<std::size_t>(Verb::unknown) + 1;
/// "MAIL"; "UNKNOWN" for what is no command.
std::string_view verb_name(Verb verb);

/// A command line cut after its first word. Views into the line.
struct CommandLine {
  Verb verb = Verb::unknown;
  std::string_view word;  // as the client wrote it
  std::string_view args;  // without white space at either end
};
/// Case does not matter; white space before the command and around its arguments is forgiven.
CommandLine split_command(std::string_view line);

enum class CommandError {
  syntax = 1,         // not of the command's form
  bad_address,        // a path that RFC 5321 does not know
  needs_smtputf8,     // non-ASCII address without the SMTPUTF8 parameter
  unknown_parameter,  // no such parameter here
  bad_parameter,      // known, but its value is not of its form, or it was given twice
  bad_size,           // SIZE or a BDAT count that is not a number
};
inline std::string_view error_module(CommandError) { return "command"; }
std::string_view describe(CommandError e);

/// Which parameters a session may use: what its EHLO announced. All false after HELO.
struct CommandOptions {
  bool size = true, eight_bit_mime = true, dsn = true, smtputf8 = true, auth = false, requiretls = false;
  bool strict_paths = false;  // strict_rfc821_envelopes: the address must stand in <>
};

struct MailCommand {
  std::string sender;  // external form; empty: the null sender
  // RFC 1870; more digits than 64 bits hold become the largest number
  std::optional<std::uint64_t> size;
  BodyType body = BodyType::unspecified;
  Ret ret = Ret::unspecified;
  std::string envid;  // decoded from xtext
  std::string auth;   // RFC 4954 AUTH=, decoded; empty: not given
  bool auth_given = false;
  bool smtputf8 = false;
  bool requiretls = false;  // RFC 8689
};
inline constexpr std::size_t kMaxOrcpt = 500;  // bytes of the value (RFC 3461 section 4.2)
struct RcptCommand {
  std::string recipient;  // external form; never empty
  std::string orcpt;      // "rfc822;…" as received, checked; UTF-8 only with SMTPUTF8
  std::uint8_t notify = 0;
};
struct BdatCommand {
  std::uint64_t size = 0;
  bool last = false;
};

/// `args` is what follows "MAIL": "FROM:<path> parameters".
Result<MailCommand> parse_mail(std::string_view args, const CommandOptions& options);
/// `smtputf8`: the transaction was opened with SMTPUTF8.
Result<RcptCommand> parse_rcpt(std::string_view args, const CommandOptions& options, bool smtputf8);
Result<BdatCommand> parse_bdat(std::string_view args);

/// A path of RFC 5321 section 4.1.2 at the start of `text`: in angle brackets, with or without
/// source route, or bare when !strict. Cuts it off `text`. The address comes out in external form,
/// quoted only where it must be, without the route, with the dot at the end of a domain dropped.
/// "<>" gives "".
Result<std::string> take_path(std::string_view& text, bool strict);

/// xtext of RFC 3461 section 4: nullopt when malformed.
std::optional<std::string> decode_xtext(std::string_view text);
std::string encode_xtext(std::string_view text);

}  // namespace pen::mail
