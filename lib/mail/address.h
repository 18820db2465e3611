#pragma once
/// Mail addresses: their grammar, their parts, and the two ways to write a local part.
///
/// Forms:   external: as on the wire, a local part quoted where the grammar wants it ("a b"@example.org);
///            envelopes, logs and table look-ups use this form.
///          internal: unquoted (a b@example.org); file names, user names and the splitting of extensions use this one.
/// Use:     auto path = parse_path("<a@example.org> SIZE=1", {}, &used);      // MAIL FROM:, RCPT TO:
///          domain_part("a@example.org") == "example.org";
///          split_extension("user+ext", "+") == {"user", "ext"};
/// Pure functions without I/O; views returned point into the argument. Any thread.
/// Source:  RFC 5321 sections 4.1.2 and 4.1.3, RFC 6531 section 3.3, RFC 1123 section 2.1;
///          Postfix: recipient_delimiter, strict_rfc821_envelopes, resolve_numeric_domain.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::mail {

enum class AddressError {
  malformed = 1,  // no path, unbalanced quotes or brackets, stray characters
  bad_local_part,
  bad_domain,
  bad_literal,     // [1.2.3] and the like
  null_address,    // <> where an address is needed
  too_long,        // RFC 5321 section 4.5.3.1 (with some slack, see kMaxPath)
  needs_smtputf8,  // bytes above 126 without the SMTPUTF8 parameter
  bad_utf8,
};
std::string_view error_module(AddressError);
std::string_view describe(AddressError);

/// RFC 5321 says 256 for a path; real addresses (VERP, SRS, gateways) are longer.
inline constexpr std::size_t kMaxPath = 1024;
inline constexpr std::size_t kMaxDomain = 255;

struct PathOptions {
  bool smtputf8 = false;         // permit UTF-8 in local part and domain
  bool allow_null = false;       // "<>" is an answer (reverse-path)
  bool strict = false;           // strict_rfc821_envelopes: angle brackets are required
  bool allow_bare_local = true;  // an address without @domain ("postmaster" always is)
};
/// Reads one path from the start of text: "<local@domain>", "<@route:local@domain>" (the route is
/// dropped, RFC 5321 appendix C), "<>", or without strict: a word without brackets. The answer is
/// in external form with the local part quoted only where needed and the domain as it came. *used
/// (may be null) receives how many bytes were read; what follows must be the end or a space
/// (checked).
Result<std::string> parse_path(std::string_view text, const PathOptions& options, std::size_t* used = nullptr);

/// Where the @ between local part and domain is: the last one outside quotes; npos when there is none.
std::size_t at_sign(std::string_view address);
/// What is before that @ (all of it when there is none) and behind it ("" when there is none).
std::string_view local_part(std::string_view address);
std::string_view domain_part(std::string_view address);
inline bool has_domain(std::string_view address) { return at_sign(address) != std::string_view::npos; }

/// The local part alone, external to internal: quotes and backslashes removed. Unquoted text stays as it is.
std::string unquote_local(std::string_view local);
/// Internal to external: quoted when it is not a dot-atom (RFC 5321 Dot-string). UTF-8 counts as atom text.
std::string quote_local(std::string_view local);
/// Whole addresses. to_external takes an internal address: the last @ separates (so that a local part
/// with an @ needs its domain to come back).
std::string to_internal(std::string_view external);
std::string to_external(std::string_view internal);

/// user+extension. `delimiters`: the setting recipient_delimiter, any of its characters separates
/// (the first one found); empty: no extensions. A local part that starts with a delimiter, and the
/// special names owner-LIST and LIST-request with the delimiter '-', are not split, nor are
/// mailer-daemon and double-bounce.
struct Extension {
  std::string_view user;
  std::string_view extension;  // without the delimiter
  char delimiter = '\0';       // '\0': no extension
};
Extension split_extension(std::string_view local, std::string_view delimiters);

/// The address with its domain in lower case (ASCII), the local part untouched.
std::string fold_domain(std::string_view address);

/// A host or domain name by RFC 1123: labels of letters, digits and inner hyphens (underscores
/// pass, as in Postfix), each at most 63 bytes, 255 in all, not all numeric. With utf8, U-labels
/// pass too. No trailing dot.
bool valid_hostname(std::string_view name, bool utf8 = false);
/// "1.2.3.4" where a name belongs.
bool numeric_hostname(std::string_view name);
/// valid_hostname with at least one dot inside.
bool fully_qualified(std::string_view name, bool utf8 = false);
/// Numeric addresses without brackets.
bool valid_ipv4(std::string_view text);
bool valid_ipv6(std::string_view text);
inline bool valid_address(std::string_view text) { return valid_ipv4(text) || valid_ipv6(text); }
/// "[192.0.2.1]" or "[IPv6:2001:db8::1]" (or "[2001:db8::1]", as Postfix accepts) to the numeric
/// address in normal form; nullopt when it is no address literal.
std::optional<std::string> literal_address(std::string_view domain);

/// Addresses in a list as header fields hold it (RFC 5322 section 3.4 with groups, comments,
/// display names, routes).
struct ListedAddress {
  std::string address;  // external form; may lack a domain
  std::string display_name;
};
/// At most max of them; what cannot be read as an address is skipped. Never fails: mail headers hold anything.
std::vector<ListedAddress> parse_address_list(std::string_view text, std::size_t max = 10000);

/// Puts other addresses in place of those of a list (a header field's value); nothing else of the text changes. What
/// `replace` answers is put there as it is; the address it was given: nothing changes. Only addresses that stand in one
/// piece are asked about: "Jo Doe" without brackets or a comment inside an address is left alone. Returns whether
/// something changed. Errors: what replace says; the text is as it was then.
using AddressReplacer = std::function<Result<std::string>(std::string_view address)>;
Result<bool> replace_addresses(std::string& text, const AddressReplacer& replace);
/// Addresses of one field beyond this are left as they are (Postfix header_address_token_limit has the same purpose).
inline constexpr std::size_t kMaxReplaced = 10000;

}  // namespace pen::mail
