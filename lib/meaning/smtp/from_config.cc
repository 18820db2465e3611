#include "lib/meaning/smtp/from_config.h"

namespace pen::smtp {

namespace {

TlsSettings tls_settings_from(const config::Settings& from, bool lmtp) {
  const config::ClientSettings& client = from.client(lmtp);
  TlsSettings t;
  t.lmtp = lmtp;
  t.ca_file = client.tls_CAfile;
  t.ca_path = client.tls_CApath;
  t.trust_anchor_files = client.tls_trust_anchor_file;
  t.cert_file = client.tls_cert_file;
  t.key_file = client.tls_key_file;
  t.dcert_file = client.tls_dcert_file;
  t.dkey_file = client.tls_dkey_file;
  t.legacy_key_digest = from.tls_legacy_public_key_fingerprints;
  t.eccert_file = client.tls_eccert_file;
  t.eckey_file = client.tls_eckey_file;
  t.chain_files = client.tls_chain_files;
  t.protocols = client.tls_protocols;
  t.mandatory_protocols = client.tls_mandatory_protocols;
  t.ciphers = client.tls_ciphers;
  t.mandatory_ciphers = client.tls_mandatory_ciphers;
  t.exclude_ciphers = client.tls_exclude_ciphers;
  t.mandatory_exclude_ciphers = client.tls_mandatory_exclude_ciphers;
  t.default_ca = from.tls_append_default_CA;
  t.high_ciphers = from.tls_high_cipherlist;
  t.medium_ciphers = from.tls_medium_cipherlist;
  t.null_ciphers = from.tls_null_cipherlist;
  t.groups = from.tls_eecdh_auto_curves;
  t.groups.insert(t.groups.end(), from.tls_ffdhe_auto_groups.begin(), from.tls_ffdhe_auto_groups.end());
  t.ssl_options = from.tls_ssl_options;
  t.disabled_workarounds = from.tls_disable_workarounds;
  t.wildcard_matches_several_labels = from.tls_wildcard_matches_multiple_labels;
  t.digest = client.tls_fingerprint_digest;
  t.verify_depth = static_cast<int>(client.tls_scert_verifydepth);
  t.log_level = static_cast<int>(client.tls_loglevel);
  t.note_offer = client.tls_note_starttls_offer;
  t.keep_sessions = !client.tls_session_cache_database.empty();
  t.session_lifetime = client.tls_session_cache_timeout;
  return t;
}

}  // namespace

void bind_to_single_address(Settings& settings, const std::vector<std::string>& own) {
  for (const bool v6 : {false, true}) {
    std::string& bind = v6 ? settings.bind_address6 : settings.bind_address;
    if (!bind.empty()) continue;
    std::string only;
    std::size_t count = 0;
    for (const std::string& address : own) {
      if ((address.find(':') != std::string::npos) != v6) continue;
      ++count;
      only = address;
    }
    if (count == 1 && only != "::1" && !only.starts_with("127.")) bind = only;
  }
}

Settings settings_from(const config::Settings& from, bool lmtp) {
  const config::ClientSettings& client = from.client(lmtp);
  Settings s;
  s.lmtp = lmtp;
  s.told = mail::parse_error_classes(from.notify_classes).value_or(mail::ErrorClasses());
  s.double_bounce = from.double_bounce_sender + "@" + from.myhostname;
  s.always_send_ehlo = from.smtp_always_send_ehlo;
  s.never_send_ehlo = from.smtp_never_send_ehlo;
  s.window = static_cast<std::uint32_t>(from.pipeline_window_messages);
  s.window_bytes = static_cast<std::uint64_t>(from.pipeline_window_bytes);
  s.assume_final = lmtp && from.lmtp_assume_final;
  s.probe_data = client.address_verify_target == config::VerifyTarget::data;
  s.helo_name = lmtp ? from.lmtp_lhlo_name : from.smtp_helo_name;
  s.utf8_header_as_is = client.utf8_header_without_smtputf8;
  s.convert_eight_bit = !from.disable_mime_output_conversion;
  s.discard_keywords = lmtp ? from.lmtp_discard_lhlo_keywords : from.smtp_discard_ehlo_keywords;
  s.line_length_limit = static_cast<std::size_t>(client.line_length_limit);
  s.skip_5xx_greeting = client.skip_5xx_greeting;
  s.send_dummy_auth = client.send_dummy_mail_auth;
  s.reuse_limit = static_cast<std::uint32_t>(client.connection_reuse_count_limit);
  s.shares = client.connection_cache_on_demand;
  s.bind_enforce = client.bind_address_enforce;
  s.bind_address = client.bind_address;
  s.bind_address6 = client.bind_address6;
  s.connect_timeout = client.connect_timeout;
  s.helo_timeout = lmtp ? from.lmtp_lhlo_timeout : from.smtp_helo_timeout;
  s.mail_timeout = client.mail_timeout;
  s.rcpt_timeout = client.rcpt_timeout;
  s.data_init_timeout = client.data_init_timeout;
  s.data_xfer_timeout = client.data_xfer_timeout;
  s.data_done_timeout = client.data_done_timeout;
  s.send_xforward = client.send_xforward_command;
  s.xforward_timeout = client.xforward_timeout;
  s.rset_timeout = client.rset_timeout;
  s.quit_timeout = client.quit_timeout;
  s.request_deadline = client.per_request_deadline;
  s.min_data_rate = static_cast<std::uint64_t>(client.min_data_rate);
  s.starttls_timeout = client.starttls_timeout;
  s.wrapped = client.tls_wrappermode;
  s.tls = tls_settings_from(from, lmtp);
  return s;
}

}  // namespace pen::smtp
