#include "smtpd/policy_protocol.h"

#include "lib/base/text.h"
#include "lib/mail/charset.h"

namespace pen::smtpd {
namespace {

void add(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).push_back('=');
  for (const char c : value) out.push_back(c == '\0' || c == '\r' || c == '\n' ? '?' : c);
  out.push_back('\n');
}
void add(std::string& out, std::string_view name, std::uint64_t value) { add(out, name, std::to_string(value)); }

}  // namespace

std::string_view describe(PolicyReplyError e) {
  switch (e) {
    case PolicyReplyError::malformed:
      return "malformed reply";
    case PolicyReplyError::no_action:
      return "no action in the reply";
    case PolicyReplyError::not_utf8:
      return "the reply is not UTF-8";
    case PolicyReplyError::too_large:
      return "the reply is too large";
  }
  return "unknown";
}

std::string policy_request(const PolicyQuery& query) {
  std::string out;
  out.reserve(1024);
  add(out, "request", "smtpd_access_policy");
#define PEN_ATTRIBUTE(name) add(out, #name, query.name);
  PEN_ATTRIBUTE(protocol_state)
  PEN_ATTRIBUTE(protocol_name)
  PEN_ATTRIBUTE(client_address)
  PEN_ATTRIBUTE(client_name)
  PEN_ATTRIBUTE(client_port)
  PEN_ATTRIBUTE(reverse_client_name)
  PEN_ATTRIBUTE(server_address)
  PEN_ATTRIBUTE(server_port)
  PEN_ATTRIBUTE(helo_name)
  PEN_ATTRIBUTE(sender)
  PEN_ATTRIBUTE(recipient)
  PEN_ATTRIBUTE(recipient_count)
  PEN_ATTRIBUTE(queue_id)
  PEN_ATTRIBUTE(instance)
  PEN_ATTRIBUTE(size)
  PEN_ATTRIBUTE(etrn_domain)
  PEN_ATTRIBUTE(stress)
  PEN_ATTRIBUTE(sasl_method)
  PEN_ATTRIBUTE(sasl_username)
  PEN_ATTRIBUTE(sasl_sender)
  PEN_ATTRIBUTE(ccert_subject)
  PEN_ATTRIBUTE(ccert_issuer)
  PEN_ATTRIBUTE(ccert_fingerprint)
  PEN_ATTRIBUTE(ccert_pubkey_fingerprint)
  PEN_ATTRIBUTE(encryption_protocol)
  PEN_ATTRIBUTE(encryption_cipher)
  PEN_ATTRIBUTE(encryption_keysize)
  PEN_ATTRIBUTE(tls_sni)
  PEN_ATTRIBUTE(policy_context)
  PEN_ATTRIBUTE(compatibility_level)
  PEN_ATTRIBUTE(mail_version)
#undef PEN_ATTRIBUTE
#define PEN_ATTRIBUTE(name) \
  if (!query.name.empty()) add(out, #name, query.name);
  PEN_ATTRIBUTE(spf_result)
  PEN_ATTRIBUTE(dkim_result)
  PEN_ATTRIBUTE(dmarc_result)
#undef PEN_ATTRIBUTE
  out.push_back('\n');
  return out;
}

Result<void> PolicyReply::line(std::string_view text, bool utf8) {
  size_ += text.size() + 1;
  if (size_ > kMaxSize) return fail(PolicyReplyError::too_large);
  if (text.empty()) {
    if (!has_action_) return fail(PolicyReplyError::no_action);
    complete_ = true;
    return {};
  }
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || text.find('\0') != std::string_view::npos)
    return fail(PolicyReplyError::malformed, "\"" + printable(text, 100) + "\" is not name=value");
  if (utf8 && !mail::valid_utf8(text)) return fail(PolicyReplyError::not_utf8, printable(text, 100));
  if (has_action_ || trim(text.substr(0, equals)) != "action") return {};
  has_action_ = true;
  action_ = std::string(trim(text.substr(equals + 1)));
  return {};
}

}  // namespace pen::smtpd
