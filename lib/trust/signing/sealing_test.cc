#include "lib/trust/signing/sealing.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"
#include "lib/config/config.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/trust/signing/message_signature.h"

using namespace pen;
using namespace pen::signing;

namespace {

struct SealingRig {
  testing::ScratchDir dir;
  testing::ManualClock clock;
  std::shared_ptr<const dkim::PrivateKey> key = dkim::PrivateKey::generate(dkim::Algorithm::ed25519_sha256);
  std::string key_file = dir.write("a.private", key->pem());

  SealingRig() {
    BOOST_REQUIRE(::chmod(key_file.c_str(), 0600) == 0);
    dir.write("keys", "k example.org:s:" + key_file + "\nevery %:s:" + key_file +
                          "\ngone example.org:s:" + dir.file("gone") + "\n");
  }
  static config::Settings settings(const std::string& main_cf) {
    config::Surroundings here;
    here.hostname = "mx.example.org";
    return config::Config::parse({.directory = "/", .main_cf = main_cf, .master_cf = {}, .overrides = {}}, here)
        .settings();
  }
  /// "domain/selector", or "!error".
  std::string opened(const std::string& main_cf) const {
    const auto sealing = Sealing::open(settings(main_cf), clock);
    if (!sealing) return "!" + sealing.error().message();
    if (!*sealing) return "none";
    const auto with = (*sealing)->key();
    if (!with) {
      BOOST_TEST((*sealing)->warning() == with.error().message() + ": mail that is to be sealed is put off");
      return "!" + with.error().message();
    }
    BOOST_TEST((*sealing)->warning().empty());
    return with->domain + "/" + with->selector;
  }
  std::string of_table(const std::string& name) const {
    return opened("dkim_key_table = " + dir.file("keys") + "\narc_seal_key = " + name + "\n");
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(sealing)

BOOST_AUTO_TEST_CASE(a_name_of_the_key_table_seals_without_a_table_of_senders) {
  const SealingRig rig;
  BOOST_TEST(rig.opened("dkim_key_table = " + rig.dir.file("keys") + "\n") == "none");
  BOOST_TEST(rig.of_table("k") == "example.org/s");
  BOOST_TEST(rig.of_table("K") == "example.org/s");
  BOOST_TEST(rig.opened("dkim_key_table = inline:{ { k = example.org:t:" + rig.key_file + " } }\narc_seal_key = k\n") ==
             "example.org/t");
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_said) {
  const SealingRig rig;
  BOOST_TEST(rig.opened("arc_seal_key = k\n").contains("it needs dkim_key_table or dkim_opendkim_conf"));
  BOOST_TEST(rig.of_table("other").contains("there is no such key in the key table"));
  BOOST_TEST(rig.of_table("gone").contains(rig.dir.file("gone")));
  BOOST_TEST(rig.of_table("every").starts_with("!arc_seal_key"));
}

BOOST_AUTO_TEST_CASE(an_opendkim_conf_names_keys_too) {
  const SealingRig rig;
  const auto conf = [&](const std::string& text) {
    return rig.opened("dkim_opendkim_conf = " + rig.dir.write("opendkim.conf", text) + "\ndkim_signing = no\n" +
                      "arc_seal_key = example.org\n");
  };
  const std::string one = "Domain example.org\nSelector sel\nKeyFile " + rig.key_file + "\n";
  BOOST_TEST(conf(one) == "example.org/sel");
  // Mode tells whether mail is signed; a seal is asked for here.
  BOOST_TEST(conf("Mode v\n" + one) == "example.org/sel");
  BOOST_TEST(conf("Domain example.net\nSelector sel\nKeyFile " + rig.key_file + "\n").contains("no such key"));
  rig.dir.write("named", "example.org example.org:kt:" + rig.key_file + "\n");
  BOOST_TEST(conf("KeyTable " + rig.dir.file("named") + "\n") == "example.org/kt");
  BOOST_TEST(conf("KeyTable " + rig.dir.file("named") + "\nSigningTable " + rig.dir.file("gone") + "\n") ==
             "example.org/kt");
}

BOOST_AUTO_TEST_CASE(mail_that_is_signed_is_not_sealed) {
  const SealingRig rig;
  rig.dir.write("senders", "*@example.org k\n");
  const auto s =
      SealingRig::settings("dkim_signing = yes\ndkim_key_table = " + rig.dir.file("keys") +
                           "\ndkim_signing_table = refile:" + rig.dir.file("senders") + "\narc_seal_key = k\n");
  const auto signing = Signing::open(s, rig.clock);
  const auto sealing = Sealing::open(s, rig.clock);
  BOOST_TEST_REQUIRE((signing && sealing));
  const auto made = [&](const std::string& content, bool may_be_signed, const std::string& chain = {}) {
    MessageSignature signature(may_be_signed ? *signing : nullptr, rig.clock.wall_now());
    signature.seal({.sealing = *sealing,
                    .results = " mx; none",
                    .verdict = chain.empty() ? dkim::ArcVerdict::none : dkim::ArcVerdict::fail,
                    .chain = chain});
    const auto room = signature.begin(content);
    auto fields = signature.finish();
    BOOST_TEST_REQUIRE(fields.has_value());
    BOOST_TEST(fields->size() == room);
    if (fields->empty()) return std::string(signature.unsealed());
    return fields->substr(0, fields->find(':'));
  };
  const std::string ours = "From: ada@example.org\r\n\r\nhello\r\n", theirs = "From: b@x.example\r\n\r\nhello\r\n";
  BOOST_TEST(made(ours, true) == "DKIM-Signature");
  BOOST_TEST(made(ours, false) == "ARC-Seal");
  BOOST_TEST(made(theirs, true) == "ARC-Seal");
  BOOST_TEST(made("Subject: nobody\r\n\r\n", true) == "ARC-Seal");
  // A filter of this host, or somebody before it, has made it another chain.
  BOOST_TEST(made("ARC-Seal: x\r\n" + theirs, false) == "its chain has changed since it was checked");
  BOOST_TEST(made("ARC-Seal: x\r\n" + theirs, false, "arc-seal:x\r\n") == "ARC-Seal");
}

BOOST_AUTO_TEST_SUITE_END()
