#pragma once
/// Tells clients of other protocols by their first word.
///
/// Use:     if (line.verb == Verb::unknown && other_protocol(line.word, policy.forbidden_commands)) … hang up …
/// Thread:  any.
#include <string_view>

#include "lib/map/match_list.h"

namespace pen::smtpd {

/// The word is a field of a header (the client sends HTTP, or content after a refused DATA), or one of the list. A list
/// that cannot be read names nothing.
bool other_protocol(std::string_view word, const map::MatchList& forbidden);

}  // namespace pen::smtpd
