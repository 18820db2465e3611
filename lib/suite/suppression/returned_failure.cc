#include "lib/suite/suppression/returned_failure.h"

#include "lib/base/text.h"
#include "lib/suite/suppression/fault.h"

namespace pen::suppression {

std::optional<ipc::suppression::Failure> returned_failure(const returned::Notice& notice,
                                                          std::string_view verp_recipient) {
  // A notice about one recipient may call him by another name than the mail did.
  const bool only = notice.recipients.size() == 1 && notice.more == 0;
  for (const auto& r : notice.recipients) {
    if (r.action != returned::Action::failed || fault_of(r.status, r.diagnostic) == Fault::none) continue;
    const bool meant =
        verp_recipient.empty() || only || iequals(r.original, verp_recipient) || iequals(r.final, verp_recipient);
    if (!meant) continue;
    return ipc::suppression::Failure{.tenant = {},
                                     .address = verp_recipient.empty() ? r.address() : std::string(verp_recipient),
                                     .reason = ipc::suppression::Reason::returned,
                                     .certain = false,
                                     .text = r.diagnostic};
  }
  return std::nullopt;
}

}  // namespace pen::suppression
