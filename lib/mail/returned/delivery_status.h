#pragma once
/// The body of a part message/delivery-status.
///
/// Use:     if (auto notice = read_delivery_status(text)) …
/// Rules:   what a recipient's fields lack is taken from the others: the status from the action or from the diagnostic,
///          the action from the status. Recipients of which nothing is said are left out, and so is a part without any.
/// Bounds:  kMostRecipients, kMaxText.
/// Source:  RFC 3464, RFC 6533. Pure.
#include <optional>
#include <string_view>

#include "lib/mail/returned/report.h"

namespace pen::returned {

std::optional<Notice> read_delivery_status(std::string_view text);

}  // namespace pen::returned
