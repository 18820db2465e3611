#pragma once
/// The words for why an address is on the suppression list, in the log, replies, events and files.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/suite/ipc/suppression.h"

namespace pen::suppression {

using ipc::suppression::Reason;

/// "bounce", "returned", "complaint", "order".
std::string_view word(Reason reason);
std::optional<Reason> reason_named(std::string_view word);
/// When an address leaves the list, for people and files: seconds since 1970 as 2027-01-31T06:00:00Z, 0 as "never".
std::string end_text(std::int64_t expires);
/// For people: "it bounced", "its reader complained", …
std::string_view in_words(Reason reason);

}  // namespace pen::suppression
