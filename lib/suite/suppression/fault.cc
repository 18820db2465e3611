#include "lib/suite/suppression/fault.h"

#include <algorithm>
#include <array>
#include <string>

#include "lib/base/text.h"

namespace pen::suppression {
namespace {

// What a receiver holds against the sender or the message, and mailboxes without room.
constexpr std::array<std::string_view, 22> kOther = {
    "spam",     "block",     "blacklist",   "denylist", "reputation",    "policy", "dmarc",   "spf ",
    "dkim",     "rate",      "too many",    "throttl",  "quota",         " full",  "storage", "enough space",
    "greylist", "listed at", "authenticat", "relay",    "not permitted", "virus"};
constexpr std::array<std::string_view, 24> kGone = {"user unknown",
                                                    "unknown user",
                                                    "no such user",
                                                    "user not found",
                                                    "does not exist",
                                                    "doesn't exist",
                                                    "no mailbox",
                                                    "mailbox not found",
                                                    "mailbox unavailable",
                                                    "invalid recipient",
                                                    "recipient unknown",
                                                    "unknown recipient",
                                                    "no such recipient",
                                                    "no such mailbox",
                                                    "recipient not found",
                                                    "unknown mailbox",
                                                    "account disabled",
                                                    "account is disabled",
                                                    "mailbox disabled",
                                                    "mailbox is disabled",
                                                    "is inactive",
                                                    "user doesn't have",
                                                    "account has been disabled",
                                                    "no longer available"};

template <class List>
bool says_any(std::string_view text, const List& list) {
  return std::ranges::any_of(list, [&](std::string_view words) { return text.contains(words); });
}

}  // namespace

Fault fault_of(std::string_view dsn, std::string_view words) {
  if (!dsn.starts_with('5')) return Fault::none;
  const std::string text = to_lower(words.substr(0, 1000));
  if (says_any(text, kOther)) return Fault::none;
  if (dsn == "5.2.2" || dsn == "5.2.3" || dsn == "5.2.4") return Fault::none;  // full, too large, a mailing list's
  if (dsn == "5.1.1" || dsn == "5.1.6") return Fault::certain;  // no such mailbox; it has moved and left no address
  if (dsn == "5.2.1" || dsn == "5.1.0" || dsn == "5.1.10") return Fault::likely;
  return says_any(text, kGone) ? Fault::likely : Fault::none;
}

}  // namespace pen::suppression
