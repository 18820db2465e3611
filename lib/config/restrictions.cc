#include "lib/config/restrictions.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::config {
namespace {

constexpr RestrictionName kNames[] = {
    {"permit", Check::permit, false},
    {"reject", Check::reject, false},
    {"defer", Check::defer, false},
    {"defer_if_permit", Check::defer_if_permit, false},
    {"defer_if_reject", Check::defer_if_reject, false},
    {"warn_if_reject", Check::warn_if_reject, false},
    {"permit_mynetworks", Check::permit_mynetworks, false},
    {"permit_inet_interfaces", Check::permit_inet_interfaces, false},
    {"permit_sasl_authenticated", Check::permit_sasl_authenticated, false},
    {"permit_tls_clientcerts", Check::permit_tls_clientcerts, false},
    {"permit_tls_all_clientcerts", Check::permit_tls_all_clientcerts, false},
    {"permit_auth_destination", Check::permit_auth_destination, false},
    {"reject_unauth_destination", Check::reject_unauth_destination, false},
    {"check_relay_domains", Check::reject_unauth_destination, false},
    {"defer_unauth_destination", Check::defer_unauth_destination, false},
    {"reject_invalid_helo_hostname", Check::reject_invalid_helo_hostname, false},
    {"reject_invalid_hostname", Check::reject_invalid_helo_hostname, false},
    {"reject_non_fqdn_helo_hostname", Check::reject_non_fqdn_helo_hostname, false},
    {"reject_non_fqdn_hostname", Check::reject_non_fqdn_helo_hostname, false},
    {"reject_unknown_helo_hostname", Check::reject_unknown_helo_hostname, false},
    {"reject_unknown_hostname", Check::reject_unknown_helo_hostname, false},
    {"reject_unknown_client_hostname", Check::reject_unknown_client_hostname, false},
    {"reject_unknown_client", Check::reject_unknown_client_hostname, false},
    {"reject_unknown_reverse_client_hostname", Check::reject_unknown_reverse_client_hostname,
     false},
    {"reject_non_fqdn_sender", Check::reject_non_fqdn_sender, false},
    {"reject_non_fqdn_recipient", Check::reject_non_fqdn_recipient, false},
    {"reject_unknown_sender_domain", Check::reject_unknown_sender_domain, false},
    {"reject_unknown_recipient_domain", Check::reject_unknown_recipient_domain, false},
    {"reject_unlisted_sender", Check::reject_unlisted_sender, false},
    {"reject_unlisted_recipient", Check::reject_unlisted_recipient, false},
    {"check_recipient_maps", Check::reject_unlisted_recipient, false},
    {"reject_unauth_pipelining", Check::reject_unauth_pipelining, false},
    {"reject_multi_recipient_bounce", Check::reject_multi_recipient_bounce, false},
    {"reject_plaintext_session", Check::reject_plaintext_session, false},
    {"check_client_access", Check::check_client_access, true},
    {"check_reverse_client_hostname_access", Check::check_reverse_client_hostname_access, true},
    {"check_helo_access", Check::check_helo_access, true},
    {"check_sender_access", Check::check_sender_access, true},
    {"check_recipient_access", Check::check_recipient_access, true},
    {"check_ccert_access", Check::check_ccert_access, true},
    {"check_sasl_access", Check::check_sasl_access, true},
    {"reject_sender_login_mismatch", Check::reject_sender_login_mismatch, false},
    {"reject_authenticated_sender_login_mismatch",
     Check::reject_authenticated_sender_login_mismatch, false},
    {"reject_known_sender_login_mismatch", Check::reject_known_sender_login_mismatch, false},
    {"reject_unauthenticated_sender_login_mismatch",
     Check::reject_unauthenticated_sender_login_mismatch, false},
    // Postfix has these, Penstock does not yet: mail that reaches one gets 451 4.3.5.
    {"check_policy_service", Check::unsupported, true},
    {"check_etrn_access", Check::unsupported, true},
    {"check_client_a_access", Check::unsupported, true},
    {"check_client_mx_access", Check::unsupported, true},
    {"check_client_ns_access", Check::unsupported, true},
    {"check_reverse_client_hostname_a_access", Check::unsupported, true},
    {"check_reverse_client_hostname_mx_access", Check::unsupported, true},
    {"check_reverse_client_hostname_ns_access", Check::unsupported, true},
    {"check_helo_a_access", Check::unsupported, true},
    {"check_helo_mx_access", Check::unsupported, true},
    {"check_helo_ns_access", Check::unsupported, true},
    {"check_sender_a_access", Check::unsupported, true},
    {"check_sender_mx_access", Check::unsupported, true},
    {"check_sender_ns_access", Check::unsupported, true},
    {"check_recipient_a_access", Check::unsupported, true},
    {"check_recipient_mx_access", Check::unsupported, true},
    {"check_recipient_ns_access", Check::unsupported, true},
    {"reject_rbl_client", Check::unsupported, true},
    {"permit_dnswl_client", Check::unsupported, true},
    {"reject_rbl", Check::unsupported, true},
    {"reject_rhsbl_client", Check::unsupported, true},
    {"reject_rhsbl_reverse_client", Check::unsupported, true},
    {"reject_rhsbl_helo", Check::unsupported, true},
    {"reject_rhsbl_sender", Check::unsupported, true},
    {"reject_rhsbl_recipient", Check::unsupported, true},
    {"permit_rhswl_client", Check::unsupported, true},
    {"sleep", Check::unsupported, true},
    {"reject_unknown_forward_client_hostname", Check::unsupported, false},
    {"reject_unverified_sender", Check::unsupported, false},
    {"reject_unverified_recipient", Check::unsupported, false},
    {"permit_mx_backup", Check::unsupported, false},
    {"permit_naked_ip_address", Check::unsupported, false},
    {"reject_maps_rbl", Check::unsupported, false},
};

}  // namespace

const RestrictionName* find_restriction(std::string_view name) {
  const auto* known =
      std::ranges::find_if(kNames, [&](const RestrictionName& n) { return iequals(n.name, name); });
  return known == std::end(kNames) ? nullptr : known;
}

}  // namespace pen::config
