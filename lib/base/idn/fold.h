#pragma once
/// Case folding of what tables and lists are asked for: addresses, domains, host names.
///
/// Use:     entries.find(idn::fold(key)), where fold() made the keys of `entries` too.
/// Form:    ASCII: lower case. UTF-8: folded by Unicode ("full" folding, the same in every language), so that
///          "GRÜN" and "grün" are one, and "ß" is "ss". Other bytes: only their ASCII letters change.
/// Not for: words of protocols and settings, which are ASCII: to_lower(), iequals() (lib/base/text.h).
/// Pure; any thread.
/// Source:  Unicode 3.13 and CaseFolding.txt; Postfix: SMTPUTF8_README, postmap(1).
#include <string>
#include <string_view>

namespace pen::idn {

std::string fold(std::string_view text);
/// Whether fold() may do more than to_lower().
bool beyond_ascii(std::string_view text);
/// fold(a) == fold(b), without a copy where both are ASCII.
bool equal(std::string_view a, std::string_view b);

}  // namespace pen::idn
