#pragma once
/// Every setting that acts, as a typed field; made from params.def and params_client.def, the one place where settings
/// are declared.
///
/// Use:     const config::Settings& s = config.settings();   // config.h reads main.cf into it
///          if (s.smtpd_helo_required) …  deadline = now + s.smtpd_timeout;
/// Fields:  named as in main.cf; those that smtp_ and lmtp_ share are smtp.NAME and lmtp.NAME.
///          TEXT    std::string                "$name" already expanded
///          NAMED_TEXT                         the same, where main.cf's name is not a valid C++ name
///          RAW     std::string                as written: the program expands its "$name" at run time
///          LIST    std::vector<std::string>   split at blanks and commas; "{ … }" is one item
///          BOOL    bool
///          INT     int                        within the row's bounds
///          SIZE    std::int64_t, bytes        within the row's bounds; suffixes k, m, g
///          TIME    std::chrono::milliseconds  s m h d w suffixes as Postfix, and ms
///          CHOICE  one of the enums below
/// Rows:    rows() holds the rest: texts, bounds, and the names that do not act here.
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pen::config {

/// smtpd_forbid_bare_newline; "yes" is normalize, as in Postfix 3.9 and later.
enum class BareNewline { no, normalize, reject, note };
/// smtp_address_preference, lmtp_address_preference.
enum class AddressPreference { any, ipv4, ipv6 };
/// smtp_dns_support_level, lmtp_dns_support_level; unset: enabled, unless disable_dns_lookups says otherwise.
enum class DnsSupport { unset, disabled, enabled, dnssec };
/// mynetworks_style.
enum class NetworksStyle { host, subnet, address_class };
/// info_log_address_format.
enum class AddressFormat { external, internal };
/// sendmail_fix_line_endings.
enum class FixLineEndings { always, strict, never };
/// reject_tempfail_action and its children.
enum class TempfailAction { defer_if_permit, defer };
enum class VerifyTarget { rcpt, data };
/// header_from_format.
enum class FromFormat { standard, obsolete };
/// destdb_backend.
enum class DestdbBackend { lmdb, redis };
/// smtpd_upstream_proxy_protocol.
enum class UpstreamProxy { none, haproxy };
/// postscreen_*_action: what happens to a client that failed a test.
enum class ScreenAction { ignore, enforce, drop };
enum class StandbyLease { none, file, redis };
/// shaping: what complaints in replies do.
enum class Shaping { no, observe, yes };
/// returned_mail_action.
enum class ReturnedMail { deliver, discard };
/// srs_forward: which mail gets a rewritten sender.
enum class SrsForward { forwarded, always };

/// The choice for a word of main.cf; nullopt: not a word of this setting.
std::optional<BareNewline> parse_choice(std::string_view word, BareNewline);
std::optional<AddressPreference> parse_choice(std::string_view word, AddressPreference);
std::optional<DnsSupport> parse_choice(std::string_view word, DnsSupport);
std::optional<NetworksStyle> parse_choice(std::string_view word, NetworksStyle);
std::optional<TempfailAction> parse_choice(std::string_view word, TempfailAction);
std::optional<VerifyTarget> parse_choice(std::string_view word, VerifyTarget);
std::optional<AddressFormat> parse_choice(std::string_view word, AddressFormat);
std::optional<FixLineEndings> parse_choice(std::string_view word, FixLineEndings);
std::optional<FromFormat> parse_choice(std::string_view word, FromFormat);
std::optional<DestdbBackend> parse_choice(std::string_view word, DestdbBackend);
std::optional<UpstreamProxy> parse_choice(std::string_view word, UpstreamProxy);
std::optional<ScreenAction> parse_choice(std::string_view word, ScreenAction);
std::optional<StandbyLease> parse_choice(std::string_view word, StandbyLease);
std::optional<Shaping> parse_choice(std::string_view word, Shaping);
std::optional<ReturnedMail> parse_choice(std::string_view word, ReturnedMail);
std::optional<SrsForward> parse_choice(std::string_view word, SrsForward);

/// The settings that smtp has twice: for SMTP as smtp_NAME, for LMTP as lmtp_NAME.
struct ClientSettings {
#define PEN_TEXT_OF(names, field, ...) std::string field;
#define PEN_NAMED_TEXT(field, ...) std::string field;
#define PEN_RAW(field, ...) std::string field;
#define PEN_LIST_OF(names, field, ...) std::vector<std::string> field;
#define PEN_BOOL(field, ...) bool field = false;
#define PEN_INT(field, ...) int field = 0;
#define PEN_SIZE(field, ...) std::int64_t field = 0;
#define PEN_TIME(field, ...) std::chrono::milliseconds field{};
#define PEN_CHOICE(type, field, ...) type field{};
#define PEN_BY(smtp, lmtp) smtp
#define PEN_ACCEPTED(...)
#define PEN_UNSUPPORTED(...)
#define PEN_OBSOLETE(...)
#include "lib/config/params_client.def"
};

struct Settings {
  ClientSettings smtp, lmtp;
  const ClientSettings& client(bool is_lmtp) const { return is_lmtp ? lmtp : smtp; }
#include "lib/config/params.def"
};

enum class Type { text, raw, list, boolean, integer, size, time, choice, untyped };
enum class Class {
  acts,         ///< works as its text says
  accepted,     ///< accepted without effect, and nothing is lost by that
  unsupported,  ///< the mail system behaves differently from what the setting asks for; the note says how
  obsolete      ///< an old name; the successor is the setting to use
};
/// What the value of a setting names, and so what is opened, read or reached because of it: the kernel's rules for each
/// program, the tables that `penstock check` opens and the servers that doctor asks come from it.
enum class Names : std::uint8_t {
  nothing,       ///< words, numbers, names of hosts and domains, texts
  tables,        ///< each item is a table, "type:name"
  key_tables,    ///< the same, and what stands in them names files of keys and certificates
  strings,       ///< a list of that kind of lib/map/match_list.h: patterns, tables, /files with more of both
  domains,       ///< the same
  hosts,         ///< the same
  networks,      ///< the same
  restrictions,  ///< of smtpd (restrictions.h): words, tables and policy servers
  conditions,    ///< other words, among which tables may stand
  filters,       ///< milters
  servers,       ///< other servers that a program connects to
  file,          ///< a path or several: files that are read
  keys,          ///< files with the private keys of TLS, which the key process reads where there is one
  certificates,  ///< files with certificates, which may hold their keys
  directory,     ///< a path: the files in it are read
  file_lists,    ///< a file or a table that names further files
  written        ///< what the programs write or keep in memory: none reads it by this name
};
/// When a change takes effect.
enum class Applies { reload, restart };

/// The declaration of one setting.
struct Row {
  std::string_view name;
  Type type = Type::untyped;
  Class kind = Class::acts;
  std::string_view default_text;  ///< as it would be written in main.cf; may hold $name
  std::int64_t min = 0, max = 0;  ///< INT as is, SIZE bytes, TIME seconds; both 0: no bounds
  std::string_view programs;      ///< programs that read it, separated by blanks; "all"
  Applies applies = Applies::reload;
  /// acts: what it does; accepted, unsupported: what follows; one paragraph.
  std::string_view text;
  std::string_view successor;  ///< obsolete only
  std::string_view words;      ///< CHOICE only: the words, blank-separated
  Names names = Names::nothing;
};

/// All known settings, sorted by name. The rows live as long as the program.
std::span<const Row> rows();
/// The row of that name; nullptr: there is none.
const Row* find_row(std::string_view name);
/// What a setting names. An old name names what its successor does; a name without a row names nothing that is known.
Names names_of(const Row& row);
/// Whether the value is a list of lib/map/match_list.h.
bool is_match_list(Names names);

}  // namespace pen::config
