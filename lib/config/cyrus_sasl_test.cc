#include "lib/config/cyrus_sasl.h"

#include <boost/test/unit_test.hpp>

namespace pen::config {
BOOST_AUTO_TEST_SUITE(cyrus_sasl)

namespace {

Config config(const std::string& main_cf, const std::string& master_cf) {
  return Config::parse({.directory = "/etc/penstock", .main_cf = main_cf, .master_cf = master_cf, .overrides = {}},
                       {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
}
using Names = std::vector<std::string>;

BOOST_AUTO_TEST_CASE(applications_are_those_of_services_that_let_clients_log_in_by_cyrus) {
  const std::string master =
      "25 inet n - n - - smtpd\n587 inet n - n - - smtpd -o smtpd_sasl_auth_enable=yes\n"
      "465 inet n - n - - smtpd -o smtpd_sasl_auth_enable=yes -o smtpd_sasl_path=submission\n"
      "466 inet n - n - - smtpd -o smtpd_sasl_auth_enable=yes -o smtpd_sasl_type=dovecot\n";
  BOOST_TEST((cyrus_applications(config("", master)) == Names{"smtpd", "submission"}));
  BOOST_TEST((cyrus_applications(config("smtpd_sasl_path = mta\n", master)) == Names{"mta", "submission"}));
  BOOST_TEST(cyrus_applications(config("smtpd_sasl_type = dovecot\n", master)).empty());
}

BOOST_AUTO_TEST_CASE(the_service_is_known_by_its_program) {
  const std::string delivers = "cyrus unix - n n - - pipe flags=R user=cyrus argv=/usr/sbin/deliver\n";
  BOOST_TEST(!cyrus_socket(config("", delivers)));
  const auto line = cyrus_line(config("", delivers).master());
  BOOST_TEST((cyrus_socket(config("", delivers + line + "\n")) == "private/cyrus-sasl"));
  BOOST_TEST((cyrus_socket(config("", cyrus_line({}) + "\n")) == "private/cyrus"));
  BOOST_TEST((cyrus_socket(config("", "x unix n - n - - cyrus\n")) == "public/x"));
}

BOOST_AUTO_TEST_CASE(options_are_looked_for_beside_main_cf_and_where_debian_has_them) {
  BOOST_TEST((cyrus_option_files(config("", ""), "smtpd") ==
              Names{"/etc/penstock/sasl/smtpd.conf", "/etc/postfix/sasl/smtpd.conf", "/etc/sasl2/smtpd.conf",
                    "/usr/lib/sasl2/smtpd.conf"}));
  BOOST_TEST(
      (cyrus_option_files(config("cyrus_sasl_config_path = /a/ : /b\n", ""), "x") == Names{"/a/x.conf", "/b/x.conf"}));
  BOOST_TEST(cyrus_option_files(config("cyrus_sasl_config_path =\n", ""), "x").size() == 4U);
}

BOOST_AUTO_TEST_CASE(options_are_read_as_the_library_reads_them) {
  const auto options = CyrusOptions::parse(
                           "# a comment\n\n  PWCheck_method:saslauthd \t\r\nmech_list: PLAIN LOGIN\n"
                           "sql_select: SELECT x: y # z\npwcheck_method: auxprop")
                           .value();
  BOOST_TEST(*options.value("pwcheck_method") == "saslauthd");
  BOOST_TEST(*options.value("mech_list") == "PLAIN LOGIN");
  BOOST_TEST(*options.value("sql_select") == "SELECT x: y # z");
  BOOST_TEST(options.value("none") == nullptr);
  BOOST_TEST(CyrusOptions::parse("").value().all().empty());
  for (const char* wrong : {"mech_list PLAIN", "mech_list:", "mech list: x", "mech_list:  \n"})
    BOOST_TEST(CyrusOptions::parse(std::string("a: b\n") + wrong).error().message().contains("line 2"), wrong);
}

BOOST_AUTO_TEST_CASE(what_the_library_will_ask_follows_from_the_options) {
  const auto needs = [](const std::string& text) { return cyrus_needs(CyrusOptions::parse(text).value()); };
  BOOST_TEST((needs("").sasldb == "/etc/sasldb2" && !needs("").sasldb_named && !needs("").saslauthd));
  const auto daemon = needs("pwcheck_method: saslauthd\nmech_list: PLAIN login");
  BOOST_TEST((daemon.saslauthd == "/var/run/saslauthd/mux" && !daemon.sasldb));
  BOOST_TEST((needs("pwcheck_method: auxprop saslauthd\nsaslauthd_path: /x/mux").saslauthd == "/x/mux"));
  BOOST_TEST((needs("pwcheck_method: saslauthd\nmech_list: PLAIN CRAM-MD5").sasldb == "/etc/sasldb2"));
  const auto named = needs("pwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: /x/db");
  BOOST_TEST((named.sasldb == "/x/db" && named.sasldb_named));
  BOOST_TEST(!needs("auxprop_plugin: sql").sasldb);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::config
