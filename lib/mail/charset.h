#pragma once
/// Which characters a text is made of: what decides whether it may travel without SMTPUTF8.
#include <string_view>

namespace pen::mail {

bool all_ascii(std::string_view text);
/// RFC 3629: no over-long forms, no surrogates, nothing above U+10FFFF.
bool valid_utf8(std::string_view text);

}  // namespace pen::mail
