#pragma once
/// Takes out of a receiver's reply what it only repeats of the mail, so that rules judge the receiver's own words:
/// senders choose their addresses, and one that is called "throttling" complains of nothing.
///
/// Use:     rules.classify(provider, own_words(reply, std::array{sender, recipient}))
/// Drops:   what stands in angle brackets; every word with an @, a quoted local part and all; and, where they stand as
///          words of their own, local part (quoted or not) and domain of the addresses given. Parts of less than four
///          characters stay: no rule is that short, and "a" is a word of every reply.
/// Cost:    one pass per address over at most kMaxReply bytes.
/// Pure; any thread.
#include <span>
#include <string>
#include <string_view>

#include "lib/queue/shaping/rules.h"

namespace pen::shaping {

/// words: in lower case, with single spaces. addresses: in any case; may be empty.
void drop_repeated(std::string& words, std::span<const std::string_view> addresses);
/// reply_of() without what it repeats.
Reply own_words(std::string_view text, std::span<const std::string_view> addresses);

}  // namespace pen::shaping
