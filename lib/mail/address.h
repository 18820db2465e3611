#pragma once
/// Mail addresses: their grammar, their parts, and the two ways to write a local part.
///
/// Forms:   external: as on the wire, a local part quoted where the grammar requires it ("a b"@example.org);
///            envelopes, logs and table look-ups use this form.
///          internal: unquoted (a b@example.org); file names, user names and the splitting of extensions use this form.
/// Use:     auto path = parse_path("<a@example.org> SIZE=1", {}, &used);      // MAIL FROM:, RCPT TO:
///          domain_part("a@example.org") == "example.org";
///          split_extension("user+ext", "+") == {"user", "ext"};
/// Pure functions without I/O; returned views point into the argument. Any thread.
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

/// Domains that are domains only where settings say so.
struct OddDomains {
  bool null = false;     // "user@" (resolve_null_domain)
  bool numeric = false;  // "user@192.0.2.1" (resolve_numeric_domain)
};
struct PathOptions {
  bool smtputf8 = false;         // permit UTF-8 in local part and domain
  bool allow_null = false;       // accept "<>" (reverse-path)
  bool strict = false;           // strict_rfc821_envelopes: angle brackets are required
  bool allow_bare_local = true;  // accept an address without @domain ("postmaster" always is)
  bool of_hosts = false;         // refuse domains that no host can have, as Postfix does at MAIL and RCPT
  OddDomains odd_domains = {};
};
/// Reads one path from the start of text: "<local@domain>", "<@route:local@domain>" (the route is dropped, RFC 5321
/// appendix C), "<>", or, unless strict, a word without brackets. The result is in external form: the local part is
/// quoted only where needed, the domain is unchanged. Blanks next to the brackets are passed over, as Postfix does:
/// people and scripts leave them there. *used (may be null) receives the number of bytes read; the path must be
/// followed by a blank or the end (checked).
Result<std::string> parse_path(std::string_view text, const PathOptions& options, std::size_t* used = nullptr);

/// The position of the @ between local part and domain: the last one outside quotes; npos: there is none.
std::size_t at_sign(std::string_view address);
/// The part before that @ (the whole address without one) and the part behind it ("" without one).
std::string_view local_part(std::string_view address);
std::string_view domain_part(std::string_view address);
inline bool has_domain(std::string_view address) { return at_sign(address) != std::string_view::npos; }

/// Converts a local part from external to internal form: removes quotes and backslashes. Unquoted text stays
/// unchanged.
std::string unquote_local(std::string_view local);
/// Converts a local part from internal to external form: quotes it when it is not a dot-atom (RFC 5321 Dot-string).
/// UTF-8 counts as atom text.
std::string quote_local(std::string_view local);
/// Converts whole addresses. to_external takes an internal address and splits it at the last @, so a local part with
/// an @ needs its domain to survive the round trip.
std::string to_internal(std::string_view external);
std::string to_external(std::string_view internal);

/// Splits user+extension. `delimiters`: the setting recipient_delimiter; any of its characters separates, the first
/// one found counts; empty: no extensions. Not split: a local part that starts with a delimiter, owner-LIST and
/// LIST-request when the delimiter is '-', mailer-daemon and double-bounce.
struct Extension {
  std::string_view user;
  std::string_view extension;  // without the delimiter
  char delimiter = '\0';       // '\0': no extension
};
Extension split_extension(std::string_view local, std::string_view delimiters);

/// The address with its domain in lower case (ASCII), the local part untouched.
std::string fold_domain(std::string_view address);

/// A host or domain name by RFC 1123: labels of letters, digits and inner hyphens (underscores pass, as in Postfix),
/// each at most 63 bytes, 255 in all, not all numeric. With utf8, U-labels pass too. No trailing dot.
bool valid_hostname(std::string_view name, bool utf8 = false);
/// Text like "1.2.3.4" in place of a host name.
bool numeric_hostname(std::string_view name);
/// valid_hostname with at least one dot inside.
bool fully_qualified(std::string_view name, bool utf8 = false);
/// Numeric addresses without brackets.
bool valid_ipv4(std::string_view text);
bool valid_ipv6(std::string_view text);
inline bool valid_address(std::string_view text) { return valid_ipv4(text) || valid_ipv6(text); }
/// Converts "[192.0.2.1]" or "[IPv6:2001:db8::1]" (or "[2001:db8::1]", which Postfix accepts) to the numeric address
/// in normal form; nullopt: not an address literal.
std::optional<std::string> literal_address(std::string_view domain);

/// An address from a list in a header field (RFC 5322 section 3.4, with groups, comments, display names, routes).
struct ListedAddress {
  std::string address;  // external form; may lack a domain
  std::string display_name;
};
/// Reads at most max addresses; skips text that is not an address. Never fails: header fields may hold anything.
/// skipped (may be null) receives that text, in pieces; both together are at most max.
std::vector<ListedAddress> parse_address_list(std::string_view text, std::size_t max = 10000,
                                              std::vector<std::string>* skipped = nullptr);

/// Replaces addresses of a list (a header field's value) and leaves the rest of the text alone. `replace` gets an
/// address and returns the text to put there, or the same address to change nothing. It is asked only about addresses
/// written in one piece: "Jo Doe" without brackets, or an address with a comment inside, stays. With as_needed an
/// address that stays gets the quotes that the grammar wants, and loses those that it does not need. Returns whether
/// something changed. Errors: those of `replace`; the text is then unchanged.
using AddressReplacer = std::function<Result<std::string>(std::string_view address)>;
enum class Quotes : bool { stay, as_needed };
Result<bool> replace_addresses(std::string& text, const AddressReplacer& replace, Quotes quotes = Quotes::stay);
/// Addresses of one field beyond this number stay unchanged (Postfix has header_address_token_limit for the same
/// purpose).
inline constexpr std::size_t kMaxReplaced = 10000;

}  // namespace pen::mail
