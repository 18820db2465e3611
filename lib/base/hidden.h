#pragma once
/// Texts without what lets somebody in, for logs, events and people.
///
/// Use:     log::warning("{}: no answer", without_user("https://anna:pw@a.example/x"));  // https://a.example/x
/// Pure; any thread.
#include <string>
#include <string_view>

namespace pen {

/// The text without the user part of each URL in it: what stands before the last "@" of its authority (RFC 3986
/// section 3.2). A URL ends at white space, a quote or a bracket.
std::string without_user(std::string_view text);

/// Whether the value of something with this name lets somebody in, or says where that is kept: "ldap_bind_pw",
/// "smtp_sasl_password_maps", "api_key".
bool named_secret(std::string_view name);

}  // namespace pen
