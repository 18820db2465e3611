#include "lib/mail/command.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/mail/charset.h"

namespace pen::mail {
namespace {

constexpr std::array<std::string_view, kVerbs> kNames = {
    "HELO", "EHLO", "LHLO", "STARTTLS", "AUTH", "MAIL", "RCPT",    "DATA",     "BDAT",   "RSET",
    "NOOP", "VRFY", "EXPN", "ETRN",     "HELP", "QUIT", "XCLIENT", "XFORWARD", "UNKNOWN"};

bool blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trim_blank(std::string_view text) {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view take_word(std::string_view& text) {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  std::size_t n = 0;
  while (n < text.size() && !blank(text[n])) ++n;
  const auto word = text.substr(0, n);
  text.remove_prefix(n);
  return word;
}

struct Parameter {
  std::string_view name, value;
  bool has_value = false;
};
/// esmtp-param of RFC 5321 section 4.1.2; nullopt: malformed keyword.
std::optional<Parameter> split_parameter(std::string_view word) {
  Parameter p;
  const auto equals = word.find('=');
  p.name = word.substr(0, equals);
  if (equals != std::string_view::npos) {
    p.has_value = true;
    p.value = word.substr(equals + 1);
  }
  if (p.name.empty() || !ascii_alnum(p.name.front())) return std::nullopt;
  for (const char c : p.name)
    if (!ascii_alnum(c) && c != '-') return std::nullopt;
  return p;
}

std::unexpected<Error> unknown(std::string_view word) {
  return fail(CommandError::unknown_parameter, std::string(word));
}
std::unexpected<Error> bad_value(std::string_view name) { return fail(CommandError::bad_parameter, std::string(name)); }

/// 1 to 20 digits (RFC 1870 section 4); a number of more than 64 bits saturates.
std::optional<std::uint64_t> parse_size(std::string_view text) {
  if (text.empty() || text.size() > 20) return std::nullopt;
  for (const char c : text)
    if (!ascii_digit(c)) return std::nullopt;
  const auto value = parse_unsigned(text);
  return value ? *value : std::numeric_limits<std::uint64_t>::max();
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// orcpt-parameter: addr-type ";" xtext (RFC 3461 section 4.2), or utf-8 forms (RFC 6533) when SMTPUTF8. Returns it in
/// the form in which it may be sent on; "" where no address is given; nullopt: it cannot be read.
std::optional<std::string> normal_orcpt(std::string_view value, bool smtputf8) {
  const auto semicolon = value.find(';');
  if (semicolon == std::string_view::npos || semicolon == 0) return std::nullopt;
  const auto type = value.substr(0, semicolon);
  for (const char c : type)
    if (!ascii_alnum(c) && c != '-') return std::nullopt;
  const auto address = value.substr(semicolon + 1);
  if (address.empty()) return std::string();
  if (iequals(type, "utf-8")) {
    if (!smtputf8 && !all_ascii(address)) return std::nullopt;
    for (const char c : address)
      if (static_cast<unsigned char>(c) <= 32 || c == 127) return std::nullopt;
    return valid_utf8(address) ? std::optional(std::string(value)) : std::nullopt;
  }
  const auto decoded = decode_xtext(address);
  if (!decoded || decoded->contains('\0')) return std::nullopt;
  // What is right stays as it is, character by character (RFC 3461 section 5.2.1).
  std::string out = std::string(type) + ";";
  for (std::size_t i = 0; i < address.size(); ++i) {
    if (address[i] == '+') {
      for (const char c : address.substr(i, 3)) out += c >= 'a' && c <= 'f' ? static_cast<char>(c - 'a' + 'A') : c;
      i += 2;
    } else if (address[i] == '=') {
      out += "+3D";
    } else {
      out += address[i];
    }
  }
  return out;
}

// RFC 3461 section 5.4 has 100; programs put longer Message-IDs there, and Postfix takes them.
constexpr std::size_t kMaxEnvid = 1000;

/// Words that are said twice, and commas too many, are passed over, as in Postfix.
std::optional<std::uint8_t> parse_notify(std::string_view value) {
  std::uint8_t bits = 0;
  while (true) {
    const auto comma = value.find(',');
    const auto word = value.substr(0, comma);
    std::uint8_t bit = 0;
    if (iequals(word, "NEVER"))
      bit = notify::kNever;
    else if (iequals(word, "SUCCESS"))
      bit = notify::kSuccess;
    else if (iequals(word, "FAILURE"))
      bit = notify::kFailure;
    else if (iequals(word, "DELAY"))
      bit = notify::kDelay;
    else if (!word.empty())
      return std::nullopt;
    bits |= bit;
    if (comma == std::string_view::npos) break;
    value.remove_prefix(comma + 1);
  }
  if (bits == 0 || ((bits & notify::kNever) != 0 && bits != notify::kNever)) return std::nullopt;
  return bits;
}

/// Cuts "FROM:" or "TO:" off; false: the prefix is not there.
bool take_prefix(std::string_view& args, std::string_view prefix) {
  if (!istarts_with(args, prefix)) return false;
  args.remove_prefix(prefix.size());
  while (!args.empty() && blank(args.front())) args.remove_prefix(1);
  return true;
}

Result<void> check_charset(std::string_view address, bool smtputf8, const CommandOptions& options) {
  if (all_ascii(address)) return {};
  if (!smtputf8 && !options.utf8_unasked) return fail(CommandError::needs_smtputf8, std::string(address));
  if (!valid_utf8(address)) return fail(CommandError::bad_address, std::string(address));
  return {};
}

/// One of them, within the time that is offered (RFC 4865). A date that has come is a mistake of a clock or
/// of a zone, and not sent at once.
Result<void> hold(MailCommand& mail, const Parameter& p, const CommandOptions& options) {
  const bool until = iequals(p.name, "HOLDUNTIL");
  const std::string_view name = until ? "HOLDUNTIL" : "HOLDFOR";
  if (!mail.release_request.empty()) return bad_value(name);
  WallTime release{};
  if (until) {
    const auto when = p.value.size() + 6 > kMaxReleaseRequest ? std::nullopt : parse_date_time(p.value);
    if (!when) return bad_value(name);
    release = *when;
  } else {
    const bool digits = !p.value.empty() && p.value.size() <= 9 && std::ranges::all_of(p.value, ascii_digit);
    if (!digits) return bad_value(name);
    release = options.now + seconds(static_cast<std::int64_t>(*parse_unsigned(p.value)));
  }
  if (release <= options.now || release > options.now + options.future_release) return bad_value(name);
  mail.release = release;
  mail.release_request = (until ? "until;" : "for;") + std::string(p.value);
  return {};
}

/// Of several XVERP the last one counts, as in Postfix; what RFCs define is said once.
Result<void> apply(MailCommand& mail, const Parameter& p, std::string_view word, const CommandOptions& options) {
  if (options.size && iequals(p.name, "SIZE")) {
    const auto size = parse_size(p.value);
    if (!size) return fail(CommandError::bad_size, std::string(word));
    if (mail.size) return bad_value("SIZE");
    mail.size = size;
  } else if (options.eight_bit_mime && iequals(p.name, "BODY")) {
    if (mail.body_type != BodyType::unspecified) return bad_value("BODY");
    if (iequals(p.value, "7BIT"))
      mail.body_type = BodyType::seven_bit;
    else if (iequals(p.value, "8BITMIME"))
      mail.body_type = BodyType::eight_bit_mime;
    else
      return bad_value("BODY");
  } else if (options.dsn && iequals(p.name, "RET")) {
    if (mail.ret != Ret::unspecified) return bad_value("RET");
    if (iequals(p.value, "FULL"))
      mail.ret = Ret::full;
    else if (iequals(p.value, "HDRS"))
      mail.ret = Ret::headers;
    else
      return bad_value("RET");
  } else if (options.dsn && iequals(p.name, "ENVID")) {
    auto decoded = decode_xtext(p.value);
    if (!mail.envid.empty() || !decoded || decoded->empty() || p.value.size() > kMaxEnvid) return bad_value("ENVID");
    for (const char c : *decoded)  // RFC 3461 section 4.4: printable US-ASCII only
      if (c < 32 || c > 126) return bad_value("ENVID");
    mail.envid = *std::move(decoded);
  } else if (options.smtputf8 && iequals(p.name, "SMTPUTF8")) {
    if (p.has_value) return bad_value("SMTPUTF8");
    mail.smtputf8 = true;
  } else if (options.requiretls && iequals(p.name, "REQUIRETLS")) {
    if (p.has_value || mail.requiretls != RequireTls::unspecified) return bad_value("REQUIRETLS");
    mail.requiretls = RequireTls::yes;
  } else if (!options.verp.empty() && iequals(p.name, "XVERP")) {
    if (p.has_value && p.value.empty()) return bad_value("XVERP");
    mail.verp = p.has_value ? p.value : options.verp;
  } else if (options.mt_priority && iequals(p.name, "MT-PRIORITY")) {
    const auto priority = parse_priority(p.value);
    if (mail.priority_given || !priority) return bad_value("MT-PRIORITY");
    mail.priority = *priority;
    mail.priority_given = true;
  } else if (options.future_release > seconds(0) && (iequals(p.name, "HOLDFOR") || iequals(p.name, "HOLDUNTIL"))) {
    return hold(mail, p, options);
  } else if (options.auth && iequals(p.name, "AUTH")) {
    auto decoded = decode_xtext(p.value);
    if (mail.auth_given || !decoded || decoded->empty()) return bad_value("AUTH");
    mail.auth_given = true;
    mail.auth = *std::move(decoded);
  } else {
    return unknown(word);
  }
  return {};
}

}  // namespace

std::optional<std::int8_t> parse_priority(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.size() != 1 || !ascii_digit(text[0]) || (negative && text[0] == '0')) return std::nullopt;
  const int digit = text[0] - '0';
  return static_cast<std::int8_t>(negative ? -digit : digit);
}

std::string_view verb_name(Verb verb) { return kNames[static_cast<std::size_t>(verb)]; }

std::string_view describe(CommandError e) {
  switch (e) {
    case CommandError::syntax:
      return "syntax error";
    case CommandError::bad_address:
      return "bad address syntax";
    case CommandError::needs_smtputf8:
      return "non-ASCII address without SMTPUTF8";
    case CommandError::unknown_parameter:
      return "unsupported option";
    case CommandError::bad_parameter:
      return "bad parameter syntax";
    case CommandError::bad_size:
      return "bad message size syntax";
  }
  return "unknown";
}

CommandLine split_command(std::string_view line) {
  CommandLine result;
  result.word = take_word(line);
  result.args = trim_blank(line);
  for (std::size_t i = 0; i + 1 < kVerbs; ++i)
    if (result.word.size() == kNames[i].size() && ascii_lower(result.word[0]) == ascii_lower(kNames[i][0]) &&
        iequals(result.word, kNames[i])) {
      result.verb = static_cast<Verb>(i);
      break;
    }
  return result;
}

Result<MailCommand> parse_mail(std::string_view args, const CommandOptions& options) {
  if (!take_prefix(args, "FROM:") || args.empty()) return fail(CommandError::syntax);
  MailCommand mail;
  PEN_TRY_ASSIGN(mail.sender, take_path(args, options.strict_paths, options.odd_domains));
  for (auto word = take_word(args); !word.empty(); word = take_word(args)) {
    const auto p = split_parameter(word);
    if (!p) return unknown(word);
    PEN_TRY(apply(mail, *p, word, options));
  }
  PEN_TRY(check_charset(mail.sender, mail.smtputf8, options));
  return mail;
}

Result<RcptCommand> parse_rcpt(std::string_view args, const CommandOptions& options, bool smtputf8) {
  if (!take_prefix(args, "TO:") || args.empty()) return fail(CommandError::syntax);
  RcptCommand rcpt;
  const std::string_view given = args;
  PEN_TRY_ASSIGN(rcpt.recipient, take_path(args, options.strict_paths, options.odd_domains));
  if (rcpt.recipient.empty()) return fail(CommandError::bad_address, std::string(given));
  for (auto word = take_word(args); !word.empty(); word = take_word(args)) {
    const auto p = split_parameter(word);
    if (!p) return unknown(word);
    if (options.dsn && iequals(p->name, "NOTIFY")) {
      const auto bits = parse_notify(p->value);
      if (!bits || rcpt.notify != 0) return bad_value("NOTIFY");
      rcpt.notify = *bits;
    } else if (options.dsn && iequals(p->name, "ORCPT")) {
      auto orcpt = normal_orcpt(p->value, smtputf8);
      if (!rcpt.orcpt.empty() || !orcpt || orcpt->size() > kMaxOrcpt) return bad_value("ORCPT");
      rcpt.orcpt = *std::move(orcpt);
    } else {
      return unknown(word);
    }
  }
  PEN_TRY(check_charset(rcpt.recipient, smtputf8, options));
  return rcpt;
}

Result<BdatCommand> parse_bdat(std::string_view args) {
  BdatCommand bdat;
  const auto count = take_word(args);
  const auto last = take_word(args);
  if (count.empty() || !trim_blank(args).empty()) return fail(CommandError::syntax);
  const auto size = parse_size(count);
  if (!size) return fail(CommandError::bad_size, std::string(count));
  if (!last.empty() && !iequals(last, "LAST")) return fail(CommandError::syntax);
  bdat.size = *size;
  bdat.last = !last.empty();
  return bdat;
}

std::optional<std::string> decode_xtext(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '+') {
      if (text.size() - i < 3) return std::nullopt;
      const int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c < 33 || c > 126) {
      return std::nullopt;
    } else {
      out += c;
    }
  }
  return out;
}

std::string encode_xtext(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (c < 33 || c > 126 || c == '+' || c == '=') {
      const auto u = static_cast<unsigned char>(c);
      out += '+';
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace pen::mail
