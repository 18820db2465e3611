#include "smtpd/restriction.h"

#include <algorithm>
#include <array>

#include "lib/base/text.h"

namespace pen::smtpd {
namespace {

struct Name {
  std::string_view name;
  Check check;
};
constexpr Name kNames[] = {
    {"permit", Check::permit},
    {"reject", Check::reject},
    {"defer", Check::defer},
    {"defer_if_permit", Check::defer_if_permit},
    {"defer_if_reject", Check::defer_if_reject},
    {"warn_if_reject", Check::warn_if_reject},
    {"permit_mynetworks", Check::permit_mynetworks},
    {"permit_inet_interfaces", Check::permit_inet_interfaces},
    {"permit_sasl_authenticated", Check::permit_sasl_authenticated},
    {"permit_tls_clientcerts", Check::permit_dunno},  // no client certificates yet: never matches
    {"permit_tls_all_clientcerts", Check::permit_dunno},
    {"permit_auth_destination", Check::permit_auth_destination},
    {"reject_unauth_destination", Check::reject_unauth_destination},
    {"check_relay_domains", Check::reject_unauth_destination},
    {"defer_unauth_destination", Check::defer_unauth_destination},
    {"reject_invalid_helo_hostname", Check::reject_invalid_helo_hostname},
    {"reject_invalid_hostname", Check::reject_invalid_helo_hostname},
    {"reject_non_fqdn_helo_hostname", Check::reject_non_fqdn_helo_hostname},
    {"reject_non_fqdn_hostname", Check::reject_non_fqdn_helo_hostname},
    {"reject_unknown_helo_hostname", Check::reject_unknown_helo_hostname},
    {"reject_unknown_hostname", Check::reject_unknown_helo_hostname},
    {"reject_unknown_client_hostname", Check::reject_unknown_client_hostname},
    {"reject_unknown_client", Check::reject_unknown_client_hostname},
    {"reject_unknown_reverse_client_hostname", Check::reject_unknown_reverse_client_hostname},
    {"reject_non_fqdn_sender", Check::reject_non_fqdn_sender},
    {"reject_non_fqdn_recipient", Check::reject_non_fqdn_recipient},
    {"reject_unknown_sender_domain", Check::reject_unknown_sender_domain},
    {"reject_unknown_recipient_domain", Check::reject_unknown_recipient_domain},
    {"reject_unlisted_sender", Check::reject_unlisted_sender},
    {"reject_unlisted_recipient", Check::reject_unlisted_recipient},
    {"check_recipient_maps", Check::reject_unlisted_recipient},
    {"reject_unauth_pipelining", Check::reject_unauth_pipelining},
    {"reject_multi_recipient_bounce", Check::reject_multi_recipient_bounce},
    {"reject_plaintext_session", Check::reject_plaintext_session},
    {"check_client_access", Check::check_client_access},
    {"check_reverse_client_hostname_access", Check::check_reverse_client_hostname_access},
    {"check_helo_access", Check::check_helo_access},
    {"check_sender_access", Check::check_sender_access},
    {"check_recipient_access", Check::check_recipient_access},
};
/// With an argument after the name.
constexpr std::string_view kUnsupportedWithArgument[] = {"check_policy_service",
                                                         "check_ccert_access",
                                                         "check_sasl_access",
                                                         "check_etrn_access",
                                                         "check_client_a_access",
                                                         "check_client_mx_access",
                                                         "check_client_ns_access",
                                                         "check_reverse_client_hostname_a_access",
                                                         "check_reverse_client_hostname_mx_access",
                                                         "check_reverse_client_hostname_ns_access",
                                                         "check_helo_a_access",
                                                         "check_helo_mx_access",
                                                         "check_helo_ns_access",
                                                         "check_sender_a_access",
                                                         "check_sender_mx_access",
                                                         "check_sender_ns_access",
                                                         "check_recipient_a_access",
                                                         "check_recipient_mx_access",
                                                         "check_recipient_ns_access",
                                                         "reject_rbl_client",
                                                         "permit_dnswl_client",
                                                         "reject_rbl",
                                                         "reject_rhsbl_client",
                                                         "reject_rhsbl_reverse_client",
                                                         "reject_rhsbl_helo",
                                                         "reject_rhsbl_sender",
                                                         "reject_rhsbl_recipient",
                                                         "permit_rhswl_client",
                                                         "sleep"};
constexpr std::string_view kUnsupportedAlone[] = {"reject_unknown_forward_client_hostname",
                                                  "reject_unverified_sender",
                                                  "reject_unverified_recipient",
                                                  "reject_sender_login_mismatch",
                                                  "reject_authenticated_sender_login_mismatch",
                                                  "reject_known_sender_login_mismatch",
                                                  "reject_unauthenticated_sender_login_mismatch",
                                                  "permit_mx_backup",
                                                  "permit_naked_ip_address",
                                                  "reject_maps_rbl"};

bool contains(auto const& names, std::string_view name) {
  return std::ranges::any_of(names, [&](std::string_view n) { return iequals(n, name); });
}

Check table_check(Stage stage) {
  switch (stage) {
    case Stage::client:
      return Check::check_client_access;
    case Stage::helo:
      return Check::check_helo_access;
    case Stage::sender:
      return Check::check_sender_access;
    default:
      return Check::check_recipient_access;
  }
}

}  // namespace

bool RestrictionReader::known_to_postfix(std::string_view name) {
  return contains(kUnsupportedWithArgument, name) || contains(kUnsupportedAlone, name);
}

RestrictionList RestrictionReader::read(Stage stage, const std::vector<std::string>& items) {
  RestrictionList list;
  const auto open_maps = [&](Restriction& r, const std::string& spec) {
    auto maps = map::MapList::open(spec, open_);
    if (maps) {
      r.maps = *std::move(maps);
    } else {
      warnings_.push_back(r.name + " " + spec + ": " + maps.error().message());
      r.check = Check::unknown;
    }
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    Restriction r;
    r.name = items[i];
    if (const auto* known =
            std::ranges::find_if(kNames, [&](const Name& n) { return iequals(n.name, r.name); });
        known != std::end(kNames)) {
      r.check = known->check;
      if (r.check >= Check::check_client_access && r.check <= Check::check_recipient_access) {
        if (i + 1 == items.size()) {
          warnings_.push_back(r.name + ": no table follows");
          r.check = Check::unknown;
        } else {
          open_maps(r, items[++i]);
        }
      }
    } else if (const auto cls = std::ranges::find_if(
                   classes_, [&](const Class& c) { return iequals(c.name, r.name); });
               cls != classes_.end()) {
      r.check = Check::restriction_class;
      r.class_index = static_cast<std::size_t>(cls - classes_.begin());
    } else if (contains(kUnsupportedWithArgument, r.name)) {
      r.check = Check::unsupported;
      if (i + 1 < items.size()) ++i;
      warnings_.push_back(r.name + " is not supported: mail that reaches it gets 451 4.3.5");
    } else if (contains(kUnsupportedAlone, r.name)) {
      r.check = Check::unsupported;
      warnings_.push_back(r.name + " is not supported: mail that reaches it gets 451 4.3.5");
    } else if (r.name.find(':') != std::string::npos) {
      const std::string spec = r.name;
      r.check = table_check(stage);
      open_maps(r, spec);
    } else {
      warnings_.push_back("unknown smtpd restriction: \"" + r.name + "\"");
    }
    list.push_back(std::move(r));
  }
  if (!list.empty() && list.back().check == Check::warn_if_reject)
    warnings_.push_back("warn_if_reject: no restriction follows");
  return list;
}

std::vector<RestrictionList> RestrictionReader::read_classes() {
  std::vector<RestrictionList> lists;
  for (const auto& c : classes_) lists.push_back(read(Stage::recipient, c.items));
  return lists;
}

bool may_wait(const RestrictionList& list, const std::vector<RestrictionList>& classes, int depth) {
  return std::ranges::any_of(list, [&](const Restriction& r) {
    switch (r.check) {
      case Check::reject_unknown_helo_hostname:
      case Check::reject_unknown_sender_domain:
      case Check::reject_unknown_recipient_domain:
        return true;
      case Check::restriction_class:
        return depth > 20 || may_wait(classes[r.class_index], classes, depth + 1);
      default:
        return r.maps.blocking();
    }
  });
}

bool guards_relaying(const RestrictionList& list) {
  return std::ranges::any_of(list, [](const Restriction& r) {
    switch (r.check) {
      case Check::reject_unauth_destination:
      case Check::defer_unauth_destination:
      case Check::reject:
      case Check::defer:
      case Check::defer_if_permit:
        return true;
      default:
        return false;
    }
  });
}

}  // namespace pen::smtpd
