// Which tables of keys an instance signs and seals with, and what is wrong with them.
#include "tools/signers.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"
#include "lib/trust/dkim/key.h"

BOOST_AUTO_TEST_SUITE(signers)

using namespace pen;
using namespace pen::tools;

namespace {

struct Instance {
  testing::ScratchDir dir;
  std::string key = dir.write("key", dkim::PrivateKey::generate(dkim::Algorithm::ed25519_sha256)->pem());
  std::string keys = dir.write("keys", "k example.org:s:" + key + "\nl example.org:t:" + key + "\n");
  std::string senders = dir.write("senders", "*@example.org k\n");
  std::string table = "dkim_key_table = " + keys + "\n";
  std::string signs = table + "dkim_signing = yes\ndkim_signing_table = refile:" + senders + "\n";

  Instance() { BOOST_REQUIRE(::chmod(key.c_str(), 0600) == 0); }
  static Signers of(const std::string& main_cf, const std::string& master_cf = {}) {
    return signers_of(config::Config::parse(
        {.directory = "/etc/penstock", .main_cf = main_cf, .master_cf = master_cf, .overrides = {}},
        {.hostname = "mx.example.org", .interfaces = {}, .read_file = {}}));
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_key_that_only_a_service_seals_with_is_found) {
  const Instance mx;
  BOOST_TEST(!Instance::of(mx.table).wanted);
  BOOST_TEST(Instance::of(mx.table).tables.empty());
  for (const auto& [main_cf, master_cf] :
       {std::pair<std::string, std::string>{mx.table + "arc_seal_key = K\n", ""},
        {mx.table, "25 inet n - n - - smtpd -o arc_seal_key=K\n"},
        {mx.table + "of_mx = K\n", "25 inet n - n - - smtpd -o arc_seal_key=$of_mx\n"}}) {
    const Signers found = Instance::of(main_cf, master_cf);
    BOOST_TEST(found.wanted);
    BOOST_TEST(found.faults.empty());
    BOOST_TEST_REQUIRE(found.tables.size() == 1U);
    BOOST_TEST(found.tables[0].signing->key_table() == mx.keys);
    BOOST_TEST(found.tables[0].seals("k"));
    BOOST_TEST(!found.tables[0].seals("l"));
  }
  // pickup seals nothing.
  BOOST_TEST(!Instance::of(mx.table, "pickup unix n - n 60 1 pickup -o arc_seal_key=k\n").wanted);
}

BOOST_AUTO_TEST_CASE(a_table_that_signs_and_seals_is_one_and_has_the_dates) {
  const Instance mx;
  const std::string dates = "dkim_key_dates = " + mx.dir.write("dates", "") + "\n";
  const Signers found =
      Instance::of(mx.table + "arc_seal_key = k\n",
                   "25 inet n - n - - smtpd -o dkim_signing=yes -o dkim_signing_table=refile:" + mx.senders +
                       " -o dkim_key_dates=" + mx.dir.file("dates") + "\n");
  BOOST_TEST_REQUIRE(found.tables.size() == 1U);
  BOOST_TEST(found.tables[0].signing->rotation() != nullptr);
  BOOST_TEST(found.tables[0].seals("k"));
  BOOST_TEST(Instance::of(mx.signs + dates + "arc_seal_key = k\n").tables[0].signing->rotation() != nullptr);
  // An opendkim.conf may have two.
  const std::string conf =
      mx.dir.write("conf", "KeyTable " + mx.keys + "\nDomain example.net\nSelector x\nKeyFile " + mx.key + "\n");
  const Signers two = Instance::of("dkim_signing = yes\ndkim_opendkim_conf = " + conf + "\narc_seal_key = k\n");
  BOOST_TEST(two.faults.empty());
  BOOST_TEST(two.tables.size() == 2U);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_said_once_and_of_which_service) {
  const Instance mx;
  const std::string lost = "dkim_signing_table = refile:" + mx.dir.file("lost") + "\n";
  // The keys that seal can be had: that does not hide the table of senders.
  Signers found = Instance::of(mx.signs + lost + "arc_seal_key = k\n", "25 inet n - n - - smtpd -o x=y\n");
  BOOST_TEST_REQUIRE(found.faults.size() == 1U);
  BOOST_TEST(found.faults[0].contains(mx.dir.file("lost")));
  BOOST_TEST(found.tables.size() == 1U);
  found = Instance::of(mx.table, "25 inet n - n - - smtpd -o arc_seal_key=gone\n");
  BOOST_TEST_REQUIRE(found.faults.size() == 1U);
  BOOST_TEST(found.faults[0].starts_with("25/inet: arc_seal_key: " + mx.keys + ": gone: "), found.faults[0]);
}

BOOST_AUTO_TEST_SUITE_END()
