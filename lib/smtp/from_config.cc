#include "lib/smtp/from_config.h"

namespace pen::smtp {

namespace {

TlsSettings tls_settings_from(const config::Settings& from, bool lmtp) {
  TlsSettings t;
  t.lmtp = lmtp;
  t.ca_file = lmtp ? from.lmtp_tls_CAfile : from.smtp_tls_CAfile;
  t.ca_path = lmtp ? from.lmtp_tls_CApath : from.smtp_tls_CApath;
  t.trust_anchor_files = lmtp ? from.lmtp_tls_trust_anchor_file : from.smtp_tls_trust_anchor_file;
  t.cert_file = lmtp ? from.lmtp_tls_cert_file : from.smtp_tls_cert_file;
  t.key_file = lmtp ? from.lmtp_tls_key_file : from.smtp_tls_key_file;
  t.dcert_file = lmtp ? from.lmtp_tls_dcert_file : from.smtp_tls_dcert_file;
  t.dkey_file = lmtp ? from.lmtp_tls_dkey_file : from.smtp_tls_dkey_file;
  t.legacy_key_digest = from.tls_legacy_public_key_fingerprints;
  t.eccert_file = lmtp ? from.lmtp_tls_eccert_file : from.smtp_tls_eccert_file;
  t.eckey_file = lmtp ? from.lmtp_tls_eckey_file : from.smtp_tls_eckey_file;
  t.chain_files = lmtp ? from.lmtp_tls_chain_files : from.smtp_tls_chain_files;
  t.protocols = lmtp ? from.lmtp_tls_protocols : from.smtp_tls_protocols;
  t.mandatory_protocols = lmtp ? from.lmtp_tls_mandatory_protocols : from.smtp_tls_mandatory_protocols;
  t.ciphers = lmtp ? from.lmtp_tls_ciphers : from.smtp_tls_ciphers;
  t.mandatory_ciphers = lmtp ? from.lmtp_tls_mandatory_ciphers : from.smtp_tls_mandatory_ciphers;
  t.exclude_ciphers = lmtp ? from.lmtp_tls_exclude_ciphers : from.smtp_tls_exclude_ciphers;
  t.mandatory_exclude_ciphers =
      lmtp ? from.lmtp_tls_mandatory_exclude_ciphers : from.smtp_tls_mandatory_exclude_ciphers;
  t.default_ca = from.tls_append_default_CA;
  t.high_ciphers = from.tls_high_cipherlist;
  t.medium_ciphers = from.tls_medium_cipherlist;
  t.null_ciphers = from.tls_null_cipherlist;
  t.groups = from.tls_eecdh_auto_curves;
  t.groups.insert(t.groups.end(), from.tls_ffdhe_auto_groups.begin(), from.tls_ffdhe_auto_groups.end());
  t.ssl_options = from.tls_ssl_options;
  t.disabled_workarounds = from.tls_disable_workarounds;
  t.wildcard_matches_several_labels = from.tls_wildcard_matches_multiple_labels;
  t.digest = lmtp ? from.lmtp_tls_fingerprint_digest : from.smtp_tls_fingerprint_digest;
  t.verify_depth = static_cast<int>(lmtp ? from.lmtp_tls_scert_verifydepth : from.smtp_tls_scert_verifydepth);
  t.log_level = static_cast<int>(lmtp ? from.lmtp_tls_loglevel : from.smtp_tls_loglevel);
  t.note_offer = lmtp ? from.lmtp_tls_note_starttls_offer : from.smtp_tls_note_starttls_offer;
  t.keep_sessions = !(lmtp ? from.lmtp_tls_session_cache_database : from.smtp_tls_session_cache_database).empty();
  t.session_lifetime = lmtp ? from.lmtp_tls_session_cache_timeout : from.smtp_tls_session_cache_timeout;
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
  Settings s;
  s.lmtp = lmtp;
  s.told = mail::parse_error_classes(from.notify_classes).value_or(mail::ErrorClasses());
  s.double_bounce = from.double_bounce_sender + "@" + from.myhostname;
  s.always_send_ehlo = from.smtp_always_send_ehlo;
  s.never_send_ehlo = from.smtp_never_send_ehlo;
  s.window = static_cast<std::uint32_t>(from.pipeline_window_messages);
  s.window_bytes = static_cast<std::uint64_t>(from.pipeline_window_bytes);
  s.assume_final = lmtp && from.lmtp_assume_final;
  s.probe_data =
      (lmtp ? from.lmtp_address_verify_target : from.smtp_address_verify_target) == config::VerifyTarget::data;
  s.helo_name = lmtp ? from.lmtp_lhlo_name : from.smtp_helo_name;
  s.utf8_header_as_is = lmtp ? from.lmtp_utf8_header_without_smtputf8 : from.smtp_utf8_header_without_smtputf8;
  s.convert_eight_bit = !from.disable_mime_output_conversion;
  s.discard_keywords = lmtp ? from.lmtp_discard_lhlo_keywords : from.smtp_discard_ehlo_keywords;
  s.line_length_limit = static_cast<std::size_t>(lmtp ? from.lmtp_line_length_limit : from.smtp_line_length_limit);
  s.skip_5xx_greeting = lmtp ? from.lmtp_skip_5xx_greeting : from.smtp_skip_5xx_greeting;
  s.send_dummy_auth = lmtp ? from.lmtp_send_dummy_mail_auth : from.smtp_send_dummy_mail_auth;
  s.reuse_limit = static_cast<std::uint32_t>(lmtp ? from.lmtp_connection_reuse_count_limit
                                                  : from.smtp_connection_reuse_count_limit);
  s.shares = lmtp ? from.lmtp_connection_cache_on_demand : from.smtp_connection_cache_on_demand;
  s.bind_enforce = lmtp ? from.lmtp_bind_address_enforce : from.smtp_bind_address_enforce;
  s.bind_address = lmtp ? from.lmtp_bind_address : from.smtp_bind_address;
  s.bind_address6 = lmtp ? from.lmtp_bind_address6 : from.smtp_bind_address6;
  s.connect_timeout = lmtp ? from.lmtp_connect_timeout : from.smtp_connect_timeout;
  s.helo_timeout = lmtp ? from.lmtp_lhlo_timeout : from.smtp_helo_timeout;
  s.mail_timeout = lmtp ? from.lmtp_mail_timeout : from.smtp_mail_timeout;
  s.rcpt_timeout = lmtp ? from.lmtp_rcpt_timeout : from.smtp_rcpt_timeout;
  s.data_init_timeout = lmtp ? from.lmtp_data_init_timeout : from.smtp_data_init_timeout;
  s.data_xfer_timeout = lmtp ? from.lmtp_data_xfer_timeout : from.smtp_data_xfer_timeout;
  s.data_done_timeout = lmtp ? from.lmtp_data_done_timeout : from.smtp_data_done_timeout;
  s.send_xforward = lmtp ? from.lmtp_send_xforward_command : from.smtp_send_xforward_command;
  s.xforward_timeout = lmtp ? from.lmtp_xforward_timeout : from.smtp_xforward_timeout;
  s.rset_timeout = lmtp ? from.lmtp_rset_timeout : from.smtp_rset_timeout;
  s.quit_timeout = lmtp ? from.lmtp_quit_timeout : from.smtp_quit_timeout;
  s.request_deadline = lmtp ? from.lmtp_per_request_deadline : from.smtp_per_request_deadline;
  s.min_data_rate = static_cast<std::uint64_t>(lmtp ? from.lmtp_min_data_rate : from.smtp_min_data_rate);
  s.starttls_timeout = lmtp ? from.lmtp_starttls_timeout : from.smtp_starttls_timeout;
  s.wrapped = lmtp ? from.lmtp_tls_wrappermode : from.smtp_tls_wrappermode;
  s.tls = tls_settings_from(from, lmtp);
  return s;
}

}  // namespace pen::smtp
