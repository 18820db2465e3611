#pragma once
/// Netstrings ("5:hello,"), and what a socketmap server says in one.
///
/// Use:     send(netstring("table key"));  if (whole_netstring(got, limit) == got.size())
///            value = socketmap_meaning(netstring_content(got), "socketmap:…");
/// Source:  socketmap_table(5); D. J. Bernstein, Netstrings. Pure; any thread.
#include <string>
#include <string_view>

#include "lib/map/map.h"

namespace pen::map {

/// The most bytes of a netstring beside its content: eight digits, colon, comma.
inline constexpr std::size_t kNetstringFrame = 10;

std::string netstring(std::string_view content);
/// The size of the netstring at the start of `bytes`. 0: it is incomplete; npos: malformed, or more than most bytes of
/// content.
std::size_t whole_netstring(std::string_view bytes, std::size_t most);
/// Of a whole netstring.
std::string_view netstring_content(std::string_view whole);
/// name: the table's, for errors. Errors: unreadable (TEMP, TIMEOUT, PERM, and every other unknown word).
Value socketmap_meaning(std::string_view content, std::string_view name);

}  // namespace pen::map
