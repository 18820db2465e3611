#include "keys/sources.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "lib/base/base64.h"
#include "lib/map/table_file.h"
#include "lib/net/tls/testing/test_certificates.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"

namespace pen::keys {
namespace {

using namespace ipc::keys;
using tls::testing::Authority;
using tls::testing::Issued;

Authority& authority() {
  static Authority ca("Test CA");
  return ca;
}
Issued issue(const std::string& name) { return authority().issue({.common_name = name, .names = {name}}); }

struct Rig {
  testing::ScratchDir dir;
  testing::ManualClock clock;
  Vault vault;
  std::unique_ptr<Sources> sources;
  Issued mx = issue("mx.example"), other = issue("other.example");
  std::string cert = dir.write("cert", mx.certificate), key = dir.write("key", mx.key);

  void open(const std::string& main_cf, const std::string& master_cf) {
    const auto config = config::Config::parse({.directory = dir.path().string(),
                                               .main_cf = "smtpd_tls_security_level = may\n" + main_cf,
                                               .master_cf = master_cf,
                                               .overrides = {}},
                                              {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
    sources = std::make_unique<Sources>(config, clock);
    sources->load(vault);
  }
  void open_pair() {
    open("smtpd_tls_cert_file = " + cert + "\nsmtpd_tls_key_file = " + key + "\n", "smtp inet n - n - - smtpd\n");
  }
  /// What a client is shown.
  std::map<std::string, Held> list(Use use) {
    sources->look(vault);
    auto page = std::get<Listed>(vault.answer(use, List{}));
    sources->complete(use, page);
    std::map<std::string, Held> out;
    for (auto& held : page.keys) out[held.name] = held;
    return out;
  }
  /// Puts another file in its place, as programs that renew certificates do.
  void replace(const std::string& path, std::string_view text) const {
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  }
};

/// A pair in a directory that is closed to this process, and what lends it. Root looks at it as somebody else.
struct Closed {
  explicit Closed(const Rig& rig) : folder(rig.dir.file("closed")) {
    ::chmod(rig.dir.path().c_str(), 0755);
    std::filesystem::create_directory(folder);
    put("key", rig.mx.key);
    put("cert", rig.mx.certificate);
    map::lend_table_files([this](const std::string& path, bool in_table) -> Result<Fd> {
      ++(in_table ? lent_by_table : lent);
      if (refuses) return fail_errno("the helper", ETIMEDOUT);
      Opened now(*this);
      Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!file) return fail(map::MapError::unreadable, path, errno);
      return file;
    });
  }
  ~Closed() {
    open();
    map::lend_table_files({});
  }
  Closed(const Closed&) = delete;
  Closed& operator=(const Closed&) = delete;
  void shut() const {
    ::chmod(folder.c_str(), 0);
    if (::getuid() == 0) BOOST_REQUIRE(::seteuid(65534) == 0);
  }
  void open() const {
    if (::getuid() == 0) BOOST_REQUIRE(::seteuid(0) == 0);
    ::chmod(folder.c_str(), 0700);
  }
  struct Opened {
    explicit Opened(const Closed& c) : closed(c) { closed.open(); }
    ~Opened() { closed.shut(); }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;
    const Closed& closed;
  };
  /// Also while it is shut.
  void put(const std::string& name, std::string_view text) const {
    const bool was_shut = ::access(folder.c_str(), X_OK) != 0 || ::geteuid() != ::getuid();
    if (was_shut) open();
    std::ofstream(folder + "/" + name + ".new") << text;
    std::filesystem::rename(folder + "/" + name + ".new", folder + "/" + name);
    if (was_shut) shut();
  }

  std::string folder, cert = folder + "/cert", key = folder + "/key";
  bool refuses = false;
  int lent = 0, lent_by_table = 0;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(key_sources, Rig)

BOOST_AUTO_TEST_CASE(every_service_has_its_own) {
  const std::string other_cert = dir.write("cert2", other.certificate), other_key = dir.write("key2", other.key);
  const std::string chains = dir.write("chains", mx.key + mx.certificate + other.key + other.certificate);
  open("smtpd_tls_cert_file = " + cert + "\nsmtpd_tls_key_file = " + key + "\nsmtp_tls_chain_files = " + chains +
           "\nlmtp_tls_eccert_file = " + other_cert + "\nlmtp_tls_eckey_file = " + other_key + "\n",
       "smtp inet n - n - - smtpd\nsubmission inet n - n - - smtpd\n  -o smtpd_tls_eccert_file=" + other_cert +
           "\n  -o smtpd_tls_eckey_file=" + other_key +
           "\nclosed inet n - n - - smtpd\n  -o smtpd_tls_security_level=none -o smtpd_tls_cert_file=/nowhere\n"
           "smtp unix - - n - - smtp\nlmtp unix - - n - - lmtp\n");
  BOOST_TEST(sources->take_news().empty());
  const auto server = list(Use::server), client = list(Use::client);
  BOOST_TEST(server.size() == 2U);
  BOOST_TEST(server.contains(pair_name(cert, key)));
  BOOST_TEST(server.contains(pair_name(other_cert, other_key)));
  BOOST_TEST(client.size() == 3U);
  BOOST_TEST(client.contains(chain_name(chains, 1)));
  BOOST_TEST(client.contains(chain_name(chains, 2)));
  BOOST_TEST(client.contains(pair_name(other_cert, other_key)));
  for (const auto& [name, held] : server) BOOST_TEST(!held.certificates.contains("PRIVATE"));
  for (const auto& [name, held] : client) BOOST_TEST(!held.certificates.contains("PRIVATE"));
}

BOOST_AUTO_TEST_CASE(keys_and_certificates_in_neighbouring_files_belong_together) {
  const std::string other_key = dir.write("key2", other.key), other_cert = dir.write("cert2", other.certificate);
  const std::vector<std::string> files = {key, cert, other_key, other_cert};
  open("smtpd_tls_chain_files = " + join(files, ", ") + "\nsmtp_tls_chain_files = " + key + " " + cert +
           "\nlmtp_tls_chain_files = " + other_key + " " + other_cert + "\n",
       "smtp inet n - n - - smtpd\nsmtp unix - - n - - smtp\nlmtp unix - - n - - lmtp\n");
  BOOST_TEST(join(sources->take_news()) == "");
  const auto server = list(Use::server), client = list(Use::client);
  BOOST_TEST(server.size() == 2U);
  BOOST_TEST(server.at(chain_name(files, 1)).certificates == mx.certificate);
  BOOST_TEST(server.at(chain_name(files, 2)).certificates == other.certificate);
  BOOST_TEST(client.size() == 2U);
  BOOST_TEST(client.contains(chain_name(std::vector{key, cert}, 1)));
  BOOST_TEST(client.contains(chain_name(std::vector{other_key, other_cert}, 1)));
  // A renewal changes one file after the other: what was read before stays until both are there.
  const std::string first = server.at(chain_name(files, 1)).id;
  const Issued renewed = issue("mx.example");
  replace(key, renewed.key);
  BOOST_TEST(list(Use::server).at(chain_name(files, 1)).id == first);
  BOOST_TEST(list(Use::server).at(chain_name(files, 0)).error.contains("is not the key of the certificate in"));
  replace(cert, renewed.certificate);
  BOOST_TEST(list(Use::server).at(chain_name(files, 1)).certificates == renewed.certificate);
  BOOST_TEST(!list(Use::server).contains(chain_name(files, 0)));
}

BOOST_AUTO_TEST_CASE(of_files_with_a_chain_that_cannot_be_used_no_chain_is_taken) {
  const std::string other_key = dir.write("key2", other.key), other_cert = dir.write("cert2", mx.certificate);
  const std::vector<std::string> files = {key, cert, other_key, other_cert};
  open("smtpd_tls_chain_files = " + join(files, ", ") + "\n", "smtp inet n - n - - smtpd\n");
  const auto held = list(Use::server);
  BOOST_TEST(held.size() == 1U);
  BOOST_TEST(held.contains(chain_name(files, 0)));
}

BOOST_AUTO_TEST_CASE(a_renewed_pair_is_read_and_a_broken_one_is_not_used) {
  open_pair();
  const std::string name = pair_name(cert, key), first = list(Use::server).at(name).id;
  replace(key, other.key);
  auto held = list(Use::server).at(name);
  BOOST_TEST(held.id == first);
  BOOST_TEST(held.error == key + " is not the key of the certificate in " + cert);
  BOOST_TEST(sources->take_news().size() == 1U);
  BOOST_TEST(list(Use::server).at(name).error == held.error);
  BOOST_TEST(sources->take_news().empty());  // reported once
  replace(cert, "broken\n");
  BOOST_TEST(list(Use::server).at(name).error == cert + ": no certificate in it");
  BOOST_TEST(sources->take_news().size() == 1U);
  replace(cert, other.certificate);
  held = list(Use::server).at(name);
  BOOST_TEST(held.error == "");
  BOOST_TEST(held.id != first);
  // Handshakes under way still have the key that they began with.
  const auto done =
      std::get<Done>(vault.answer(Use::server, Sign{.request = 1,
                                                    .key = first,
                                                    .scheme = Scheme::ecdsa_sha256,
                                                    .data = std::string_view("0123456789abcdef0123456789abcdef")}));
  BOOST_TEST((done.refusal == Refusal::none));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_had_is_listed_with_the_reason) {
  const std::string none = dir.file("none");
  open("smtpd_tls_cert_file = " + none + "\nsmtpd_tls_chain_files = " + cert + "\n",
       "smtp inet n - n - - smtpd\nother inet n - n - - smtpd\n  -o smtpd_tls_chain_files=\n");
  const auto server = list(Use::server);
  BOOST_TEST(server.size() == 2U);
  BOOST_TEST(server.at(none).id == "");
  BOOST_TEST(server.at(none).error.contains(none + ": cannot be read: No such file"));
  BOOST_TEST(server.at(chain_name(cert, 0)).error == cert + ": no usable private key");
  BOOST_TEST(sources->take_news().size() == 2U);
  BOOST_TEST(sources->errors() == 2U);
}

BOOST_AUTO_TEST_CASE(what_the_program_may_no_longer_look_at_is_no_change) {
  open_pair();
  ::unlink(key.c_str());
  sources->watch();
  BOOST_TEST(list(Use::server).at(pair_name(cert, key)).error == "");
}

BOOST_AUTO_TEST_CASE(files_that_only_root_can_look_at_are_lent_and_renewed) {
  Closed closed(*this);
  open("smtpd_tls_cert_file = " + closed.cert + "\nsmtpd_tls_key_file = " + closed.key + "\n",
       "smtp inet n - n - - smtpd\n");
  const std::string name = pair_name(closed.cert, closed.key), first = list(Use::server).at(name).id;
  closed.shut();
  sources->watch();
  BOOST_TEST(sources->closed());
  BOOST_TEST(!sources->look_closely(vault));
  BOOST_TEST(sources->take_renewed().empty());
  // Half a renewal.
  closed.put("key", other.key);
  BOOST_TEST(!sources->look_closely(vault));
  BOOST_TEST(sources->take_news().size() == 1U);
  BOOST_TEST(!sources->look_closely(vault));
  BOOST_TEST(sources->take_news().empty());
  BOOST_TEST(list(Use::server).at(name).id == first);
  // What cannot be had for a moment is no change.
  closed.refuses = true;
  closed.put("cert", other.certificate);
  BOOST_TEST(!sources->look_closely(vault));
  closed.refuses = false;
  BOOST_TEST(sources->look_closely(vault));
  BOOST_TEST((sources->take_renewed() == std::vector{closed.cert}));
  BOOST_TEST(list(Use::server).at(name).error == "");
  BOOST_TEST(list(Use::server).at(name).certificates == other.certificate);
  BOOST_TEST(closed.lent_by_table == 0);
}

BOOST_AUTO_TEST_CASE(files_of_names_that_only_root_can_look_at_are_lent_now_and_then) {
  Closed closed(*this);
  const std::string maps = "texthash:" + dir.write("sni", "a.example " + closed.key + ", " + closed.cert + "\n");
  ::chmod(dir.file("sni").c_str(), 0644);
  open("smtpd_tls_cert_file = " + cert + "\nsmtpd_tls_key_file = " + key + "\ntls_server_sni_maps = " + maps + "\n",
       "smtp inet n - n - - smtpd\n");
  closed.shut();
  const auto find = [&] {
    return sources->find(Find{.request = 1, .maps = maps, .name = "a.example"}).keys.at(0).certificates;
  };
  BOOST_TEST(find() == mx.certificate);
  const int lent = closed.lent_by_table;
  closed.put("key", other.key);
  closed.put("cert", other.certificate);
  BOOST_TEST(find() == mx.certificate);
  BOOST_TEST(lent == 2);
  BOOST_TEST(closed.lent_by_table == lent);
  clock.advance(Sources::kRecent);
  BOOST_TEST(find() == other.certificate);
  // Half a renewal.
  closed.put("key", mx.key);
  clock.advance(Sources::kRecent);
  BOOST_TEST(find() == other.certificate);
  BOOST_TEST(sources->take_news().size() == 1U);
  BOOST_TEST(closed.lent == 0);
}

BOOST_AUTO_TEST_CASE(chains_are_found_by_name) {
  const std::string file = dir.write("file", other.key + other.certificate);
  const std::string table = dir.write("sni", "a.example " + base64_encode(mx.key + mx.certificate) +
                                                 "\n.wild.example " + file + "\nbad.example @@@\ngone.example /no\n");
  const std::string maps = "texthash:" + table;
  open("smtpd_tls_cert_file = " + cert + "\nsmtpd_tls_key_file = " + key + "\ntls_server_sni_maps = " + maps + "\n",
       "smtp inet n - n - - smtpd\n");
  const auto find = [&](std::string_view name, const std::string& in) {
    return sources->find(Find{.request = 7, .maps = in, .name = name});
  };
  const auto one = find("A.Example", maps);
  BOOST_TEST(one.request == 7U);
  BOOST_REQUIRE(one.keys.size() == 1U);
  BOOST_TEST(one.keys[0].certificates == mx.certificate);
  BOOST_TEST(find("b.c.wild.example", maps).keys.at(0).certificates == other.certificate);
  BOOST_TEST(find("else.example", maps).keys.empty());
  BOOST_TEST(find("a.example", "texthash:" + cert).keys.empty());  // tables that the settings do not name
  BOOST_TEST(find("bad.example", maps).keys.at(0).error.contains("neither base 64"));
  BOOST_TEST(find("gone.example", maps).keys.at(0).error.contains("No such file"));
  // They sign, and are in no list.
  const auto done = std::get<Done>(
      sources->by_name().answer(Use::server, Sign{.request = 1,
                                                  .key = one.keys[0].id,
                                                  .scheme = Scheme::ecdsa_sha256,
                                                  .data = std::string_view("0123456789abcdef0123456789abcdef")}));
  BOOST_TEST((done.refusal == Refusal::none));
  BOOST_TEST(list(Use::server).size() == 1U);
  // A changed file is read again.
  replace(file, mx.key + mx.certificate);
  BOOST_TEST(find("b.c.wild.example", maps).keys.at(0).certificates == mx.certificate);
}

BOOST_AUTO_TEST_CASE(dkim_keys_are_those_of_the_table) {
  const std::string one = dir.write("one", dkim::PrivateKey::generate(dkim::Algorithm::ed25519_sha256)->pem());
  ::chmod(one.c_str(), 0600);
  const std::string table = dir.write("table", "a example.org:s1:" + one + "\nb example.org:s2:/no\n");
  const std::string senders = dir.write("senders", "*@example.org a\n");
  const std::string settings =
      "dkim_signing = yes\ndkim_key_table = " + table + "\ndkim_signing_table = refile:" + senders + "\n";
  const std::string services = "smtp inet n - n - - smtpd\npickup unix n - n - 1 pickup\n";
  open(settings, "628 inet n - n - - qmqpd\n");
  BOOST_TEST(list(Use::dkim).size() == 2U);
  open(settings, services);
  auto held = list(Use::dkim);
  BOOST_TEST(held.size() == 2U);
  BOOST_TEST(held.at(dkim_name(table, "a", "example.org", "s1")).id != "");
  const auto& bad = held.at(dkim_name(table, "b", "example.org", "s2"));
  BOOST_TEST(bad.id == "");
  BOOST_TEST(bad.error.contains(table + ":2"));
  BOOST_TEST(sources->take_news().size() == 1U);
  // A line goes, another one comes.
  clock.advance(seconds(2));
  replace(table, "c example.org:s3:" + one + "\n");
  held = list(Use::dkim);
  BOOST_TEST(held.size() == 1U);
  BOOST_TEST(held.contains(dkim_name(table, "c", "example.org", "s3")));
  // smtpd seals by the name of a key, with no table of senders; others have nothing to seal.
  const std::string seals = "arc_seal_key = c\ndkim_key_table = " + table + "\n";
  vault = Vault();
  open(seals, services);
  BOOST_TEST(list(Use::dkim).size() == 1U);
  BOOST_TEST(sources->take_news().empty());
  vault = Vault();
  open(seals, "pickup unix n - n - 1 pickup\n");
  BOOST_TEST(list(Use::dkim).empty());
  open(settings + seals, services);
  BOOST_TEST(list(Use::dkim).size() == 1U);
  // An opendkim.conf may have one key that signs, and a table with the one that seals.
  const std::string conf =
      dir.write("conf", "KeyTable " + table + "\nDomain example.net\nSelector s9\nKeyFile " + one + "\n");
  const std::string by_conf = "dkim_opendkim_conf = " + conf + "\narc_seal_key = c\n";
  vault = Vault();
  open("dkim_signing = yes\n" + by_conf, "smtp inet n - n - - smtpd\n");
  held = list(Use::dkim);
  BOOST_TEST(held.size() == 2U);
  BOOST_TEST(held.contains(dkim_name(table, "c", "example.org", "s3")));
  BOOST_TEST(held.contains(dkim_name(conf, "example.net", "example.net", "s9")));
  vault = Vault();
  open("dkim_signing = no\n" + by_conf, services);
  BOOST_TEST(list(Use::dkim).size() == 1U);
  // With % it cannot be listed: the signer reads it.
  open(settings + seals, services);
  clock.advance(seconds(2));
  replace(table, "c %:s3:" + one + "\n");
  held = list(Use::dkim);
  BOOST_TEST(held.contains(dkim_name(table, "", "", "")));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::keys
