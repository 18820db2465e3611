#include "lib/meaning/smtpd/named_lists.h"

#include <algorithm>

namespace pen::smtpd {
namespace {

/// The place for lists that this restriction asks; nullptr: it asks none.
NamedLists::Domains* place(NamedLists& lists, Check check) {
  switch (check) {
    case Check::reject_rbl_client:
    case Check::permit_dnswl_client:
      return &lists.client_address;
    case Check::reject_rhsbl_client:
    case Check::permit_rhswl_client:
      return &lists.client_name;
    case Check::reject_rhsbl_reverse_client:
      return &lists.reverse_name;
    case Check::reject_rhsbl_helo:
      return &lists.helo;
    case Check::reject_rhsbl_sender:
      return &lists.sender;
    case Check::reject_rhsbl_recipient:
      return &lists.recipient;
    default:
      return nullptr;
  }
}

}  // namespace

std::unique_ptr<const NamedLists> NamedLists::of(std::span<const RestrictionList* const> lists) {
  auto found = std::make_unique<NamedLists>();
  bool any = false;
  for (const RestrictionList* list : lists) {
    for (const Restriction& r : *list) {
      Domains* into = r.dns_list ? place(*found, r.check) : nullptr;
      if (into == nullptr) continue;
      any = true;
      if (std::ranges::find(*into, r.dns_list->domain) == into->end()) into->push_back(r.dns_list->domain);
    }
  }
  if (!any) return nullptr;
  return found;
}

}  // namespace pen::smtpd
