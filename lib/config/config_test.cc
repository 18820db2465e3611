#include "lib/config/config.h"
#include "lib/config/compatibility.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <set>

#include "lib/config/findings.h"
#include "lib/config/nearest.h"
#include "lib/config/networks.h"
#include "lib/config/pages.h"
#include "lib/config/restrictions.h"
#include "lib/testing/scratch.h"

namespace pen::config {
namespace {

constexpr std::string_view kMaster =
    "smtp inet n - n - - smtpd\n"
    "smtp unix - - n - - smtp\n"
    "relay unix - - n - - smtp\n"
    "local unix - n n - - local\n"
    "rewrite unix - - n - - trivial-rewrite\n"
    "qmgr unix n - n - 1 qmgr\n"
    "bounce unix - - n - 0 bounce\n";

Surroundings machine() {
  Surroundings here;
  here.hostname = "mail.example.com";
  here.interfaces = {{"127.0.0.1", 8, false}, {"192.0.2.9", 24, false}, {"::1", 128, true}, {"fd00::9", 64, true}};
  here.install_prefix = "/opt/pen";
  here.read_file = [](const std::string& path) -> Result<std::string> {
    if (path == "/etc/mailname") return "origin.example\nmore\n";
    return fail_errno("open " + path, ENOENT);
  };
  return here;
}

Config config(std::string main_cf, std::vector<Override> overrides = {}, std::string_view master = kMaster) {
  return Config::parse({"/etc/pen", std::move(main_cf), std::string(master), std::move(overrides)}, machine());
}
std::string messages(const Problems& problems, Severity severity) {
  std::string out;
  for (const auto& p : problems)
    if (p.severity == severity) out += p.message() + "\n";
  return out;
}
std::string errors(const Config& c) { return messages(c.problems(), Severity::error); }
std::string warnings(const Config& c) { return messages(c.report(), Severity::warning); }
std::string notes(const Config& c) { return messages(c.report(), Severity::note); }
std::string joined(const std::vector<std::string>& items) {
  std::string out;
  for (const auto& item : items) out += "<" + item + ">";
  return out;
}
bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(config_test)

BOOST_AUTO_TEST_CASE(an_empty_main_cf_gives_the_defaults_without_a_problem) {
  const Config c = config("");
  BOOST_TEST(errors(c) == "");
  const Settings& s = c.settings();
  BOOST_TEST(s.myhostname == "mail.example.com");
  BOOST_TEST(s.mydomain == "example.com");
  BOOST_TEST(s.myorigin == "mail.example.com");
  BOOST_TEST(joined(s.mydestination) == "<mail.example.com><localhost.example.com><localhost>");
  BOOST_TEST(joined(s.mynetworks) == "<127.0.0.1/32><192.0.2.9/32><[::1]/128><[fd00::9]/128>");
  BOOST_TEST(joined(s.smtpd_relay_restrictions) ==
             "<permit_mynetworks><permit_sasl_authenticated><defer_unauth_destination>");
  BOOST_TEST(s.smtpd_banner == "mail.example.com ESMTP Penstock");
  BOOST_TEST(s.syslog_name == "penstock");
  BOOST_TEST(s.daemon_directory == "/opt/pen/libexec/penstock");
  BOOST_TEST(s.config_directory == "/etc/pen");
  BOOST_TEST(s.queue_log_directory == "/var/spool/penstock/log");
  BOOST_TEST((s.smtpd_timeout == std::chrono::seconds(300)));
  BOOST_TEST((s.maximal_queue_lifetime == std::chrono::days(5)));
  BOOST_TEST(s.smtpd_hard_error_limit == 20);
  BOOST_TEST(s.message_size_limit == 10240000);
  BOOST_TEST((s.smtpd_forbid_bare_newline == BareNewline::normalize));
  BOOST_TEST(!s.append_dot_mydomain);
  BOOST_TEST(s.relay_domains.empty());
  BOOST_TEST(find_row("2bounce_notice_recipient") != nullptr);
}
BOOST_AUTO_TEST_CASE(the_programs_beside_the_running_one_count_where_daemon_directory_names_none_of_ours) {
  const auto with = [](std::string main_cf, const std::string& beside, const std::string& holds) {
    Surroundings here = machine();
    here.programs = beside;
    here.holds_programs = [=](const std::string& directory) { return directory == holds; };
    return Config::parse({"/etc/pen", std::move(main_cf), std::string(kMaster), {}}, here);
  };
  const std::string foreign = "install = /usr/lib\ndaemon_directory = $install/postfix/sbin\n";
  const std::string said =
      "/etc/pen/main.cf:2: daemon_directory: /usr/lib/postfix/sbin holds no program of Penstock: passed over, the "
      "programs in ";
  struct Row {
    std::string main_cf, beside, holds, directory, warning;
  };
  const std::vector<Row> rows = {
      {"", "", "", "/opt/pen/libexec/penstock", ""},
      {"", "/build/libexec/penstock", "", "/build/libexec/penstock", ""},
      {"daemon_directory =\n", "/build/libexec/penstock", "/build/libexec/penstock", "/build/libexec/penstock", ""},
      {"daemon_directory = /new\n", "/build/libexec/penstock", "/new", "/new", ""},
      {foreign, "/build/libexec/penstock", "", "/build/libexec/penstock", said + "/build/libexec/penstock"},
      {foreign, "", "", "/opt/pen/libexec/penstock", said + "/opt/pen/libexec/penstock"},
  };
  for (const Row& row : rows) {
    const Config c = with(row.main_cf, row.beside, row.holds);
    BOOST_TEST(c.settings().daemon_directory == row.directory);
    BOOST_TEST(joined(c.settings().shaping_rules_files) == "<" + row.directory + "/shaping.rules>");
    const std::string warning = row.warning.empty() ? "" : row.warning + " are run; take the line out of main.cf\n";
    BOOST_TEST(messages(c.problems(), Severity::warning) == warning);
  }
}
BOOST_AUTO_TEST_CASE(every_default_is_a_value_of_its_setting_at_every_compatibility_level) {
  for (const char* level : {"0", "1", "2", "3.6", "3.11"})
    BOOST_TEST(errors(config(std::string("compatibility_level = ") + level)) == "");
}
BOOST_AUTO_TEST_CASE(what_another_setting_makes_of_a_default_is_said_of_that_setting_and_once) {
  BOOST_TEST(errors(config("compatibility_level = nine")) ==
             "/etc/pen/main.cf:1: compatibility_level: \"nine\" is no such level as 2 or 3.6\n");
  BOOST_TEST(errors(config("default_process_limit = 0")) ==
             "/etc/pen/main.cf:1: default_process_limit: the value must be at least 1\n");
  BOOST_TEST(errors(config("known_tcp_ports = smtp")) ==
             "/etc/pen/main.cf:1: known_tcp_ports: \"smtp\" is not name=port\n");
  const std::string derived = errors(config("alias_maps =\nreject_tempfail_action = perhaps"));
  BOOST_TEST(derived.find("main.cf:2: ") != std::string::npos, derived);
}

BOOST_AUTO_TEST_CASE(low_compatibility_levels_give_postfix_old_defaults_but_never_an_open_relay) {
  const Config c = config("compatibility_level = 0");
  BOOST_TEST(c.settings().append_dot_mydomain);
  BOOST_TEST(c.settings().relay_domains.size() == 3U);
  BOOST_TEST(joined(c.settings().mynetworks) == "<127.0.0.0/8><192.0.2.0/24><[::1]/128><[fd00::]/64>");
  BOOST_TEST(c.settings().smtpd_relay_restrictions.size() == 3U);
}
BOOST_AUTO_TEST_CASE(the_level_decides_whether_mail_goes_out_encrypted_if_it_can) {
  const auto level = [](const std::string& text) { return config(text).settings().smtp.tls_security_level; };
  BOOST_TEST(level("") == "");
  for (const char* old : {"0", "2", "3.6", "3.10"})
    BOOST_TEST(level(std::string("compatibility_level = ") + old) == "");
  for (const char* fresh : {"3.11", "3.12", "4"})
    BOOST_TEST(level(std::string("compatibility_level = ") + fresh) == "may");
  BOOST_TEST(level("compatibility_level = 3.11\nsmtp_tls_security_level =") == "");
  BOOST_TEST(config("compatibility_level = 3.11").settings().lmtp.tls_security_level == "");
}
BOOST_AUTO_TEST_CASE(a_log_level_of_tls_may_ask_for_traces_which_are_not_written) {
  for (const char* name : {"smtpd_tls_loglevel", "smtp_tls_loglevel", "lmtp_tls_loglevel"}) {
    const Config c = config(std::string(name) + " = 1, trace");
    BOOST_TEST(errors(c) == "");
    BOOST_TEST(has(warnings(c), "sessions are not traced here"));
    BOOST_TEST(has(errors(config(std::string(name) + " = 1,follow")), "is not a number"));
  }
  BOOST_TEST(config("smtpd_tls_loglevel = 2,trace").settings().smtpd_tls_loglevel == 2);
}
BOOST_AUTO_TEST_CASE(a_host_name_without_domain_is_completed) {
  Surroundings here = machine();
  here.hostname = "mail";
  BOOST_TEST(Config::parse({"/x", "mydomain = example.net", "", {}}, here).settings().myhostname == "mail.example.net");
  const Config c = Config::parse({"/x", "", "", {}}, here);
  BOOST_TEST(c.settings().myhostname == "mail.localdomain");
  BOOST_TEST(c.settings().mydomain == "localdomain");
  BOOST_TEST(config("myhostname = a.b.c").settings().mydomain == "b.c");
  BOOST_TEST(config("myhostname =").settings().myhostname == "mail.example.com");
}
BOOST_AUTO_TEST_CASE(myhostname_may_be_made_of_mydomain_and_the_other_way_round) {
  BOOST_TEST(config("mydomain = d.example\nmyhostname = mx.$mydomain").settings().myhostname == "mx.d.example");
}
BOOST_AUTO_TEST_CASE(myorigin_may_be_a_file_and_is_still_shown_as_written) {
  const Config c = config("myorigin = /etc/mailname\nmasquerade_domains = $myorigin");
  BOOST_TEST(c.settings().myorigin == "origin.example");
  BOOST_TEST(c.text("masquerade_domains").value() == "origin.example");
  BOOST_TEST(c.written("myorigin").value() == "/etc/mailname");
  BOOST_TEST(has(errors(config("\nmyorigin = /none")), "/etc/pen/main.cf:2: myorigin: "));
}
BOOST_AUTO_TEST_CASE(mynetworks_follows_the_style_the_interfaces_and_the_protocols) {
  const auto made = [](const char* text) { return joined(config(text).settings().mynetworks); };
  BOOST_TEST(made("mynetworks_style = subnet\ninet_protocols = ipv4") == "<127.0.0.0/8><192.0.2.0/24>");
  BOOST_TEST(made("mynetworks_style = class\ninet_protocols = ipv4") == "<127.0.0.0/8><192.0.2.0/24>");
  BOOST_TEST(made("inet_interfaces = loopback-only") == "<127.0.0.1/32><[::1]/128>");
  BOOST_TEST(made("inet_interfaces = 192.0.2.9, [fd00::9]") == "<192.0.2.9/32><[fd00::9]/128>");
  BOOST_TEST(made("mynetworks =") == "");
  BOOST_TEST(own_networks({{"172.16.5.4", 20, false}}, NetworksStyle::subnet, {"all"}, {"all"}) == "172.16.0.0/20");
  BOOST_TEST(own_networks({{"172.16.5.4", 20, false}}, NetworksStyle::address_class, {"all"}, {"all"}) ==
             "172.16.0.0/16");
}
BOOST_AUTO_TEST_CASE(names_of_the_administrators_own_expand) {
  const Config c = config("mua = permit_mynetworks, reject\nsmtpd_client_restrictions = $mua");
  BOOST_TEST(joined(c.settings().smtpd_client_restrictions) == "<permit_mynetworks><reject>");
  BOOST_TEST(c.text("mua").value() == "permit_mynetworks, reject");
  BOOST_TEST(!c.text("nobody").has_value());
}
BOOST_AUTO_TEST_CASE(the_last_of_two_values_counts_and_the_first_is_named_in_a_warning) {
  const Config c = config("soft_bounce = no\n\nsoft_bounce = yes");
  BOOST_TEST(c.settings().soft_bounce);
  BOOST_TEST(has(warnings(c), "main.cf:3: soft_bounce: it is set in line 1 already"));
  BOOST_TEST(c.where("soft_bounce")->line == 3);
}
BOOST_AUTO_TEST_CASE(overrides_win_over_main_cf_and_may_use_its_names) {
  const Config c = config("x = 7s\nsmtpd_timeout = 9s", {{"smtpd_timeout", "$x"}});
  BOOST_TEST((c.settings().smtpd_timeout == std::chrono::seconds(7)));
  BOOST_TEST(c.where("smtpd_timeout")->file == "");
  BOOST_TEST(c.where("x")->line == 1);
  BOOST_TEST(!c.where("soft_bounce").has_value());
}
BOOST_AUTO_TEST_CASE(a_service_has_its_own_view) {
  const Config c =
      config("mine = 3", {}, "587 inet n - n - - smtpd -o smtpd_recipient_limit=$mine -o { syslog_name = a/b }\n");
  const Config own = c.with(c.master()[0]);
  BOOST_TEST(own.settings().smtpd_recipient_limit == 3);
  BOOST_TEST(own.settings().syslog_name == "a/b");
  BOOST_TEST(c.settings().smtpd_recipient_limit == 1000);
}
BOOST_AUTO_TEST_CASE(values_that_do_not_fit_are_errors_with_file_line_and_what_is_expected) {
  const auto error = [](const char* text) { return errors(config(text)); };
  BOOST_TEST(error("# x\nsmtpd_timeout = soon") ==
             "/etc/pen/main.cf:2: smtpd_timeout: \"soon\" is not a time: a number with s, m, h, d or w\n");
  BOOST_TEST(has(error("smtpd_timeout = 0"), "must not be 0"));
  BOOST_TEST(has(error("soft_bounce = maybe"), "neither yes nor no"));
  BOOST_TEST(has(error("smtpd_recipient_limit = 0"), "at least 1"));
  BOOST_TEST(has(error("smtpd_recipient_limit = 99999999999"), "not a number"));
  BOOST_TEST(has(error("message_size_limit = -1"), "bytes"));
  BOOST_TEST(has(error("smtp_address_preference = ipv5"), "none of: any ipv4 ipv6"));
  BOOST_TEST(has(error("relayhost = $relayhost"), "refers to itself"));
  BOOST_TEST(has(error("smtp_destination_rate_delay = often"), "not a time"));
  BOOST_TEST(has(error("dovecot_time_limit = long"), "not a time"));
  BOOST_TEST(has(error("smtp_destination_rate_limit = often"), "\"often\" is not a rate"));
  BOOST_TEST(error("# x\ndefault_destination_rate_limit = 20/s,300/m,400/m") ==
             "/etc/pen/main.cf:2: default_destination_rate_limit: \"20/s,300/m,400/m\" has two rates by the minute\n");
  BOOST_TEST(has(error("relay_destination_rate_limit = 1/s, 100/m"), "holds nothing back beside 1/s"));
  BOOST_TEST(error("default_destination_rate_limit = 20/s,5000/h\nsmtp_destination_rate_limit =") == "");
  BOOST_TEST(has(error("smtp_destination_concurrency_limit = many"), "not a number"));
}
BOOST_AUTO_TEST_CASE(a_size_beyond_any_use_is_cut_with_a_warning) {
  const Config c = config("header_size_limit = 4096000");
  BOOST_TEST(errors(c) == "");
  BOOST_TEST(c.settings().header_size_limit == 1048576);
  BOOST_TEST(has(warnings(c), "main.cf:1: header_size_limit: taken as 1048576 bytes"));
  BOOST_TEST(has(warnings(config("", {}, "25 inet n - n - - smtpd -o header_size_limit=9000000\n")),
                 "master.cf:1: header_size_limit: taken as 1048576 bytes"));
}
BOOST_AUTO_TEST_CASE(an_amount_beyond_any_use_counts_as_the_largest_with_a_warning) {
  const Config c = config(
      "smtpd_recipient_limit = 1000001\nsmtpd_timeout = 2d\nmaximal_queue_lifetime = 500d\n"
      "smtp_destination_concurrency_limit = 200000\ndefault_process_limit = 2147483647\n");
  BOOST_TEST(errors(c) == "");
  BOOST_TEST(c.settings().smtpd_recipient_limit == 1000000);
  BOOST_TEST(bool(c.settings().smtpd_timeout == std::chrono::seconds(86400)));
  BOOST_TEST(bool(c.settings().maximal_queue_lifetime == std::chrono::seconds(31536000)));
  BOOST_TEST(has(warnings(c), "main.cf:1: smtpd_recipient_limit: taken as 1000000, the largest value here"));
  BOOST_TEST(has(warnings(c), "main.cf:2: smtpd_timeout: taken as 86400s, the largest value here"));
  // Where a larger number is a mistake it stays one.
  for (const char* wrong : {"reject_code = 5500", "smtpd_client_ipv4_prefix_length = 33", "dns_resolver_port = 70000",
                            "smtpd_tls_loglevel = 7", "active_share_limit = 101"})
    BOOST_TEST(has(errors(config(wrong)), "at most"), wrong);
}
BOOST_AUTO_TEST_CASE(a_setting_that_is_not_expanded_stays_so_in_others) {
  const Config c = config("smtpd_expansion_filter = a$%&\nmine = <$smtpd_expansion_filter>");
  BOOST_TEST(c.text("mine").value() == "<a$%&>");
  BOOST_TEST(c.expand("$mine").value() == "<a$%&>");
}
BOOST_AUTO_TEST_CASE(what_cleanup_reads_are_settings_that_act) {
  BOOST_TEST(std::ranges::is_sorted(cleanup_settings()));
  for (const std::string_view name : cleanup_settings()) {
    const Row* row = find_row(name);
    BOOST_REQUIRE(row != nullptr);
    BOOST_TEST((row->kind == Class::acts), name);
  }
}
BOOST_AUTO_TEST_CASE(pipe_with_a_flag_for_one_recipient_takes_one_at_a_time) {
  const std::string_view master =
      "one unix - n n - - pipe flags=DRhu user=a argv=x\n"
      "also unix - n n - - pipe flags=O user=a argv=x\nmany unix - n n - - pipe flags=Rhu user=a "
      "argv=x\n";
  const Config c = config("one_destination_recipient_limit = 20", {}, master);
  BOOST_TEST(c.transport("one").destination_recipient_limit == 1);
  BOOST_TEST(c.transport("also").destination_recipient_limit == 1);
  BOOST_TEST(c.transport("many").destination_recipient_limit == 50);
  BOOST_TEST(has(notes(c), "one_destination_recipient_limit: taken as 1: one/unix has flag D or O"));
}
BOOST_AUTO_TEST_CASE(an_option_of_a_service_that_is_not_run_is_reported) {
  const Config c = config("", {},
                          "cleanup unix n - n - 0 cleanup -o syslog_name=x -o header_checks=pcre:/a\n"
                          "flush unix n - n - 0 flush -o soft_bounce=yes\n"
                          "25 inet n - n - - smtpd -o cleanup_service_name=nowhere\n");
  BOOST_TEST(has(notes(c), "syslog_name: -o without effect: the program cleanup is not run"));
  BOOST_TEST(has(notes(c), "soft_bounce: -o without effect: the program flush is not run"));
  BOOST_TEST(!has(notes(c), "header_checks"));
  BOOST_TEST(has(warnings(c), "master.cf has no service nowhere with the command cleanup"));
}
BOOST_AUTO_TEST_CASE(chroot_is_taken_as_no_and_said_once) {
  const Config c = config("", {}, "25 inet n - y - - smtpd\nsmtp unix - - y - - smtp\n");
  BOOST_TEST(!c.master()[0].chroot);
  BOOST_TEST(has(warnings(c), "master.cf:1: chroot: y is taken as n in 2 services"));
}
BOOST_AUTO_TEST_CASE(the_log_file_must_lie_below_a_prefix) {
  BOOST_TEST(errors(config("maillog_file = /var/log/x")) == "");
  BOOST_TEST(errors(config("maillog_file = /dev/stdout")) == "");
  BOOST_TEST(has(errors(config("maillog_file = /etc/passwd")), "maillog_file_prefixes"));
  BOOST_TEST(has(errors(config("maillog_file = /variable")), "maillog_file_prefixes"));
}
BOOST_AUTO_TEST_CASE(a_raw_setting_keeps_its_dollars) {
  BOOST_TEST(config("luser_relay = $user@other.example").settings().luser_relay == "$user@other.example");
}

BOOST_AUTO_TEST_CASE(a_transport_has_its_numbers_or_the_defaults) {
  const Config c = config(
      "default_destination_concurrency_limit = 9\nsmtp_destination_concurrency_limit = 3\n"
      "relay_destination_rate_delay = 2m\nrelay_initial_destination_concurrency = "
      "$smtp_destination_concurrency_limit");
  BOOST_TEST(c.transport("smtp").destination_concurrency_limit == 3);
  BOOST_TEST(c.transport("relay").destination_concurrency_limit == 9);
  BOOST_TEST((c.transport("relay").destination_rate_delay == std::chrono::minutes(2)));
  BOOST_TEST(c.transport("relay").initial_destination_concurrency == 3);
  BOOST_TEST(c.transport("local").destination_concurrency_limit == 2);
  BOOST_TEST(c.transport("local").destination_recipient_limit == 1);
  BOOST_TEST(c.transport("unknown").destination_recipient_limit == 50);
  BOOST_TEST(c.lookup_transport("relay", "destination_recipient_limit").value() == "50");
  const Config paced = config("default_transport_rate_delay = 5s\nrelay_transport_rate_delay = 20s");
  BOOST_TEST(paced.lookup_transport("smtp", "transport_rate_delay").value() == "5s");
  BOOST_TEST(paced.lookup_transport("relay", "transport_rate_delay").value() == "20s");
  BOOST_TEST(c.text("relay_destination_recipient_limit").value() == "50");
  BOOST_TEST(!c.text("nosuch_destination_recipient_limit").has_value());
}

BOOST_AUTO_TEST_CASE(a_setting_that_does_not_act_is_reported_with_its_line_and_meaning) {
  const Config c =
      config("\nsmtpd_tls_cipherlist = x\nbiff = yes\nsmtpd_use_tls = yes\nsmtp_tls_block_early_mail_reply = yes");
  BOOST_TEST(has(warnings(c), "main.cf:2: smtpd_tls_cipherlist: an old name; set smtpd_tls_mandatory_ciphers: "));
  BOOST_TEST(has(notes(c), "main.cf:3: biff: accepted, without effect: "));
  BOOST_TEST(has(warnings(c), "main.cf:4: smtpd_use_tls: an old name; set smtpd_tls_security_level: "));
  BOOST_TEST(has(notes(c), "main.cf:5: smtp_tls_block_early_mail_reply: accepted, without effect: no connection of"));
}
BOOST_AUTO_TEST_CASE(a_setting_without_effect_that_asks_for_what_is_the_case_is_not_reported) {
  BOOST_TEST(!has(notes(config("biff = no\nsmtp_tls_connection_reuse = yes")), "effect"));
  BOOST_TEST(!has(notes(config("in_flow_delay = 0s\ntls_session_ticket_cipher = aes-256-cbc")), "effect"));
  BOOST_TEST(!has(notes(config("queue_service_name = qmgr\nsmtpd_tls_protocols = >=TLSv1.2\n"
                               "postscreen_tls_protocols = >=TLSv1.2")),
                  "effect"));
  BOOST_TEST(has(notes(config("queue_service_name = other")), "queue_service_name: accepted, without effect"));
  BOOST_TEST(has(notes(config("postscreen_tls_protocols = >=TLSv1.3")), "postscreen_tls_protocols: accepted, without"));
  BOOST_TEST(has(notes(config("in_flow_delay = 1s")), "in_flow_delay: accepted, without effect: "));
  BOOST_TEST(has(notes(config("tls_session_ticket_cipher =")), "tls_session_ticket_cipher: accepted, without effect"));
}
BOOST_AUTO_TEST_CASE(a_setting_that_would_do_nothing_in_postfix_either_is_not_reported) {
  const std::string realm = "smtpd_sasl_local_domain = x.example\n", level = "debug_peer_level = 3\n";
  const std::string logs_in = "smtpd_sasl_auth_enable = yes\n", dovecot = "smtpd_sasl_type = dovecot\n";
  const auto said = [](const std::string& main_cf, const std::string& service = "") {
    return notes(config(main_cf, {}, std::string(kMaster) + service));
  };
  BOOST_TEST(!has(said(realm), "effect"));
  BOOST_TEST(!has(said(realm + logs_in + dovecot), "effect"));
  const std::string cyrus = "cyrus unix - - n - - cyrus\n";
  BOOST_TEST(has(said(realm + logs_in), "main.cf:1: smtpd_sasl_local_domain: without effect: AUTH is not offered"));
  BOOST_TEST(!has(said(realm + logs_in, cyrus), "effect"));
  const std::string submission = "587 inet n - n - - smtpd -o smtpd_sasl_auth_enable=yes";
  BOOST_TEST(!has(said(realm + dovecot, submission + "\n"), "effect"));
  BOOST_TEST(has(said(realm, submission + "\n"), "without effect: AUTH is not offered"));
  BOOST_TEST(!has(said(realm, submission + "\n" + cyrus), "effect"));
  BOOST_TEST(!has(said(realm, submission + " -o smtpd_sasl_type=dovecot\n"), "effect"));
  BOOST_TEST(!has(said("smtp_sasl_type = cyrus\ncyrus_sasl_config_path = /x"), "effect"));
  BOOST_TEST(
      has(said("smtp_sasl_type = cyrus\nsmtp_sasl_auth_enable = yes"), "without effect: the client's mechanisms"));
  BOOST_TEST(!has(said(level), "effect"));
  BOOST_TEST(has(said(level + "debug_peer_list = 192.0.2.1\n"), "without effect: what debug_peer_list logs is what"));
  BOOST_TEST(has(said(level, "26 inet n - n - - smtpd -o debug_peer_list=192.0.2.1\n"), "debug_peer_level: accepted"));
}
BOOST_AUTO_TEST_CASE(logins_that_nothing_checks_are_told_where_they_are_asked_for_and_their_settings_have_no_effect) {
  const std::string why = "smtpd_sasl_auth_enable = yes: AUTH is not offered and nobody can log in";
  const Config c = config("smtpd_sasl_auth_enable = yes\nsmtpd_sasl_path = smtpd\nbroken_sasl_auth_clients = yes\n");
  BOOST_TEST(has(warnings(c), "main.cf:1: smtpd_sasl_auth_enable: " + why));
  BOOST_TEST(has(warnings(c), "add the line \"cyrus unix - - n - - cyrus\""));
  BOOST_TEST(has(notes(c), "main.cf:2: smtpd_sasl_path: without effect"));
  const Findings found = findings(c);
  BOOST_TEST(found.cost_mail.size() == 1U);
  BOOST_TEST(found.without_effect.contains("broken_sasl_auth_clients"));
  BOOST_TEST(has(warnings(config("smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = other\n")),
                 "main.cf:2: smtpd_sasl_type: " + why + ", because smtpd_sasl_type \"other\" is not available"));
  const std::string cyrus = "587 inet n - n - - smtpd -o smtpd_sasl_auth_enable=yes\n";
  BOOST_TEST(
      has(warnings(config("", {}, std::string(kMaster) + cyrus)), "master.cf:8: smtpd_sasl_auth_enable: " + why));
  // Where one service offers AUTH the settings act.
  const std::string both =
      cyrus + "465 inet n - n - - smtpd -o smtpd_sasl_auth_enable=yes -o smtpd_sasl_type=dovecot\n";
  const Config some = config("smtpd_sasl_path = inet:127.0.0.1:1\n", {}, std::string(kMaster) + both);
  BOOST_TEST(has(warnings(some), why));
  BOOST_TEST(findings(some).without_effect.empty());
  for (const char* type : {"Dovecot", "cyrus"}) {
    const Config good = config(std::string("smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = ") + type + "\n", {},
                               std::string(kMaster) + "any unix - - n - - cyrus\n");
    BOOST_TEST(!has(warnings(good), "AUTH"));
    BOOST_TEST(findings(good).without_effect.empty());
  }
}
BOOST_AUTO_TEST_CASE(what_lets_mail_wait_or_be_refused_is_told_apart) {
  const auto costs = [](const std::string& main) {
    return messages(findings(config(main)).cost_mail, Severity::warning);
  };
  BOOST_TEST(costs("biff = yes\nsmtpd_use_tls = yes") == "");
  BOOST_TEST(has(costs("default_transport = nosuch"), "master.cf has no service nosuch"));
  BOOST_TEST(has(costs("smtpd_sender_restrictions = reject_everyhting"), "gets 451"));
}
BOOST_AUTO_TEST_CASE(a_second_queue_manager_is_told_and_the_one_called_qmgr_counts) {
  const std::string other = "watchdog_qmgr fifo n - n 300 1 qmgr\n";
  for (const std::string& master : {other + std::string(kMaster), std::string(kMaster) + other}) {
    const Config c = config("", {}, master);
    BOOST_TEST(has(warnings(c), "watchdog_qmgr/unix: a second queue manager is not run"));
    BOOST_TEST(queue_manager(c.master())->name == "qmgr");
  }
  BOOST_TEST(queue_manager(config("", {}, "a unix n - n 300 1 oqmgr\nb unix n - n 300 1 qmgr\n").master())->name ==
             "a");
}
BOOST_AUTO_TEST_CASE(what_follows_the_letter_of_a_time_is_passed_over_and_told_once) {
  const Config c = config("postscreen_dnsbl_ttl = 5m\nsmtpd_timeout = 1h30\nother_destination_rate_delay = 7wd", {},
                          std::string(kMaster) + "587 inet n - n - - smtpd -o smtpd_tls_security_level=may\n");
  BOOST_TEST((c.settings().postscreen_dnsbl_max_ttl == std::chrono::minutes(5)));
  BOOST_TEST((c.settings().smtpd_timeout == std::chrono::hours(1)));
  const std::string said = warnings(c), text = "\"5mh\" is taken as 5m, as in Postfix";
  BOOST_TEST(has(said, text));
  BOOST_TEST(said.find(text) == said.rfind(text));
  BOOST_TEST(has(said, "main.cf:2: smtpd_timeout: \"1h30\" is taken as 1h"));
  BOOST_TEST(has(said, "main.cf:3: other_destination_rate_delay: \"7wd\" is taken as 7w"));
  const std::string wrong = messages(
      config("postscreen_dnsbl_ttl = x", {}, std::string(kMaster) + "587 inet n - n - - smtpd -o smtpd_timeout=1s\n")
          .report(),
      Severity::error);
  BOOST_TEST(wrong.find("is not a time") != std::string::npos);
  BOOST_TEST(wrong.find("postscreen_dnsbl_max_ttl") == wrong.rfind("postscreen_dnsbl_max_ttl"));
}
BOOST_AUTO_TEST_CASE(old_names_of_restrictions_act_and_one_is_told) {
  const Config c = config("smtpd_sender_restrictions = reject_unknown_address, check_relay_domains");
  BOOST_TEST((find_restriction("reject_unknown_address")->check == Check::reject_unknown_sender_domain));
  BOOST_TEST(!has(warnings(c), "reject_unknown_address"));
  BOOST_TEST(has(notes(c), "check_relay_domains is an old name: taken as reject_unauth_destination"));
}
BOOST_AUTO_TEST_CASE(without_a_level_what_differs_for_this_file_is_told) {
  const std::string said = notes(config("append_dot_mydomain = no\nmynetworks = 127.0.0.0/8\nrelay_domains = x"));
  BOOST_TEST(!has(said, "append_dot_mydomain"));
  BOOST_TEST(!has(said, "relay_domains"));
  BOOST_TEST(!has(said, "mynetworks_style"));
  BOOST_TEST(has(said, "smtputf8_enable no (here yes)"));
  BOOST_TEST(has(said, "smtpd_tls_fingerprint_digest md5 (here sha256)"));
  BOOST_TEST(has(said, "smtpd_relay_restrictions empty (here permit_mynetworks"));
  BOOST_TEST(has(notes(config("myhostname = a.b")), "append_dot_mydomain yes (here no)"));
  BOOST_TEST(!has(notes(config("compatibility_level = 0")), "compatibility_level"));
}
BOOST_AUTO_TEST_CASE(an_unknown_name_is_reported_with_the_nearest_known_one) {
  BOOST_TEST(has(warnings(config("smtpd_recipent_restrictions = reject")),
                 "no setting has this name, and no other setting refers to it; is "
                 "smtpd_recipient_restrictions meant?"));
  BOOST_TEST(!has(warnings(config("zzzzzzzzzzz = reject")), "meant"));
}
BOOST_AUTO_TEST_CASE(names_that_are_used_are_not_unknown) {
  const Config c = config(
      "mine = reject\nsmtpd_client_restrictions = $mine\nsmtpd_restriction_classes = "
      "strict\nstrict = reject\n"
      "virtual_alias_maps = proxy:ldap:people\npeople_server_host = h\nfor_master = "
      "reject\nsmtp_destination_recipient_limit = 4",
      {}, std::string(kMaster) + "587 inet n - n - - smtpd -o smtpd_client_restrictions=$for_master\n");
  BOOST_TEST(warnings(c) == "");
  BOOST_TEST(has(notes(c), "people_server_host: taken as a setting of the table"));
}
BOOST_AUTO_TEST_CASE(a_reference_to_a_name_that_nobody_sets_is_reported_unless_it_is_tested) {
  BOOST_TEST(has(warnings(config("smtpd_client_restrictions = $mua_client_restrictions")),
                 "refers to $mua_client_restrictions, which is not set and stands for nothing\n"));
  BOOST_TEST(!has(warnings(config("smtpd_client_restrictions = ${mua?{$mua}:{reject}}")), "refers to $mua_client"));
}
BOOST_AUTO_TEST_CASE(a_number_for_a_transport_that_does_not_exist_is_reported) {
  BOOST_TEST(has(warnings(config("dovecot_destination_recipient_limit = 1")), "master.cf has no service dovecot"));
}
BOOST_AUTO_TEST_CASE(a_transport_that_master_cf_lacks_is_reported) {
  BOOST_TEST(has(warnings(config("relay_domains = x\nrelay_transport = other:host")),
                 "main.cf:2: relay_transport: master.cf has no service other"));
}
BOOST_AUTO_TEST_CASE(a_service_that_cannot_take_mail_from_penapi_is_reported) {
  const auto told = [](const std::string& service) {
    return warnings(config("penapi_submission_service = handin\nsmtpd_sasl_token_file = /tokens\n", {},
                           std::string(kMaster) + service));
  };
  const std::string login = " -o smtpd_sasl_auth_enable=yes -o smtpd_sasl_type=token";
  const std::string whole = login + " -o smtpd_upstream_proxy_protocol=haproxy\n";
  BOOST_TEST(has(told(""), "main.cf:1: penapi_submission_service: master.cf has no private service handin"));
  BOOST_TEST(has(told("handin unix n - n - - smtpd" + whole), "has no private service handin"));
  BOOST_TEST(has(told("handin unix - - n - - smtpd\n"), "smtpd_sasl_type = token"));
  BOOST_TEST(has(told("handin unix - - n - - smtpd" + login + "\n"), "haproxy"));
  BOOST_TEST(told("handin unix - - n - - smtpd" + whole) == "");
  const std::string first = "handin unix - - n - - smtpd" + whole + "penapi unix n - n - - penapi\n";
  BOOST_TEST(told(first) == "");
  BOOST_TEST(has(told(first + "8025 inet n - n - - penapi\n"), "8025/inet: another service of penapi has the same"));
  BOOST_TEST(told(first + "8025 inet n - n - - penapi -o penapi_submission_map=\n") == "");
  BOOST_TEST(has(warnings(config("smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = token\n")),
                 "smtpd_sasl_token_file is empty"));
}
BOOST_AUTO_TEST_CASE(address_verification_without_its_service_is_reported) {
  const char* main = "smtpd_sender_restrictions = reject_unverified_sender\n";
  BOOST_TEST(has(warnings(config(main)),
                 "main.cf:1: smtpd_sender_restrictions: reject_unverified_sender needs the "
                 "service verify, which is not in master.cf"));
  const std::string line = "probes unix - - n - 1 verify\n";
  BOOST_TEST(has(warnings(config(main, {}, std::string(kMaster) + line)), "needs the service verify"));
  BOOST_TEST(warnings(config(std::string(main) + "address_verify_service_name = probes\n", {},
                             std::string(kMaster) + line)) == "");
}
BOOST_AUTO_TEST_CASE(restrictions_that_would_let_anybody_relay_are_an_error_of_the_check) {
  const char* open = "smtpd_relay_restrictions =\nsmtpd_recipient_restrictions = permit_mynetworks";
  BOOST_TEST(has(messages(config(open).report(), Severity::error), "anybody could relay"));
  BOOST_TEST(messages(config(std::string(open) + ", reject_unauth_destination").report(), Severity::error) == "");
}
BOOST_AUTO_TEST_CASE(services_of_postfix_are_accepted_with_a_sentence_on_where_their_work_is_done) {
  const Config c = config("", {},
                          std::string(kMaster) +
                              "cleanup unix n - y - 0 cleanup\nscache unix - - y - 1 scache\nmine inet n - n - "
                              "- qmqpd\n"
                              "odd unix - - n - - frobnicate -o nosuch_thing=1 -o smtpd_timeout=never\n");
  BOOST_TEST(has(notes(c), "master.cf:8: cleanup/unix: the program cleanup is not run: its work is done inside smtpd"));
  BOOST_TEST(has(notes(c), "master.cf:9: scache/unix: "));
  BOOST_TEST(!has(warnings(c), "master.cf:10: "));  // run by a program of that name
  BOOST_TEST(has(warnings(c), "master.cf:11: odd/unix: there is no program frobnicate"));
  BOOST_TEST(has(warnings(c), "master.cf:11: nosuch_thing: no setting has this name"));
  BOOST_TEST(has(messages(c.report(), Severity::error), "master.cf:11: smtpd_timeout: \"never\" is not a time"));
}

BOOST_AUTO_TEST_CASE(load_reads_a_directory_and_fails_at_the_first_error) {
  const pen::testing::ScratchDir dir;
  const auto write = [&](const char* name, std::string_view text) { dir.write(name, text); };
  BOOST_TEST(load(dir.path().string()).error().is(ConfigError::unreadable));
  write("main.cf", "myhostname = a.example\n");
  BOOST_TEST(load(dir.path().string()).error().is(ConfigError::unreadable));
  BOOST_TEST(load(dir.path().string(), {}, false).has_value());
  write("master.cf", kMaster);
  const auto good = load(dir.path().string(), {{"soft_bounce", "yes"}});
  BOOST_REQUIRE(good.has_value());
  BOOST_TEST((good->settings().myhostname == "a.example" && good->settings().soft_bounce));
  BOOST_TEST(good->master().size() == 7U);
  write("main.cf", "myhostname\n");
  BOOST_TEST(has(load(dir.path().string()).error().message(), "main.cf:1: \"=\" is missing"));
  BOOST_TEST(inspect(dir.path().string()).has_value());
}

BOOST_AUTO_TEST_CASE(every_setting_has_one_row_and_a_text) {
  std::set<std::string_view> seen;
  for (const Row& row : rows()) {
    BOOST_TEST(seen.insert(row.name).second, row.name);
    BOOST_TEST(valid_name(row.name), row.name);
    BOOST_TEST((row.text.ends_with('.') && row.text.size() > 10), row.name);
    BOOST_TEST((row.kind != Class::acts || !row.programs.empty()), row.name);
    BOOST_TEST((row.successor.empty() || row.successor == "reject_rbl_client" || find_row(row.successor) != nullptr),
               row.name);
    BOOST_TEST(find_row(row.name) == &row);
  }
  BOOST_TEST(rows().size() > 900U);
}
BOOST_AUTO_TEST_CASE(a_row_says_what_its_setting_names) {
  // Names that end like those of tables and files, and are words or patterns of words.
  const std::set<std::string_view> others = {"allow_mail_to_files",
                                             "proxy_read_maps",
                                             "smtpd_expansion_filter",
                                             "postscreen_expansion_filter",
                                             "execution_directory_expansion_filter",
                                             "command_expansion_filter",
                                             "forward_expansion_filter",
                                             "verp_delimiter_filter",
                                             "content_filter",
                                             "masquerade_domains"};
  for (const Row& row : rows()) {
    const bool text = row.type == Type::text || row.type == Type::list;
    if (!text || row.kind != Class::acts || others.contains(row.name)) continue;
    for (const std::string_view end : {"_maps", "_map", "_checks", "_filter", "_database", "_file", "_files", "_CAfile",
                                       "_CApath", "_milters", "_restrictions", "_clients", "_domains", "_hosts"})
      BOOST_TEST((!row.name.ends_with(end) || row.names != Names::nothing), row.name);
  }
}

BOOST_AUTO_TEST_CASE(every_default_expands) {
  const Config c = config("");
  for (const Row& row : rows())
    if (row.type != Type::raw && row.kind == Class::acts) BOOST_TEST(c.text(row.name).has_value(), row.name);
}
BOOST_AUTO_TEST_CASE(the_pages_are_not_stale) {
  BOOST_TEST((file_text("docs/settings.md") == settings_markdown()),
             "run: cmake --build … --target settings_pages_update");
  BOOST_TEST((file_text("man/main.cf.5") == main_cf_man_page()), "run: cmake --build … --target settings_pages_update");
}
BOOST_AUTO_TEST_CASE(the_nearest_name_is_close) {
  const std::vector<std::string_view> known = {"mydestination", "myorigin", "mynetworks"};
  BOOST_TEST(nearest_name("mydestnation", known) == "mydestination");
  BOOST_TEST(nearest_name("mynetwroks", known) == "mynetworks");
  BOOST_TEST(nearest_name("my", known) == "");
  BOOST_TEST(nearest_name("relayhost", known) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::config
