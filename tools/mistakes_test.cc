#include "tools/mistakes.h"

#include <sys/stat.h>
#include <utime.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/base/text.h"

#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::tools;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(configuration_mistakes)

namespace {

struct Directory {
  pen::testing::ScratchDir scratch;
  const fs::path path = scratch.path();
  std::string put(const std::string& name, const std::string& text, mode_t mode = 0644) const {
    std::ofstream(path / name) << text;
    ::chmod((path / name).c_str(), mode);
    return path / name;
  }
  /// "setting: text" of what is found.
  std::vector<std::string> found(const std::string& main, const std::string& master = "") const {
    const auto config = config::Config::parse({path, "myhostname = mx.example\n" + main, master, {}},
                                              {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
    std::vector<std::string> out;
    for (const auto& m : mistakes(config, {.dns = false})) {
      BOOST_CHECK(!m.advice.empty());
      BOOST_CHECK(!m.problem.file.empty());
      out.push_back(m.problem.name + ": " + m.problem.text);
      line = m.problem.line;
    }
    return out;
  }
  mutable int line = 0;  // of the last one
  /// The one that there is.
  std::string one(const std::string& main, const std::string& master = "") const {
    const auto all = found(main, master);
    BOOST_REQUIRE_EQUAL(all.size(), 1);
    return all[0];
  }
  static bool runs(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }
};

}  // namespace

PEN_FIXTURE(Directory)

BOOST_AUTO_TEST_CASE(a_network_of_everybody_or_of_strangers_is_named) {
  BOOST_CHECK(one("mynetworks = 127.0.0.0/8, 0.0.0.0/0\n").contains("0.0.0.0/0: everybody"));
  BOOST_CHECK_EQUAL(line, 2);
  BOOST_CHECK(one("mynetworks = [::]/0\n").contains("everybody"));
  BOOST_CHECK(one("mynetworks = 192.0.0.0/8\n").contains("16777216 hosts"));
  BOOST_CHECK(found("mynetworks = 127.0.0.0/8 10.0.0.0/8 192.168.0.0/16 192.0.2.0/24 [::1]/128 [fe80::]/10 "
                    "[::ffff:127.0.0.0]/104 [2001:db8::]/32 cidr:/etc/x !192.0.0.0/8\n")
                  .empty());
}

BOOST_AUTO_TEST_CASE(a_table_or_pieces_that_have_everybody_are_an_open_relay) {
  for (const char* value : {"static:all", "cidr:{{0.0.0.0/0 x}}", "127.0.0.0/8, regexp:{{/./ x}}"})
    BOOST_CHECK(one(std::string("mynetworks = ") + value + "\n").contains("everybody is in it: anybody can relay"));
  const auto halves = found("mynetworks = 0.0.0.0/1, 128.0.0.0/1\n");
  BOOST_CHECK(std::ranges::any_of(
      halves, [](const auto& m) { return m == "mynetworks: everybody is in it: anybody can relay"; }));
  BOOST_CHECK(found("mynetworks = !192.0.2.0/24, 127.0.0.0/8, cidr:{{192.0.2.0/24 x}}\n").empty());
  for (const char* value : {"static:all", "regexp:{{/./ x}}", "a.example, pcre:{{/^/ x}}"})
    BOOST_CHECK(found(std::string("relay_domains = ") + value + "\n").at(0).contains("every domain is in it"));
  BOOST_CHECK(found("relay_domains = a.example, inline:{b.example=x}, regexp:{{/\\.c\\.example$/ x}}\n").empty());
}

BOOST_AUTO_TEST_CASE(everybody_who_may_say_whose_address_it_has_can_relay) {
  BOOST_CHECK(one("smtpd_authorized_xclient_hosts = 0.0.0.0/0\n").contains("everybody is in it: anybody can relay"));
  BOOST_CHECK(found("smtpd_authorized_xclient_hosts = 192.0.2.7, 10.0.0.0/8\n").empty());
}
BOOST_AUTO_TEST_CASE(a_permit_before_the_refusal_of_relaying_is_an_open_relay) {
  struct Row {
    const char *restrictions, *permits;
  };
  const std::string classes =
      "smtpd_restriction_classes = trusted, guarded, round\ntrusted = permit_mynetworks, permit\n"
      "guarded = permit_mynetworks, reject_unauth_destination\nround = round\n";
  for (const Row& row : {
           Row{"permit_mynetworks, reject_unauth_destination, permit", ""},
           Row{"permit_mynetworks, permit, reject_unauth_destination", "permit"},
           Row{"Permit", "Permit"},
           Row{"permit_mynetworks, warn_if_reject reject_unauth_destination, permit", "permit"},
           Row{"warn_if_reject guarded, permit, reject", "permit"},
           Row{"warn_if_reject reject_unauth_destination, reject", ""},
           Row{"check_client_access static:OK, reject_unauth_destination", "check_client_access static:OK"},
           Row{"static:ok, reject_unauth_destination", "static:ok"},
           Row{"check_client_access hash:/x, reject", ""},
           Row{"check_client_access cidr:{{0.0.0.0/0 OK}}, reject_unauth_destination",
               "check_client_access cidr:{{0.0.0.0/0 OK}}"},
           Row{"check_client_access cidr:{{0.0.0.0/1 permit}, {128.0.0.0/1 200}}, reject_unauth_destination",
               "check_client_access cidr:{{0.0.0.0/1 permit}, {128.0.0.0/1 200}}"},
           Row{"check_client_access cidr:{{::/0 OK}}, reject_unauth_destination",
               "check_client_access cidr:{{::/0 OK}}"},
           Row{"check_client_access cidr:{{0.0.0.0/1 OK}}, reject_unauth_destination", ""},
           Row{"check_client_access cidr:{{0.0.0.0/0 DUNNO}}, reject_unauth_destination", ""},
           Row{"check_sender_access regexp:{{/./ OK}}, reject_unauth_destination",
               "check_sender_access regexp:{{/./ OK}}"},
           Row{"check_sender_access regexp:{{/@ours\\.example$/ OK}}, reject_unauth_destination", ""},
           Row{"check_recipient_access pcre:{{/@/ permit_mynetworks, permit}}, reject_unauth_destination",
               "check_recipient_access pcre:{{/@/ permit_mynetworks, permit}}"},
           Row{"check_recipient_access inline:{{ours.example = OK}}, reject_unauth_destination", ""},
           Row{"check_helo_access static:{OK}, reject_unauth_destination", "check_helo_access static:{OK}"},
           Row{"check_sender_access static:trusted, reject_unauth_destination", "check_sender_access static:trusted"},
           Row{"trusted, reject_unauth_destination", "permit (class trusted)"},
           Row{"guarded, permit", ""},
           Row{"round, reject_unauth_destination", ""},
       }) {
    const auto all = found(classes + "smtpd_relay_restrictions = " + row.restrictions + "\n");
    const std::string said = *row.permits == '\0'
                                 ? ""
                                 : std::string("smtpd_relay_restrictions: ") + row.permits +
                                       " before anything refuses relaying: everybody can send to everybody";
    BOOST_CHECK_EQUAL(all.empty() ? "" : all.front(), said);
  }
  BOOST_CHECK(one("smtpd_relay_restrictions = permit\n").contains("everybody can send"));
  // The other list counts where the first is empty.
  BOOST_CHECK(one("smtpd_relay_restrictions =\nsmtpd_recipient_restrictions = permit, reject_unauth_destination\n")
                  .starts_with("smtpd_recipient_restrictions"));
  BOOST_CHECK(found("smtpd_recipient_restrictions = permit\n").empty());
  // What the first permits the second may refuse.
  BOOST_CHECK(
      found("smtpd_relay_restrictions = permit\nsmtpd_recipient_restrictions = reject_unauth_destination\n").empty());
}

BOOST_AUTO_TEST_CASE(a_qmqp_service_that_everybody_may_use_is_an_open_relay) {
  const std::string master = "smtp inet n - n - - smtpd\n628 inet n - n - - qmqpd\n";
  for (const char* item : {"static:all", "0.0.0.0/0", "[::]/0", "192.0.2.1, static:yes"}) {
    const std::string main = std::string("qmqpd_authorized_clients = ") + item + "\n";
    BOOST_CHECK(one(main, master).contains("628/inet"));
    BOOST_CHECK(one(main, master).contains("anybody can relay"));
    BOOST_CHECK_EQUAL(line, 2);
    BOOST_CHECK(found(main, "smtp inet n - n - - smtpd\n").empty());
    BOOST_CHECK(found(main, "127.0.0.1:628 inet n - n - - qmqpd\n").empty());
  }
  BOOST_CHECK(one("qmqpd_authorized_clients = 192.0.0.0/8\n", master).contains("16777216 hosts"));
  BOOST_CHECK(
      found("qmqpd_authorized_clients = 192.0.2.0/24 .lists.example cidr:/etc/x !192.0.0.0/8\n", master).empty());
  BOOST_CHECK(one("", "smtp inet n - n - - smtpd\n\n628 inet n - n - - qmqpd -o qmqpd_authorized_clients=static:all\n")
                  .contains("anybody can relay"));
  BOOST_CHECK_EQUAL(line, 3);
}

BOOST_AUTO_TEST_CASE(a_service_that_relays_for_everybody_is_named_with_its_line) {
  const std::string master =
      "smtp inet n - n - - smtpd\n2525 inet n - n - - smtpd -o smtpd_relay_restrictions=permit\n";
  BOOST_CHECK(one("", master).contains("2525/inet"));
  BOOST_CHECK_EQUAL(line, 2);
  for (const char* open : {"mynetworks=0.0.0.0/0", "relay_domains=static:all", "mynetworks=static:x"}) {
    const auto all = found("", std::string("smtp inet n - n - - smtpd\n2525 inet n - n - - smtpd -o ") + open + "\n");
    BOOST_REQUIRE_EQUAL(all.size(), 1);
    BOOST_CHECK(all[0].contains("service 2525/inet: "));
    BOOST_CHECK_EQUAL(line, 2);
  }
  // Behind a content filter.
  BOOST_CHECK(found("", "127.0.0.1:10025 inet n - n - - smtpd -o smtpd_relay_restrictions=permit\n").empty());
}

BOOST_AUTO_TEST_CASE(a_table_that_is_older_than_its_text_is_named) {
  const auto text = put("virtual", "a b\n");
  const auto table = put("virtual.lmdb", "");
  const utimbuf old{1000, 1000};
  ::utime(table.c_str(), &old);
  BOOST_CHECK(one("virtual_alias_maps = hash:" + text + "\n").contains("older than its text"));
  ::utime(text.c_str(), &old);
  BOOST_CHECK(found("virtual_alias_maps = hash:" + text + "\n").empty());
}

BOOST_AUTO_TEST_CASE(a_domain_in_two_classes_is_named_where_it_has_no_effect) {
  BOOST_CHECK_EQUAL(one("mydestination = a.example, $myhostname\nvirtual_mailbox_domains = A.example b.example\n"),
                    "virtual_mailbox_domains: a.example is in mydestination too, which comes first: what is set here "
                    "for it has no effect");
  BOOST_CHECK_EQUAL(line, 3);
  BOOST_CHECK(one("mydestination = a.example\nvirtual_alias_maps = inline:{ a.example=x }\n")
                  .starts_with("virtual_alias_domains"));
  BOOST_CHECK(
      found("mydestination = a.example\nvirtual_mailbox_domains = b.example\nrelay_domains = c.example\n").empty());
}

BOOST_AUTO_TEST_CASE(certificates_that_clients_refuse_and_keys_that_are_no_secret_are_named) {
  const std::string base = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=mx.example ";
  const std::string key = path / "key", cert = path / "cert", other = path / "other";
  BOOST_REQUIRE(runs(base + "-days 3 -keyout " + key + " -out " + cert));
  BOOST_REQUIRE(runs(base + "-days 300 -keyout " + other + " -out " + (path / "good").string()));
  ::chmod(key.c_str(), 0600);
  ::chmod(other.c_str(), 0600);
  const auto both = [](const std::string& c, const std::string& k) {
    return "smtpd_tls_cert_file = " + c + "\nsmtpd_tls_key_file = " + k + "\n";
  };
  BOOST_CHECK(one(both(cert, key)).contains("expires in"));
  const std::string good = path / "good";
  BOOST_CHECK(found(both(good, other)).empty());
  BOOST_CHECK(one(both(good, key)).contains("is not that of the certificate"));
  BOOST_CHECK_EQUAL(line, 3);
  ::chmod(other.c_str(), 0644);
  BOOST_CHECK(one(both(good, other)).contains("everybody can read"));
  BOOST_REQUIRE(runs("openssl req -x509 -key " + key + " -subj /CN=x -days -1 -out " + cert) ||
                runs("openssl x509 -in " + cert + " -signkey " + key + " -days -1 -out " + cert));
  BOOST_CHECK(one(both(cert, key)).contains("has expired on"));
}

BOOST_AUTO_TEST_CASE(files_that_a_table_of_certificates_by_name_has_are_looked_at) {
  const std::string base = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=mx.example ";
  const std::string key = path / "key", cert = path / "cert", other = path / "other", soon = path / "soon";
  BOOST_REQUIRE(runs(base + "-days 300 -keyout " + key + " -out " + cert));
  BOOST_REQUIRE(runs(base + "-days 3 -keyout " + other + " -out " + soon));
  ::chmod(key.c_str(), 0600);
  ::chmod(other.c_str(), 0600);
  const std::string table = path / "sni", main = "tls_server_sni_maps = hash:" + table + "\n";
  const auto of = [&](const std::string& value) {
    put("sni", "# names\n\na.example " + value + "\n");
    put("sni.lmdb", "");
    const auto all = found(main);
    BOOST_CHECK(all.empty() || line == 3);
    return join(all, "; ");
  };
  const std::string lost = "a TLS handshake that asks for this name fails";
  BOOST_CHECK_EQUAL(of(key + " " + cert), "");
  BOOST_CHECK_EQUAL(of(key + ", " + cert), "");
  BOOST_CHECK(of(key + " " + path.string() + "/none").contains("tls_server_sni_maps: a.example: "));
  BOOST_CHECK(of(key + " " + path.string() + "/none").contains("gets the usual certificate"));
  BOOST_CHECK(of(other + " " + cert).contains("is not that of the certificate"));
  BOOST_CHECK(of(cert + " " + key).contains("the key goes before its certificate"));
  BOOST_CHECK(of(cert).contains(lost));
  BOOST_CHECK(of(key).contains("no certificate behind the key"));
  BOOST_CHECK(of(other + " " + soon).contains("expires in"));
  ::chmod(key.c_str(), 0644);
  BOOST_CHECK(of(key + " " + cert).contains("everybody can read"));
  ::chmod(key.c_str(), 0600);
  BOOST_CHECK(one("tls_server_sni_maps = inline:{{a.example = " + path.string() + "/none}}\n").contains(lost));
  BOOST_CHECK_EQUAL(line, 2);
  BOOST_CHECK(one("", "smtp inet n - n - - smtpd -o tls_server_sni_maps=inline:{a.example=" + path.string() + "/no}\n")
                  .contains(lost));
  BOOST_CHECK_EQUAL(line, 1);
  BOOST_CHECK(found("tls_server_sni_maps = static:x, fail:y\n").empty());
}

BOOST_AUTO_TEST_CASE(relay_domains_that_are_mydestination_by_its_name_are_meant_so) {
  const Directory d;
  BOOST_CHECK(d.found("mydestination = a.example\nrelay_domains = $mydestination\n").empty());
  BOOST_CHECK(d.one("mydestination = a.example\nrelay_domains = a.example\n").contains("is in mydestination too"));
}

BOOST_AUTO_TEST_SUITE_END()
