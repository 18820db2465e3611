#pragma once
/// What a notice does to the suppression list: it may bring one recipient nearer to it.
///
/// Use:     if (auto failed = returned_failure(notice, verp_recipient)) list->tell(…);
/// Rules:   anybody can write a notice, and name any recipient in it. So a notice speaks of one recipient at most: of
///          the one that an address of VERP names, else of the first that failed by its own fault. None is certain.
/// Source:  docs/suppression.md, "Strangers". No I/O.
#include <optional>
#include <string_view>

#include "lib/mail/returned/report.h"
#include "lib/suite/ipc/suppression.h"

namespace pen::suppression {

/// verp_recipient: empty: the notice came to no address of VERP.
std::optional<ipc::suppression::Failure> returned_failure(const returned::Notice& notice,
                                                          std::string_view verp_recipient);

}  // namespace pen::suppression
