#include "tools/foreign_config.h"

#include <boost/test/unit_test.hpp>

using namespace pen::tools;

namespace {

const Moved kMoved{.from = {"/etc/postfix"}, .to = "/etc/penstock", .files = {"virtual", "sasl/passwd", "main"}};

std::string setting(const EximConfig& config, std::string_view name) {
  std::string found = "(none)";
  for (const auto& [key, value] : config.settings) {
    if (key != name) continue;
    BOOST_CHECK_MESSAGE(found == "(none)", name << " is there twice");
    found = value;
  }
  return found;
}

EximConfig exim(const std::string& conf, const std::string& passwords = "") {
  auto found = from_exim(
      {.conf = conf, .mailname = "h.example\n", .passwd_client = passwords, .addresses = "", .aliases = "/etc/aliases"},
      "/etc/penstock");
  BOOST_REQUIRE(found);
  return *std::move(found);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(foreign_config)

BOOST_AUTO_TEST_CASE(main_cf_keeps_its_comments_and_loses_what_is_of_postfix) {
  const auto out = from_postfix_main(
      "# mine: /etc/postfix/virtual\nmyhostname = a.example\nqueue_directory = /var/spool/postfix\n"
      "virtual_alias_maps = hash:/etc/postfix/virtual,\n  # old\n  hash:/etc/postfix/other\n"
      "daemon_directory=/usr/lib/postfix/sbin\n",
      kMoved);
  BOOST_REQUIRE(out);
  BOOST_CHECK_EQUAL(out->text,
                    "# mine: /etc/postfix/virtual\nmyhostname = a.example\n#queue_directory = /var/spool/postfix\n"
                    "virtual_alias_maps = hash:/etc/penstock/virtual,\n  # old\n  hash:/etc/postfix/other\n"
                    "#daemon_directory=/usr/lib/postfix/sbin\n");
  BOOST_REQUIRE_EQUAL(out->dropped.size(), 2);
  BOOST_CHECK_EQUAL(out->dropped[0].what, "queue_directory");
}

BOOST_AUTO_TEST_CASE(names_of_other_files_and_longer_names_stay) {
  const std::string text =
      "a = /etc/postfix/mainly, /chroot/etc/postfix/main, {/etc/postfix/main} /etc/postfix/sasl/passwd\n";
  BOOST_CHECK_EQUAL(from_postfix_main(text, kMoved)->text,
                    "a = /etc/postfix/mainly, /chroot/etc/postfix/main, {/etc/penstock/main} "
                    "/etc/penstock/sasl/passwd\n");
}

BOOST_AUTO_TEST_CASE(services_that_do_not_exist_here_become_comments_with_the_reason) {
  const auto out = from_postfix_master(
      "smtp      inet  n       -       y       -       -       smtpd\n  -o smtpd_tls_wrappermode=no\n"
      "cleanup   unix  n       -       y       -       0       cleanup\n"
      "scache    unix  -       -       y       -       1       scache\n  -o a=b\n"
      "mine unix - n n - - nothing\n# end\n",
      kMoved);
  BOOST_CHECK_EQUAL(out.text,
                    "smtp      inet  n       -       n       -       -       smtpd\n  -o smtpd_tls_wrappermode=no\n"
                    "cleanup   unix  n       -       n       -       0       cleanup\n"
                    "# Not run here: qmgr shares connections between messages; no cache program is needed.\n"
                    "#scache    unix  -       -       n       -       1       scache\n#  -o a=b\n"
                    "# Not run here: there is no program nothing.\n#mine unix - n n - - nothing\n# end\n");
  BOOST_CHECK_EQUAL(out.dropped.size(), 2);
}

BOOST_AUTO_TEST_CASE(a_second_queue_manager_becomes_a_comment) {
  const auto out = from_postfix_master("watchdog_qmgr fifo n - n 300 1 qmgr\nqmgr fifo n - n 300 1 qmgr\n", kMoved);
  BOOST_CHECK(out.text.contains("\n#watchdog_qmgr fifo"));
  BOOST_CHECK(out.text.contains("\nqmgr fifo"));
  BOOST_REQUIRE_EQUAL(out.dropped.size(), 1);
  BOOST_CHECK_EQUAL(out.dropped[0].what, "watchdog_qmgr/fifo");
}

BOOST_AUTO_TEST_CASE(the_old_queue_managers_line_stays_for_qmgr_runs_it) {
  const auto out = from_postfix_master("qmgr fifo n - n 300 1 oqmgr\n", kMoved);
  BOOST_CHECK_EQUAL(out.text, "qmgr fifo n - n 300 1 oqmgr\n");
  BOOST_CHECK(out.dropped.empty());
}

BOOST_AUTO_TEST_CASE(a_line_that_is_no_service_stays_for_check_to_name) {
  BOOST_CHECK_EQUAL(from_postfix_master("smtp inet n y\n", kMoved).text, "smtp inet n y\n");
}

BOOST_AUTO_TEST_CASE(the_list_of_names_of_an_installation_is_in_order) {
  for (const char* name : {"alternate_config_directories", "queue_directory", "shlib_directory", "mail_owner"})
    BOOST_CHECK(is_of_installation(name));
  BOOST_CHECK(!is_of_installation("myhostname"));
}

BOOST_AUTO_TEST_CASE(an_internet_host_of_exim) {
  const auto c = exim(
      "# comment\ndc_eximconfig_configtype='internet'\ndc_other_hostnames='h.example:other.example'\n"
      "dc_local_interfaces=''\ndc_readhost=''\ndc_relay_domains='r1.example : r2.example'\n"
      "dc_relay_nets='192.0.2.0/24'\ndc_smarthost=''\ndc_localdelivery='maildir_home'\n");
  BOOST_CHECK_EQUAL(setting(c, "mydestination"), "h.example, $myhostname, localhost, other.example");
  BOOST_CHECK_EQUAL(setting(c, "myorigin"), "h.example");
  BOOST_CHECK_EQUAL(setting(c, "inet_interfaces"), "all");
  BOOST_CHECK_EQUAL(setting(c, "relay_domains"), "r1.example, r2.example");
  BOOST_CHECK_EQUAL(setting(c, "mynetworks"), "127.0.0.0/8, [::1]/128, 192.0.2.0/24");
  BOOST_CHECK_EQUAL(setting(c, "home_mailbox"), "Maildir/");
  BOOST_CHECK_EQUAL(setting(c, "relayhost"), "(none)");
  BOOST_CHECK_EQUAL(setting(c, "alias_maps"), "lmdb:/etc/aliases");
  BOOST_CHECK(c.passwords.empty());
}

BOOST_AUTO_TEST_CASE(a_host_of_exim_behind_another_with_a_password) {
  const auto c = exim(
      "dc_eximconfig_configtype='smarthost'\ndc_local_interfaces='127.0.0.1 ; ::1'\n"
      "dc_smarthost='mail.example.net::587'\n",
      "# host:login:password\n*:ada:se:cret\n");
  BOOST_CHECK_EQUAL(setting(c, "inet_interfaces"), "127.0.0.1, ::1");
  BOOST_CHECK_EQUAL(setting(c, "relayhost"), "[mail.example.net]:587");
  BOOST_CHECK_EQUAL(c.passwords, "[mail.example.net]:587 ada:se:cret\n");
  BOOST_CHECK_EQUAL(setting(c, "smtp_sasl_password_maps"), "texthash:/etc/penstock/sasl_passwd");
  BOOST_CHECK_EQUAL(setting(c, "smtp_tls_security_level"), "encrypt");
}

BOOST_AUTO_TEST_CASE(an_internet_host_of_exim_with_passwords_for_some_hosts_sends_to_others_without_tls) {
  const auto c = exim("dc_eximconfig_configtype='internet'\ndc_smarthost=''\n", "mail.example.net:ada:secret\n*:x:y\n");
  BOOST_CHECK_EQUAL(c.passwords, "mail.example.net ada:secret\n");
  BOOST_REQUIRE_EQUAL(c.dropped.size(), 1U);
  BOOST_CHECK(c.dropped.front().what.starts_with("passwd.client"));
  BOOST_CHECK_EQUAL(setting(c, "smtp_tls_security_level"), "may");
  BOOST_CHECK_EQUAL(setting(c, "smtp_sasl_security_options"), "noanonymous, noplaintext");
  BOOST_CHECK_EQUAL(setting(c, "smtp_sasl_tls_security_options"), "noanonymous");
}

BOOST_AUTO_TEST_CASE(a_host_of_exim_that_hides_its_name_has_one_origin) {
  const auto c = exim(
      "dc_eximconfig_configtype='smarthost'\ndc_smarthost='relay.example'\ndc_hide_mailname='true'\n"
      "dc_readhost='example.com'\n");
  BOOST_CHECK_EQUAL(setting(c, "myorigin"), "example.com");
}

BOOST_AUTO_TEST_CASE(a_satellite_of_exim_shows_another_name) {
  const auto c =
      exim("dc_eximconfig_configtype='satellite'\ndc_smarthost='relay.example'\ndc_readhost='example.com'\n");
  BOOST_CHECK_EQUAL(setting(c, "mydestination"), "$myhostname, localhost");
  BOOST_CHECK_EQUAL(setting(c, "relayhost"), "[relay.example]");
  BOOST_CHECK_EQUAL(setting(c, "masquerade_domains"), "example.com");
  BOOST_CHECK_EQUAL(setting(exim("dc_eximconfig_configtype='local'\n"), "default_transport").substr(0, 5), "error");
}

BOOST_AUTO_TEST_CASE(an_exim_that_is_not_set_up_is_refused) {
  BOOST_CHECK(!from_exim({.conf = "dc_eximconfig_configtype='none'\n",
                          .mailname = "",
                          .passwd_client = "",
                          .addresses = "",
                          .aliases = "/etc/aliases"},
                         "/etc/penstock"));
}

BOOST_AUTO_TEST_SUITE_END()
