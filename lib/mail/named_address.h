#pragma once
/// A name and an address in the form of our own From: fields.
///
/// Pure. Source: Postfix header_from_format, full_name_encoding_charset; RFC 5322 section 3.2.5 (phrases), 3.2.2
/// (comments); RFC 2047 section 5 (encoded words in both).
#include <string>
#include <string_view>

namespace pen::mail {

/// Returns "name <address>", with the name quoted if it is not made of atoms or has ! or %; obsolete: "address
/// (name)". Without a name: the address alone. The name must have no control characters.
std::string named_address(std::string_view name, std::string_view address, bool obsolete);
/// A name with bytes beyond ASCII as encoded words, which every mail program can show and every host takes. One in
/// ASCII stays, and so does every name without a charset.
std::string encoded_name(std::string_view name, std::string_view charset);

}  // namespace pen::mail
