#pragma once
/// The SMTP command grammar as a server reads it: one line in, its parts out. No I/O, no session state.
///
/// Use:     auto line = split_command("RCPT TO:<a@b> NOTIFY=NEVER");
///          if (line.verb == Verb::rcpt) { auto rcpt = parse_rcpt(line.args, options, smtputf8); … }
/// Source:  RFC 5321 section 4.1, RFC 1870 (SIZE), 3030 (BDAT), 3461 (DSN), 4954 (AUTH=), 6152 (BODY), 6531
///          (SMTPUTF8), 4865 (HOLDFOR, HOLDUNTIL), 6710 (MT-PRIORITY), 8689 (REQUIRETLS).
/// Errors:  CommandError; the error's context is the rejected parameter or address. command_refusal.h maps errors to
///          replies.
/// Bounds:  the caller bounds the line; nothing here allocates more than a small multiple of it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/mail/address.h"
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
/// "MAIL"; "UNKNOWN" for text that is not a command.
std::string_view verb_name(Verb verb);

/// A command line cut after its first word. Views into the line.
struct CommandLine {
  Verb verb = Verb::unknown;
  std::string_view word;  // as the client wrote it
  std::string_view args;  // without white space at either end
};
/// Letter case does not matter; white space before the command and around its arguments is ignored.
CommandLine split_command(std::string_view line);

enum class CommandError {
  syntax = 1,         // does not have the command's form
  bad_address,        // not a path by RFC 5321
  needs_smtputf8,     // non-ASCII address without the SMTPUTF8 parameter
  unknown_parameter,  // no such parameter here
  bad_parameter,      // known, but its value is malformed, or it was given twice
  bad_size,           // SIZE or a BDAT count that is not a number
};
inline std::string_view error_module(CommandError) { return "command"; }
std::string_view describe(CommandError e);

/// The parameters that a session may use: those its EHLO announced. All false after HELO.
struct CommandOptions {
  bool size = true, eight_bit_mime = true, dsn = true, smtputf8 = true, auth = false, requiretls = false;
  bool strict_paths = false;  // strict_rfc821_envelopes: the address must stand in <>
  OddDomains odd_domains = {};
  bool utf8_unasked = false;  // an address in UTF-8 needs no SMTPUTF8 parameter
  std::string_view verp{};    // XVERP: the delimiters for one without; empty: not offered
  bool mt_priority = false;
  seconds future_release{0};  // HOLDFOR and HOLDUNTIL: the longest time; 0: not offered
  WallTime now{};             // from which that counts
};

/// Of the facts: sender, envid, ret, body_type, smtputf8, requiretls, verp (as given: verp_delimiters() of verp.h),
/// priority, release and release_request.
struct MailCommand : MessageFacts {
  // RFC 1870; a number of more than 64 bits becomes the largest number.
  std::optional<std::uint64_t> size;
  std::string auth;  // RFC 4954 AUTH=, decoded; empty: not given
  bool auth_given = false;
  bool priority_given = false;
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

/// `args`: the text after "MAIL": "FROM:<path> parameters".
Result<MailCommand> parse_mail(std::string_view args, const CommandOptions& options);
/// `smtputf8`: the transaction was opened with SMTPUTF8.
Result<RcptCommand> parse_rcpt(std::string_view args, const CommandOptions& options, bool smtputf8);
Result<BdatCommand> parse_bdat(std::string_view args);

/// Reads a path (RFC 5321 section 4.1.2) from the start of `text` and cuts it off: in angle brackets, with or without
/// source route, or bare when !strict. The address is returned in external form, quoted only where necessary, without
/// the route and without a dot at the end of the domain. "<>" gives "".
Result<std::string> take_path(std::string_view& text, bool strict, OddDomains odd = {});

/// priority-value of RFC 6710: -9 to 9, without zeros in front. nullopt: malformed.
std::optional<std::int8_t> parse_priority(std::string_view text);

/// xtext of RFC 3461 section 4: nullopt when malformed. "=" that stands for itself is read, as are digits in lower
/// case: other systems write both, and a refusal would return their mail for what matters in notices alone.
std::optional<std::string> decode_xtext(std::string_view text);
std::string encode_xtext(std::string_view text);

}  // namespace pen::mail
