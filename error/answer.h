#pragma once
/// The answer of error, retry and discard to a job: a fixed status, made from the service's name and the next hop.
///
/// error:   fails every recipient with the next hop as the text; an enhanced code in front of the text counts
///          ("5.1.1 no such user"), otherwise 5.0.0.
/// retry:   defers in the same way with class 4.
/// discard: succeeds and drops the message.
/// Source:  Postfix's error(8), retry and discard(8) services.
/// Pure.
#include <string>
#include <string_view>

#include "lib/mail/delivery_status.h"

namespace pen::error_program {

enum class Kind : std::uint8_t { error, retry, discard };

/// Maps a service name of master.cf; unknown names are error, so that a misnamed service drops or keeps nothing.
Kind kind_of(std::string_view service);
mail::DeliveryStatus answer(Kind kind, std::string_view nexthop);
/// relay= of the log line: "none".
inline constexpr std::string_view kRelay = "none";

}  // namespace pen::error_program
