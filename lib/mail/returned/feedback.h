#pragma once
/// The body of a part message/feedback-report.
///
/// Use:     if (auto feedback = read_feedback(text)) …
/// Rules:   a part without Feedback-Type is no report; an unknown type is `other`.
/// Bounds:  kMostRecipients, kMostDomains, kMaxText.
/// Source:  RFC 5965 section 3, RFC 6591 section 3. Pure.
#include <optional>
#include <string_view>

#include "lib/mail/returned/report.h"

namespace pen::returned {

std::optional<Feedback> read_feedback(std::string_view text);

}  // namespace pen::returned
