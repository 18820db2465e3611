// Tests that the client reads every setting of main.cf by its name, for SMTP and for LMTP.
#include "lib/meaning/smtp/from_config.h"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <functional>

#include "lib/base/text.h"

using namespace pen;
using namespace pen::smtp;

namespace {

config::Settings settings(const std::string& main_cf) {
  config::Surroundings here;
  here.hostname = "mx.example.org";
  return config::Config::parse({.directory = "/", .main_cf = main_cf, .master_cf = {}, .overrides = {}}, here)
      .settings();
}

struct Row {
  const char *smtp, *lmtp;  // empty: there is none
  const char *value, *seen;
  std::function<std::string(const Settings&)> look;
};

std::string number(milliseconds time) { return std::to_string(time.count() / 1000); }

const Row kRows[] = {
    {"smtp_connect_timeout", "lmtp_connect_timeout", "7s", "7", [](auto& s) { return number(s.connect_timeout); }},
    {"smtp_helo_timeout", "lmtp_lhlo_timeout", "7s", "7", [](auto& s) { return number(s.helo_timeout); }},
    {"smtp_mail_timeout", "lmtp_mail_timeout", "7s", "7", [](auto& s) { return number(s.mail_timeout); }},
    {"smtp_rcpt_timeout", "lmtp_rcpt_timeout", "7s", "7", [](auto& s) { return number(s.rcpt_timeout); }},
    {"smtp_data_init_timeout", "lmtp_data_init_timeout", "7s", "7",
     [](auto& s) { return number(s.data_init_timeout); }},
    {"smtp_data_xfer_timeout", "lmtp_data_xfer_timeout", "7s", "7",
     [](auto& s) { return number(s.data_xfer_timeout); }},
    {"smtp_data_done_timeout", "lmtp_data_done_timeout", "7s", "7",
     [](auto& s) { return number(s.data_done_timeout); }},
    {"smtp_rset_timeout", "lmtp_rset_timeout", "7s", "7", [](auto& s) { return number(s.rset_timeout); }},
    {"smtp_quit_timeout", "lmtp_quit_timeout", "7s", "7", [](auto& s) { return number(s.quit_timeout); }},
    {"smtp_per_request_deadline", "lmtp_per_request_deadline", "yes", "1",
     [](auto& s) { return std::to_string(s.request_deadline); }},
    {"smtp_min_data_rate", "lmtp_min_data_rate", "700", "700", [](auto& s) { return std::to_string(s.min_data_rate); }},
    {"smtp_xforward_timeout", "lmtp_xforward_timeout", "7s", "7", [](auto& s) { return number(s.xforward_timeout); }},
    {"smtp_starttls_timeout", "lmtp_starttls_timeout", "7s", "7", [](auto& s) { return number(s.starttls_timeout); }},
    {"smtp_tls_session_cache_timeout", "lmtp_tls_session_cache_timeout", "7s", "7",
     [](auto& s) { return number(s.tls.session_lifetime); }},
    {"smtp_tls_session_cache_database", "lmtp_tls_session_cache_database", "", "0",
     [](auto& s) { return std::to_string(s.tls.keep_sessions); }},
    {"smtp_helo_name", "lmtp_lhlo_name", "its.name", "its.name", [](auto& s) { return s.helo_name; }},
    {"smtp_bind_address", "lmtp_bind_address", "192.0.2.1", "192.0.2.1", [](auto& s) { return s.bind_address; }},
    {"smtp_bind_address6", "lmtp_bind_address6", "2001:db8::1", "2001:db8::1", [](auto& s) { return s.bind_address6; }},
    {"smtp_bind_address_enforce", "lmtp_bind_address_enforce", "yes", "1",
     [](auto& s) { return std::to_string(s.bind_enforce); }},
    {"smtp_skip_5xx_greeting", "lmtp_skip_5xx_greeting", "no", "0",
     [](auto& s) { return std::to_string(s.skip_5xx_greeting); }},
    {"smtp_send_dummy_mail_auth", "lmtp_send_dummy_mail_auth", "yes", "1",
     [](auto& s) { return std::to_string(s.send_dummy_auth); }},
    {"smtp_connection_reuse_count_limit", "lmtp_connection_reuse_count_limit", "7", "7",
     [](auto& s) { return std::to_string(s.reuse_limit); }},
    {"smtp_connection_cache_on_demand", "lmtp_connection_cache_on_demand", "no", "0",
     [](auto& s) { return std::to_string(s.shares); }},
    {"smtp_tls_dcert_file", "lmtp_tls_dcert_file", "/c", "/c", [](auto& s) { return s.tls.dcert_file; }},
    {"smtp_tls_dkey_file", "lmtp_tls_dkey_file", "/k", "/k", [](auto& s) { return s.tls.dkey_file; }},
    {"smtp_line_length_limit", "lmtp_line_length_limit", "77", "77",
     [](auto& s) { return std::to_string(s.line_length_limit); }},
    {"smtp_discard_ehlo_keywords", "lmtp_discard_lhlo_keywords", "size", "size",
     [](auto& s) { return join(s.discard_keywords); }},
    {"smtp_send_xforward_command", "lmtp_send_xforward_command", "yes", "1",
     [](auto& s) { return std::to_string(s.send_xforward); }},
    {"smtp_utf8_header_without_smtputf8", "lmtp_utf8_header_without_smtputf8", "yes", "1",
     [](auto& s) { return std::to_string(s.utf8_header_as_is); }},
    {"smtp_tls_wrappermode", "lmtp_tls_wrappermode", "yes", "1", [](auto& s) { return std::to_string(s.wrapped); }},
    {"smtp_tls_note_starttls_offer", "lmtp_tls_note_starttls_offer", "yes", "1",
     [](auto& s) { return std::to_string(s.tls.note_offer); }},
    {"smtp_tls_loglevel", "lmtp_tls_loglevel", "1", "1", [](auto& s) { return std::to_string(s.tls.log_level); }},
    {"smtp_tls_scert_verifydepth", "lmtp_tls_scert_verifydepth", "3", "3",
     [](auto& s) { return std::to_string(s.tls.verify_depth); }},
    {"smtp_tls_fingerprint_digest", "lmtp_tls_fingerprint_digest", "sha512", "sha512",
     [](auto& s) { return s.tls.digest; }},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(smtp_from_config)

BOOST_AUTO_TEST_CASE(each_setting_holds_for_its_protocol_alone) {
  for (const Row& row : kRows) {
    for (const bool lmtp : {false, true}) {
      const char* name = lmtp ? row.lmtp : row.smtp;
      const std::string usual = row.look(settings_from(settings(""), lmtp));
      const auto set = settings(fmt::format("{} = {}\n", name, row.value));
      BOOST_TEST(row.look(settings_from(set, lmtp)) == row.seen, name);
      BOOST_TEST(usual != row.seen, name);
      BOOST_TEST(row.look(settings_from(set, !lmtp)) == row.look(settings_from(settings(""), !lmtp)), name);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_both_share) {
  for (const bool lmtp : {false, true}) {
    BOOST_TEST(settings_from(settings("tls_legacy_public_key_fingerprints = yes\n"), lmtp).tls.legacy_key_digest);
    BOOST_TEST(settings_from(settings("pipeline_window_bytes = 1000000\n"), lmtp).window_bytes == 1000000u);
    BOOST_TEST(settings_from(settings("pipeline_window_messages = 5\n"), lmtp).window == 5u);
    BOOST_TEST(
        join(settings_from(settings("tls_disable_workarounds = TLSEXT_PADDING\n"), lmtp).tls.disabled_workarounds) ==
        "TLSEXT_PADDING");
  }
}

BOOST_AUTO_TEST_CASE(connections_come_from_the_one_address_of_inet_interfaces) {
  const auto bound = [](std::vector<std::string> own, std::string v4 = {}) {
    Settings s;
    s.bind_address = std::move(v4);
    bind_to_single_address(s, own);
    return s.bind_address + " " + s.bind_address6;
  };
  BOOST_TEST(bound({}) == " ");
  BOOST_TEST(bound({"192.0.2.1"}) == "192.0.2.1 ");
  BOOST_TEST(bound({"192.0.2.1", "2001:db8::1"}) == "192.0.2.1 2001:db8::1");
  BOOST_TEST(bound({"192.0.2.1", "192.0.2.2", "2001:db8::1"}) == " 2001:db8::1");
  BOOST_TEST(bound({"127.0.0.1", "::1"}) == " ");
  BOOST_TEST(bound({"127.0.0.1", "192.0.2.1"}) == " ");  // counted as in Postfix
  BOOST_TEST(bound({"192.0.2.1"}, "192.0.2.9") == "192.0.2.9 ");
}

BOOST_AUTO_TEST_SUITE_END()
