#pragma once
/// The text of policy delegation: what a policy server is asked, and what it answers.
///
/// Use:     std::string request = policy_request(query);
///          PolicyReply reply;  while (!reply.complete()) PEN_TRY(reply.line(line, utf8));  … reply.action() …
/// Form:    lines "name=value", ended by an empty line. A value has no NUL, CR or LF: such bytes of it become "?".
/// Errors:  malformed, no_action, not_utf8, too_large: the server broke the protocol, and its connection is of no use
///          any more.
/// Thread:  any.
/// Source:  Postfix SMTPD_POLICY_README.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace pen::smtpd {

enum class PolicyReplyError { malformed = 1, no_action, not_utf8, too_large };
inline std::string_view error_module(PolicyReplyError) { return "policy reply"; }
std::string_view describe(PolicyReplyError e);

/// The attributes of a request, in the order in which they are sent. An unknown text is empty, an unknown number 0.
struct PolicyQuery {
  std::string_view protocol_state, protocol_name;
  std::string_view client_address, client_name, client_port, reverse_client_name;
  std::string_view server_address, server_port, helo_name;
  std::string_view sender, recipient;
  std::uint64_t recipient_count = 0;
  std::string_view queue_id, instance;
  std::uint64_t size = 0;
  std::string_view etrn_domain, stress;
  std::string_view sasl_method, sasl_username, sasl_sender;
  // the names as xtext, of a certificate that is trusted; the fingerprints of any
  std::string_view ccert_subject, ccert_issuer, ccert_fingerprint, ccert_pubkey_fingerprint;
  std::string_view encryption_protocol, encryption_cipher;
  std::uint64_t encryption_keysize = 0;
  std::string_view tls_sni, policy_context, compatibility_level, mail_version;
  // Ours alone, and only sent if they are known (docs/authentication-results.md).
  std::string_view spf_result, dkim_result, dmarc_result;
};

std::string policy_request(const PolicyQuery& query);

class PolicyReply {
 public:
  // All lines of one reply together: several times a reply line, or a header field that PREPEND brings.
  static constexpr std::size_t kMaxSize = 16 * 1024;

  /// Takes the next line, without its LF. utf8: the reply must be UTF-8.
  Result<void> line(std::string_view text, bool utf8);
  /// The empty line has come.
  bool complete() const { return complete_; }
  /// The first one named.
  const std::string& action() const { return action_; }

 private:
  std::size_t size_ = 0;
  std::string action_;
  bool has_action_ = false, complete_ = false;
};

}  // namespace pen::smtpd
