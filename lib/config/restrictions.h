#pragma once
/// Every name that an smtpd_*_restrictions list may hold, and what it does here.
///
/// Use:     const RestrictionName* r = find_restriction(item);  // nullptr: a table, a restriction class, or a mistake
/// Source:  Postfix postconf(5) smtpd_*_restrictions; ../smtpd evaluates them, `penstock check` reports what cannot act.
#include <cstdint>
#include <string_view>

namespace pen::config {

enum class Check : std::uint8_t {
  permit,
  reject,
  defer,
  defer_if_permit,
  defer_if_reject,
  warn_if_reject,
  permit_mynetworks,
  permit_inet_interfaces,
  permit_sasl_authenticated,
  permit_tls_clientcerts,
  permit_tls_all_clientcerts,
  permit_auth_destination,
  reject_unauth_destination,
  defer_unauth_destination,
  reject_invalid_helo_hostname,
  reject_non_fqdn_helo_hostname,
  reject_unknown_helo_hostname,
  reject_unknown_client_hostname,
  reject_unknown_reverse_client_hostname,
  reject_non_fqdn_sender,
  reject_non_fqdn_recipient,
  reject_unknown_sender_domain,
  reject_unknown_recipient_domain,
  reject_unlisted_sender,
  reject_unlisted_recipient,
  reject_unauth_pipelining,
  reject_multi_recipient_bounce,
  reject_plaintext_session,
  check_client_access,
  check_reverse_client_hostname_access,
  check_helo_access,
  check_sender_access,
  check_recipient_access,
  check_ccert_access,
  check_sasl_access,
  reject_sender_login_mismatch,
  reject_authenticated_sender_login_mismatch,
  reject_known_sender_login_mismatch,
  reject_unauthenticated_sender_login_mismatch,
  restriction_class,
  unsupported,
  unknown,
};

struct RestrictionName {
  std::string_view name;
  Check check;
  bool takes_argument;  // the item after it belongs to it
};

/// By name, in any case; nullptr: none has it.
const RestrictionName* find_restriction(std::string_view name);

}  // namespace pen::config
