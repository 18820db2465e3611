#pragma once
/// A recipient that became others on the way into the queue: it is in the envelope for the sender's sake only. And the
/// opposite, one that the sender is never told of.
///
/// Use:     lib/intake adds one for each address with NOTIFY=SUCCESS that aliases turned into several; qmgr delivers
///          it to nobody and reports it as expanded (docs/notices.md).
/// Source:  RFC 3461 section 5.2.7.3.
#include "lib/mail/envelope.h"

namespace pen::mail::notify {

/// In Recipient::notify, beside kSuccess. No client can set it.
inline constexpr std::uint8_t kExpanded = 32;
/// Beside kNever: a copy that the sender does not know of (always_bcc and its kin), so that no report on a first try
/// names it. Such a report is for those with NOTIFY=NEVER too, as in Postfix. No client can set it.
inline constexpr std::uint8_t kCopy = 64;

}  // namespace pen::mail::notify
