#include "pickup/probe.h"

#include <fmt/format.h>

#include "lib/intake/intake.h"
#include "lib/mail/address.h"
#include "lib/mail/reply.h"

namespace pen::pickup {
namespace {

using mail::Action;

/// What a route to the error or retry transport says: "5.1.2 no such domain".
mail::DeliveryStatus stated(const resolve::Route& route) {
  const bool retry = route.transport == "retry";
  std::string_view text = route.nexthop;
  std::string dsn = retry ? "4.0.0" : "5.0.0";
  if (const auto code = mail::enhanced_code(text)) {
    dsn = *code;
    text.remove_prefix(std::min(code->size() + 1, text.size()));
  }
  const bool later = retry || dsn.starts_with('4');
  return mail::make_status(later ? Action::deferred : Action::failed, std::move(dsn),
                           std::string(text));
}

Result<mail::DeliveryStatus> fate(const resolve::Resolve& resolve, const std::string& sender,
                                  const std::string& address) {
  PEN_TRY_ASSIGN(const auto route, resolve.route(sender, address));
  if (route.bad_address) return mail::make_status(Action::failed, "5.1.3", "bad address syntax");
  if (route.transport == "error" || route.transport == "retry") return stated(route);
  PEN_TRY_ASSIGN(const auto listed, resolve.listed(address));
  if (listed == resolve::Listed::no)
    return mail::make_status(Action::failed, "5.1.1",
                             std::string(resolve.unlisted_text(route.address_class)));
  return mail::make_status(
      Action::delivered, "2.0.0",
      fmt::format("would go by {} to {}", route.transport,
                  route.nexthop.empty() ? mail::domain_part(route.recipient) : route.nexthop));
}

}  // namespace

Result<std::vector<mail::DsnRecipient>> probe(const resolve::Resolve& resolve,
                                              mail::Envelope envelope, WallTime now) {
  std::vector<mail::DsnRecipient> found;
  const std::vector<mail::Recipient> given = envelope.recipients;
  const auto expanded = intake::expand_envelope(resolve, {}, envelope);
  if (expanded.outcome == intake::Outcome::lookup_failed) return fail_errno(expanded.text, EAGAIN);
  if (expanded.outcome != intake::Outcome::ok) {
    for (const auto& recipient : given)
      found.push_back({recipient, mail::make_status(Action::failed, "5.4.6", expanded.text), now});
    return found;
  }
  for (auto& recipient : envelope.recipients) {
    PEN_TRY_ASSIGN(auto status, fate(resolve, envelope.sender, recipient.address));
    found.push_back({std::move(recipient), std::move(status), now});
  }
  return found;
}

}  // namespace pen::pickup
