#pragma once
/// The parts of MIME fields that decide how a message is split, for SevenBitForm and MimeWalker.
///
/// Source:  RFC 2045 section 5.1, RFC 2046 section 5.1.1, RFC 2231 sections 3 and 4. Pure.
#include <string>
#include <string_view>
#include <vector>

namespace pen::mail {

/// The first word of a field's value in lower case: a type, an encoding. Comments, and blanks around "/", are skipped.
std::string mime_word(std::string_view value);
/// The boundary parameters of an unfolded Content-Type value, in order; usually one, never empty. A parameter in the
/// form of RFC 2231 (boundary*=, boundary*0=; boundary*1=) comes last, decoded.
std::vector<std::string> mime_boundaries(std::string_view value);
/// A field's value on one line: line ends removed, tabs replaced by blanks.
std::string unfold(std::string_view text);

}  // namespace pen::mail
