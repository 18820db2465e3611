#pragma once
/// A name and an address in the form of our own From: fields.
///
/// Pure. Source: Postfix header_from_format; RFC 5322 section 3.2.5 (phrases), 3.2.2 (comments).
#include <string>
#include <string_view>

namespace pen::mail {

/// Returns "name <address>", with the name quoted if it is not made of atoms or has ! or %; obsolete: "address
/// (name)". Without a name: the address alone. The name must have no control characters.
std::string named_address(std::string_view name, std::string_view address, bool obsolete);

}  // namespace pen::mail
