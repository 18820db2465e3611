#pragma once
/// Marks for two kinds of recipients. An expanded recipient became others on its way into the queue and stays in the
/// envelope only for the report to its sender. A copy is a recipient that the sender never hears of.
///
/// Use:     lib/receive/intake adds an expanded one for each address with NOTIFY=SUCCESS that aliases turned into
///          several; qmgr does not deliver it and reports it as expanded (docs/notices.md).
/// Source:  RFC 3461 section 5.2.7.3.
#include "lib/mail/envelope.h"

namespace pen::mail::notify {

/// Set in Recipient::notify beside kSuccess. No client can set it.
inline constexpr std::uint8_t kExpanded = 32;
/// Set beside kNever for a copy that the sender does not know of (always_bcc and its kin), so that no report on a
/// first try names it: such reports otherwise include recipients with NOTIFY=NEVER, as in Postfix. No client can set
/// it.
inline constexpr std::uint8_t kCopy = 64;

}  // namespace pen::mail::notify
