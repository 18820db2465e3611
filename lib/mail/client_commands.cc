#include "lib/mail/client_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "lib/base/text.h"
#include "lib/mail/charset.h"
#include "lib/mail/client_attributes.h"
#include "lib/mail/command.h"

namespace pen::mail {

namespace {
constexpr std::size_t kMaxMechanisms = 64;

/// One limit of LIMITS. What cannot be read counts as not said (RFC 9422 section 3), and so does 0: it would forbid
/// everything.
void read_limit(std::string_view text, Offers& offers) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return;
  const auto value = parse_unsigned(text.substr(equals + 1));
  if (!value) return;
  const std::string_view name = text.substr(0, equals);
  if (iequals(name, "MAILMAX")) offers.mail_max = *value;
  if (iequals(name, "RCPTMAX")) offers.rcpt_max = *value;
  if (iequals(name, "RCPTDOMAINMAX")) offers.rcpt_domain_max = *value;
}
}  // namespace

Offers parse_offers(const std::vector<std::string>& lines, const std::vector<std::string>& discard) {
  Offers offers;
  for (std::size_t i = 1; i < lines.size(); ++i) {  // line 0 is the peer's name
    const auto words = split(lines[i], " \t");
    if (words.empty()) continue;
    std::string_view keyword = words[0];
    // "AUTH=LOGIN" is the form of a draft of RFC 2554; some servers still send it.
    const bool old_auth = istarts_with(keyword, "AUTH=");
    if (old_auth) keyword = keyword.substr(0, 4);
    if (std::any_of(discard.begin(), discard.end(), [&](const auto& d) { return iequals(d, keyword); })) continue;
    if (iequals(keyword, "PIPELINING"))
      offers.pipelining = true;
    else if (iequals(keyword, "CHUNKING"))
      offers.chunking = true;
    else if (iequals(keyword, "8BITMIME"))
      offers.eight_bit_mime = true;
    else if (iequals(keyword, "BINARYMIME"))
      offers.binary_mime = true;
    else if (iequals(keyword, "DSN"))
      offers.dsn = true;
    else if (iequals(keyword, "SMTPUTF8"))
      offers.smtputf8 = true;
    else if (iequals(keyword, "ENHANCEDSTATUSCODES"))
      offers.enhanced_status = true;
    else if (iequals(keyword, "STARTTLS"))
      offers.starttls = true;
    else if (iequals(keyword, "REQUIRETLS"))
      offers.requiretls = true;
    else if (iequals(keyword, "MT-PRIORITY"))
      offers.mt_priority = true;
    else if (iequals(keyword, "XFORWARD"))
      offers.xforward = xforward_offers(std::string_view(lines[i]).substr(keyword.size()));
    else if (iequals(keyword, "LIMITS")) {
      for (const std::string_view limit : std::span(words).subspan(1)) read_limit(limit, offers);
    } else if (iequals(keyword, "AUTH")) {
      if (old_auth && words[0].size() > 5) offers.auth.emplace_back(words[0].substr(5));
      for (std::size_t n = 1; n < words.size() && offers.auth.size() < kMaxMechanisms; ++n)
        offers.auth.emplace_back(words[n]);
    } else if (iequals(keyword, "SIZE")) {
      offers.size = true;
      if (words.size() > 1) offers.size_limit = parse_unsigned(words[1]).value_or(0);
    }
  }
  return offers;
}

bool sendable_address(std::string_view address) {
  if (address.size() > 2000) return false;
  bool quoted = false;
  for (std::size_t i = 0; i < address.size(); ++i) {
    const auto c = static_cast<unsigned char>(address[i]);
    if (c < 0x20 || c == 0x7f) return false;
    if (c == '\\') {
      if (++i >= address.size()) return false;
      const auto next = static_cast<unsigned char>(address[i]);
      if (next < 0x20 || next == 0x7f) return false;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '<' || c == '>' || c == ' ')) {
      return false;
    }
  }
  return !quoted;
}

void append_mail(std::string& out, const MailLine& line, const Offers& offers) {
  out += "MAIL FROM:<";
  out += line.sender;
  out += '>';
  if (offers.size && line.size) {
    out += " SIZE=";
    out += std::to_string(*line.size);
  }
  if (line.body_type == BodyType::binary_mime) {
    if (offers.binary_mime && offers.chunking) out += " BODY=BINARYMIME";
  } else if (offers.eight_bit_mime && (line.body_type == BodyType::eight_bit_mime || line.eight_bit_body)) {
    out += " BODY=8BITMIME";
  }
  if (offers.smtputf8 && line.smtputf8) out += " SMTPUTF8";
  if (offers.dsn) {
    if (!line.envid.empty()) {
      out += " ENVID=";
      out += encode_xtext(line.envid);
    }
    if (line.ret != Ret::unspecified) out += line.ret == Ret::full ? " RET=FULL" : " RET=HDRS";
  }
  if (line.requiretls && offers.requiretls) out += " REQUIRETLS";
  if (line.priority != 0 && offers.mt_priority) {
    out += " MT-PRIORITY=";
    out += std::to_string(line.priority);
  }
  if (offers.null_auth) out += " AUTH=<>";
  out += "\r\n";
}

namespace {

/// A received ORCPT in the form that this server may get (RFC 6533 section 3); empty: the server must not get it.
std::string passed_on(std::string_view orcpt, const Offers& offers) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; };
  if (std::ranges::any_of(orcpt, control) || !valid_utf8(orcpt)) return {};
  std::string out = offers.smtputf8 ? std::string(orcpt) : escape_utf8(orcpt);
  if (out.size() > kMaxOrcpt) out.clear();
  return out;
}

/// An address in UTF-8 as ORCPT has it (RFC 6533 section 3); empty: it is no such address.
std::string utf8_orcpt(std::string_view address) {
  if (!valid_utf8(address)) return {};
  std::string out = "utf-8;";
  for (const char c : address) {
    const auto u = static_cast<unsigned char>(c);
    if (u <= ' ' || u == 0x7f || c == '\\' || c == '+' || c == '=')
      out += fmt::format("\\x{{{:X}}}", u);
    else
      out += c;
  }
  return out;
}

}  // namespace

void append_rcpt(std::string& out, const Recipient& recipient, const Offers& offers) {
  out += "RCPT TO:<";
  out += recipient.address;
  out += '>';
  if (offers.dsn) {
    if (recipient.notify != 0) {
      out += " NOTIFY=";
      if ((recipient.notify & notify::kNever) != 0) {
        out += "NEVER";
      } else {
        const char* comma = "";
        for (const auto& [bit, word] : {std::pair{notify::kSuccess, "SUCCESS"}, std::pair{notify::kFailure, "FAILURE"},
                                        std::pair{notify::kDelay, "DELAY"}}) {
          if ((recipient.notify & bit) == 0) continue;
          out += comma;
          out += word;
          comma = ",";
        }
      }
    }
    if (const std::string orcpt = passed_on(recipient.orcpt, offers); !orcpt.empty()) {
      out += " ORCPT=";
      out += orcpt;
    } else if (recipient.orcpt.empty() && !recipient.original.empty() && recipient.original != recipient.address) {
      const bool ascii = all_ascii(recipient.original);
      const std::string made = ascii ? "rfc822;" + encode_xtext(recipient.original) : utf8_orcpt(recipient.original);
      if (const std::string say = passed_on(made, offers); !say.empty()) {
        out += " ORCPT=";
        out += say;
      }
    }
  }
  out += "\r\n";
}

}  // namespace pen::mail
