#include "lib/suite/confine/named_files.h"

#include <boost/test/unit_test.hpp>
#include <map>

namespace pen::confine {
namespace {

struct Fixture {
  std::map<std::string, std::string> files;
  Machine machine{.read = [this](const std::string& path) -> std::optional<std::string> {
                    const auto at = files.find(path);
                    return at == files.end() ? std::nullopt : std::optional(at->second);
                  },
                  .port = [](const std::string& name) -> std::optional<std::uint16_t> {
                    if (name == "smtp") return std::uint16_t{25};
                    return std::nullopt;
                  }};
  Named of(std::string_view value, std::string_view setting = "x_maps") {
    Named out;
    add_named(setting, value, machine, out);
    return out;
  }
  config::Config config(const std::string& main_cf, const std::string& master_cf = "") {
    return config::Config::parse(
        {.directory = "/etc/penstock", .main_cf = main_cf, .master_cf = master_cf, .overrides = {}},
        {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
  }
};

using Paths = std::set<std::string>;
using Ports = std::set<std::uint16_t>;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(named_files, Fixture)

BOOST_AUTO_TEST_CASE(a_path_alone_and_one_behind_a_type_are_named) {
  BOOST_TEST((of("/etc/ssl/mx.pem").paths == Paths{"/etc/ssl/mx.pem"}));
  BOOST_TEST((of("lmdb:/a/b, proxy:pcre:/c\n !/d/e debug:proxy:cdb:/f").paths == Paths{"/a/b", "/c", "/d/e", "/f"}));
  BOOST_TEST((of("pipemap:{cidr:/a/b,texthash:/c/d}").paths == Paths{"/a/b", "/c/d"}));
  BOOST_TEST((of("/a file/with blanks").paths.contains("/a file/with blanks")));
}

BOOST_AUTO_TEST_CASE(a_setting_names_what_its_row_says_and_no_more) {
  for (const char* words : {"smtpd_banner", "relayhost", "mailbox_command", "maillog_file", "virtual_mailbox_base"})
    BOOST_TEST((of("/etc/shadow lmdb:/etc/x [mx.example]:2525", words) == Named{}), words);
  BOOST_TEST((of("/a/b c.pem", "smtpd_tls_cert_file").paths == Paths{"/a/b c.pem"}));
  BOOST_TEST((of("/a/b, /c/d", "smtpd_tls_chain_files").paths == Paths{"/a/b", "/c/d"}));
  BOOST_TEST((of("mx.example", "myorigin") == Named{}));
  BOOST_TEST((of("texthash:/a/b", "virtual_maps").paths == Paths{"/a/b"}));  // as its successor
  BOOST_TEST((of("inet:127.0.0.1:8891", "smtpd_milters").ports == Ports{8891}));
}

BOOST_AUTO_TEST_CASE(what_stands_in_a_certificate_is_no_path) {
  files["/a/mx.pem"] = "-----BEGIN CERTIFICATE-----\n/etc/shadow\n-----END CERTIFICATE-----\n";
  BOOST_TEST((of("/a/mx.pem", "smtpd_tls_cert_file").paths == Paths{"/a/mx.pem"}));
}

BOOST_AUTO_TEST_CASE(networks_addresses_and_urls_name_no_file) {
  BOOST_TEST((of("10.0.0.0/8 [::1]/128 https://a.example/b unix:/run/milter.sock") == Named{}));
}

BOOST_AUTO_TEST_CASE(ports_of_servers_are_named_in_every_form) {
  BOOST_TEST((of("inet:localhost:8891").ports == Ports{8891}));
  BOOST_TEST((of("127.0.0.1:10025 [::1]:10026 :10027").ports == Ports{10025, 10026, 10027}));
  BOOST_TEST((of("socketmap:inet:127.0.0.1:4002:name, tcp:db.example:7").ports == Ports{4002, 7}));
  BOOST_TEST((of("check_policy_service { inet:127.0.0.1:9998, timeout=10s }").ports == Ports{9998}));
  BOOST_TEST((of("inet:localhost:smtp").ports == Ports{25}));
}

BOOST_AUTO_TEST_CASE(every_database_but_a_file_opens_every_port_and_its_file_is_followed) {
  for (const std::string type : {"mysql", "pgsql", "ldap", "mongodb", "redis", "memcache"}) {
    files["/etc/x.cf"] = "hosts = db.example:7\ntls_CAfile = /etc/ca.pem\nbackup = sqlite:/etc/y.cf\n";
    files["/etc/y.cf"] = "dbpath = /srv/y.db\n";
    const Named found = of("debug:proxy:" + type + ":/etc/x.cf");
    BOOST_TEST(found.any_port, type);
    BOOST_TEST((found.paths == Paths{"/etc/x.cf", "/etc/ca.pem", "/etc/y.cf", "/srv/y.db"}), type);
  }
  BOOST_TEST(!of("sqlite:/etc/y.cf").any_port);
}

BOOST_AUTO_TEST_CASE(patterns_that_pcre_translates_are_noticed) {
  for (const char* value :
       {"pcre:/etc/penstock/checks", "check_sender_access pcre:/etc/penstock/senders, reject",
        "proxy:pcre:/etc/penstock/checks", "pipemap:{pcre:/etc/penstock/checks, lmdb:/x}", "pcre:{{/x/ REJECT}}"})
    BOOST_TEST(of(value).machine_code, value);
  for (const char* value : {"regexp:/etc/penstock/pcre", "lmdb:/etc/penstock/pcre:x", "/etc/pcre", ""})
    BOOST_TEST(!of(value).machine_code, value);
}

BOOST_AUTO_TEST_CASE(options_of_a_uri_name_files) {
  files["/etc/x.cf"] = "uri = mongodb://u:p@db.example/?tls=true&tlsCAFile=/srv/ca.pem&authSource=admin\n";
  BOOST_TEST((of("mongodb:/etc/x.cf").paths == Paths{"/etc/x.cf", "/srv/ca.pem"}));
}

BOOST_AUTO_TEST_CASE(a_port_that_is_not_known_opens_every_port) {
  BOOST_TEST(of("inet:localhost:no-such-service").any_port);
  BOOST_TEST(!of("inet:localhost:smtp").any_port);
}

BOOST_AUTO_TEST_CASE(databases_name_what_their_files_name) {
  files["/etc/x.cf"] = "dbpath = /var/db/mail.db\nquery = SELECT '/none'\n";
  const Named found = of("sqlite:/etc/x.cf");
  BOOST_TEST(found.paths.contains("/var/db/mail.db"));
  BOOST_TEST(!found.any_port);
  files["/etc/y.cf"] = "hosts = db.example\nssl_ca_file = /etc/db/ca.pem\n";
  BOOST_TEST(of("mysql:/etc/y.cf").any_port);
  BOOST_TEST(of("mysql:/etc/y.cf").paths.contains("/etc/db/ca.pem"));
}

BOOST_AUTO_TEST_CASE(keys_that_a_key_table_names_are_found) {
  files["/etc/dkim/KeyTable"] = "k example.org:s1:/var/keys/s1.pem\n";
  files["/etc/opendkim.conf"] = "KeyTable file:/etc/dkim/KeyTable\n";
  BOOST_TEST(of("/etc/opendkim.conf", "dkim_opendkim_conf").paths.contains("/var/keys/s1.pem"));
}

BOOST_AUTO_TEST_CASE(texts_of_tables_name_files_and_servers_by_their_form_and_patterns_name_none) {
  files["/t/policies"] = "a.example secure tafile=/srv/ca/a.pem\n";
  files["/t/milters"] = "10.0.0.1 inet:127.0.0.1:8891\n2001:db8::25 DISABLE\n";
  files["/t/patterns"] = "/etc/ REJECT no\n/^From:.*/srv/x/ IGNORE\n";
  const Named found = of("lmdb:/t/policies, cidr:/t/milters, pcre:/t/patterns");
  BOOST_TEST((found.paths == Paths{"/t/policies", "/t/milters", "/t/patterns", "/srv/ca/a.pem"}));
  BOOST_TEST((found.ports == Ports{8891}));
}

BOOST_AUTO_TEST_CASE(certificates_by_server_name_are_found) {
  files["/t/sni"] = "mx.example /srv/tls/key.pem /srv/tls/cert.pem\n";
  BOOST_TEST(of("texthash:/t/sni", "tls_server_sni_maps").paths.contains("/srv/tls/key.pem"));
}

BOOST_AUTO_TEST_CASE(smtp_opens_what_trivial_rewrite_tells_it_of) {
  const auto c = config(
      "smtp_tls_policy_maps = inline:{ { a.example = secure tafile=/srv/ca/b.pem } }\n"
      "smtp_mta_sts_CAfile = /srv/web/ca.pem\n");
  BOOST_TEST(named_by(c, "smtp", machine).paths.contains("/srv/ca/b.pem"));
  BOOST_TEST(named_by(c, "smtp", machine).paths.contains("/srv/web/ca.pem"));
  BOOST_TEST(!named_by(c, "smtpd", machine).paths.contains("/srv/web/ca.pem"));
}

BOOST_AUTO_TEST_CASE(files_that_name_each_other_are_read_once) {
  files["/a/x"] = "/a/y";
  files["/a/y"] = "/a/x /b/c";
  BOOST_TEST((of("/a/x").paths == Paths{"/a/x", "/a/y", "/b/c"}));
}

BOOST_AUTO_TEST_CASE(only_settings_that_the_program_reads_count) {
  const auto c = config(
      "smtpd_tls_cert_file = /etc/tls/mx.pem\nsmtp_tls_policy_maps = cidr:/srv/policies/x\nqueue_directory = /q\n");
  const auto smtpd = named_by(c, "smtpd", machine).paths;
  BOOST_TEST(smtpd.contains("/etc/tls/mx.pem"));
  BOOST_TEST(!smtpd.contains("/srv/policies/x"));
  BOOST_TEST(!smtpd.contains("/q"));
}

BOOST_AUTO_TEST_CASE(names_of_the_administrator_and_of_master_cf_count) {
  const auto c = config("smtpd_restriction_classes = mine\nmine = check_client_access cidr:/srv/a/clients\n",
                        "slow unix - - n - - smtp\n  -o smtp_tls_policy_maps=cidr:/srv/b/policies\n");
  BOOST_TEST(named_by(c, "smtpd", machine).paths.contains("/srv/a/clients"));
  BOOST_TEST(named_by(c, "trivial-rewrite", machine).paths.contains("/srv/b/policies"));
}

BOOST_AUTO_TEST_CASE(an_old_name_is_read_by_who_reads_its_successor) {
  const auto c = config("smtp_tls_per_site = hash:/old/sites\n");
  BOOST_TEST((named_by(c, "trivial-rewrite", machine).paths.contains("/old/sites")));
  BOOST_TEST(!named_by(c, "smtpd", machine).paths.contains("/old/sites"));
}

BOOST_AUTO_TEST_CASE(options_of_cyrus_sasl_name_files_for_the_program_that_asks_it) {
  files["/etc/penstock/sasl/mta.conf"] = "sasldb_path: /srv/sasl/db\nsql_database: /srv/sqlite/users.db\n";
  const std::string master = "25 inet n - n - - smtpd -o smtpd_sasl_auth_enable=yes\n";
  const auto c = config("smtpd_sasl_path = mta\n", master);
  const auto found = named_by(c, "cyrus", machine).paths;
  for (const char* path : {"/srv/sasl/db", "/srv/sqlite/users.db", "/var/spool/postfix/srv/sasl/db"})
    BOOST_TEST(found.contains(path), path);
  BOOST_TEST(!named_by(c, "smtpd", machine).paths.contains("/srv/sasl/db"));
  // No options: the library's defaults.
  BOOST_TEST(named_by(config("", master), "cyrus", machine).paths.contains("/etc/sasldb2"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::confine
