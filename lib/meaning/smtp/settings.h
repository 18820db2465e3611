#pragma once
/// The settings of the SMTP and LMTP client's engine and connections, under Postfix's names without the prefix.
///
/// For service lmtp the values come from the lmtp_* settings. Defaults are Postfix's unless a comment says otherwise.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/mail/error_class.h"

namespace pen::map {
class MapList;       // lib/map/map.h
class MatchList;     // lib/map/match_list.h
class StatusFilter;  // lib/map/status_filter.h
}  // namespace pen::map

namespace pen::smtp {

/// smtp_tls_… and tls_…, under shortened names.
struct TlsSettings {
  bool lmtp = false;  // which settings these are, for messages
  std::string ca_file, ca_path;
  bool default_ca = false;                      // tls_append_default_CA
  std::vector<std::string> trust_anchor_files;  // replace the three before
  std::string cert_file, key_file, dcert_file, dkey_file, eccert_file, eckey_file;
  std::vector<std::string> chain_files;
  std::string protocols = ">=TLSv1", mandatory_protocols = ">=TLSv1";
  std::string ciphers = "medium", mandatory_ciphers = "medium";  // grades
  std::vector<std::string> exclude_ciphers, mandatory_exclude_ciphers;
  // tls_high_cipherlist and so on.
  std::string high_ciphers = "aNULL:-aNULL:HIGH:@STRENGTH";
  std::string medium_ciphers = "aNULL:-aNULL:HIGH:MEDIUM:+RC4:@STRENGTH";
  std::string null_ciphers = "eNULL:!aNULL";
  std::vector<std::string> groups = {"X25519", "X448", "prime256v1", "secp521r1", "secp384r1"};
  std::vector<std::string> ssl_options;
  std::vector<std::string> disabled_workarounds;
  bool wildcard_matches_several_labels = true;
  std::string digest = "sha256";
  bool legacy_key_digest = false;  // tls_legacy_public_key_fingerprints
  int verify_depth = 9;
  int log_level = 0;
  bool note_offer = false;
  std::string unusable;       // why there is no TLS at all: tls_config_file; empty: there is
  bool keep_sessions = true;  // smtp_tls_session_cache_database is not empty
  milliseconds session_lifetime{seconds(3600)};
};

enum class StartTls : std::uint8_t { never, if_offered, required };

struct Login;
struct ContentRules;  // smtp/rewritten.h

struct Settings {
  bool lmtp = false;
  // For one connection, by its destination's TLS level.
  StartTls starttls = StartTls::never;
  bool requiretls = false;                    // the peer must offer REQUIRETLS (RFC 8689)
  bool wrapped = false;                       // smtp_tls_wrappermode: TLS from the first byte
  std::shared_ptr<const Login> login;         // for one connection; nullptr: no login
  std::string helo_name = "localhost";        // smtp_helo_name, lmtp_lhlo_name: $myhostname
  bool always_send_ehlo = true;               // smtp_always_send_ehlo
  bool never_send_ehlo = false;               // smtp_never_send_ehlo
  std::vector<std::string> discard_keywords;  // smtp_discard_ehlo_keywords
  bool skip_5xx_greeting = true;              // smtp_skip_5xx_greeting
  bool send_dummy_auth = false;               // smtp_send_dummy_mail_auth
  std::uint32_t reuse_limit = 0;              // smtp_connection_reuse_count_limit; 0: none
  bool shares = true;                         // smtp_connection_cache_on_demand
  bool trace = false;                         // for one connection: debug_peer_list names the server
  std::size_t line_length_limit = 998;        // smtp_line_length_limit; 0: none
  bool send_xforward = false;                 // smtp_send_xforward_command
  bool utf8_header_as_is = false;             // smtp_utf8_header_without_smtputf8
  bool convert_eight_bit = true;              // disable_mime_output_conversion = no

  std::shared_ptr<const ContentRules> rules;        // smtp_header_checks, smtp_generic_maps, …; nullptr: none
  std::shared_ptr<const map::StatusFilter> filter;  // smtp_delivery_status_filter; nullptr: none

  std::string bind_address, bind_address6;  // smtp_bind_address, smtp_bind_address6; empty: any
  bool bind_enforce = false;                // smtp_bind_address_enforce
  // For one connection: its source is one of these two, and may be left out.
  bool bind_optional = false;

  // Tables about servers; nullptr: none.
  std::shared_ptr<const map::MatchList> shared;            // smtp_connection_cache_destinations, with shares = false
  std::shared_ptr<const map::MatchList> traced;            // debug_peer_list
  std::shared_ptr<const map::MapList> reply_filter;        // smtp_reply_filter
  std::shared_ptr<const map::MapList> discard_by_address;  // smtp_discard_ehlo_keyword_address_maps
  std::shared_ptr<const map::MapList> tls_loglevels;       // smtp_tls_loglevel_maps
  bool tls_loglevel_parents = false;                       // parent_domain_matches_subdomains names these

  TlsSettings tls;

  mail::ErrorClasses told;    // notify_classes
  std::string double_bounce;  // the sender of such notices: errors with them are not reported to the postmaster

  bool probe_data = false;    // smtp_address_verify_target = data: the reply to DATA is the answer to a probe
  bool assume_final = false;  // lmtp_assume_final: success is "delivered", not "relayed"

  // Pipelining (new here; chosen by measurement, see docs/pipelining.md).
  // pipeline_window_messages: messages under way on a connection with PIPELINING and CHUNKING, on a path of
  // kWindowRoundTrip.
  std::uint32_t window = 32;
  // pipeline_window_bytes: content sent and not answered, on such a path; a single message may exceed it.
  std::uint64_t window_bytes = 8 * 1024 * 1024;
  // Larger content waits for the recipients' replies (BDAT).
  std::uint64_t eager_limit = 256 * 1024;
  bool pipelining = true;  // false: never, because the peer has misbehaved

  milliseconds connect_timeout{seconds(30)};
  milliseconds helo_timeout{seconds(300)};
  milliseconds starttls_timeout{seconds(300)};  // for the reply to STARTTLS, and for the handshake
  milliseconds mail_timeout{seconds(300)};
  milliseconds rcpt_timeout{seconds(300)};
  milliseconds data_init_timeout{seconds(120)};
  milliseconds data_xfer_timeout{seconds(180)};
  milliseconds data_done_timeout{seconds(600)};
  milliseconds rset_timeout{seconds(20)};
  milliseconds xforward_timeout{seconds(300)};
  // smtp_quit_timeout; the client never waits longer than 2 s, because nothing depends on the reply.
  milliseconds quit_timeout{seconds(300)};
  bool request_deadline = false;      // smtp_per_request_deadline
  std::uint64_t min_data_rate = 500;  // smtp_min_data_rate, with request_deadline
};

}  // namespace pen::smtp
