// A change of keys in virtual time: what signs before, during and after it, and what is said.
#include "lib/trust/signing/rotation.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"
#include "lib/base/date.h"
#include "lib/config/config.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"
#include "lib/trust/signing/signing.h"

BOOST_AUTO_TEST_SUITE(rotation)

namespace {

using namespace pen;
using namespace pen::signing;
using std::chrono::hours;

struct Fixture {
  Fixture() {
    clock.step_wall(seconds(600));  // of no whole day
    start = clock.wall_now();
    for (const auto& name : {"old", "new"}) {
      const std::string file = dir.write(std::string(name) + ".private", key(name)->pem());
      BOOST_REQUIRE(::chmod(file.c_str(), 0600) == 0);
    }
    dir.write("keys", "old example.org:old:" + dir.file("old.private") +
                          "\nnew example.org:new:" + dir.file("new.private") + "\n");
    dir.write("senders", "*@example.org old,new\n");
    dates("");
    config::Surroundings here;
    here.hostname = "mx.example.org";
    const std::string main_cf = "dkim_signing = yes\ndkim_key_table = " + dir.file("keys") +
                                "\ndkim_signing_table = refile:" + dir.file("senders") +
                                "\ndkim_key_dates = " + dir.file("dates") + "\n";
    auto opened = Signing::open(
        config::Config::parse({.directory = "/", .main_cf = main_cf, .master_cf = {}, .overrides = {}}, here)
            .settings(),
        clock);
    BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message()));
    signing = *opened;
    loop.spawn(
        "watch",
        watch_records(
            &loop, signing, [this](std::string name) { return look(this, std::move(name)); },
            [this](bool warning, const std::string& line) { said.push_back((warning ? "! " : "") + line); }, &stop));
  }
  std::shared_ptr<const dkim::PrivateKey> key(const std::string& name) {
    auto& made = made_[name];
    if (!made) made = dkim::PrivateKey::generate(dkim::Algorithm::ed25519_sha256);
    return made;
  }
  /// The change is in two hours.
  void dates(const std::string& text) { dir.write("dates", text); }
  void plan() {
    const std::string at = utc_text(start + hours(2));
    dates("old - " + at + "\nnew " + at + " -\n");
    pass(seconds(2));
  }
  void publish(const std::string& name) {
    dkim::KeyAnswer& answer = dns["new._domainkey.example.org"];
    answer.state = dkim::KeyAnswer::State::found;
    answer.texts = {"v=DKIM1; k=ed25519; p=" + base64_encode(key(name)->public_bytes())};
  }
  static async::Task<dkim::KeyAnswer> look(Fixture* f, std::string name) {
    ++f->looked;
    const auto at = f->dns.find(name);
    if (at == f->dns.end()) co_return dkim::KeyAnswer{dkim::KeyAnswer::State::missing, {}};
    co_return at->second;
  }
  void pass(std::chrono::nanoseconds time) {
    for (std::chrono::nanoseconds step = seconds(30); time.count() > 0; time -= step) {
      clock.advance(std::min(step, time));
      for (int i = 0; i < 5; ++i) loop.run_once();
    }
  }
  std::string signer() {
    const auto keys = signing->keys_for("jo@example.org");
    if (!keys) return "!" + keys.error().message();
    std::string out;
    for (const auto& k : *keys) out += (out.empty() ? "" : " ") + k.selector;
    return out;
  }

  testing::ScratchDir dir;
  testing::ManualClock clock;
  async::Loop loop{clock};
  async::Cancel stop;
  WallTime start;
  std::shared_ptr<const Signing> signing;
  std::map<std::string, std::shared_ptr<const dkim::PrivateKey>> made_;
  std::map<std::string, dkim::KeyAnswer> dns;
  std::vector<std::string> said;
  int looked = 0;
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(without_dates_all_keys_sign) {
  BOOST_TEST(signer() == "old new");
  pass(hours(1));
  BOOST_TEST(looked == 0);
}

BOOST_AUTO_TEST_CASE(the_new_key_signs_from_its_date_on) {
  publish("new");
  plan();
  BOOST_TEST(signer() == "old");
  pass(hours(1));
  BOOST_TEST(signer() == "old");
  BOOST_TEST_REQUIRE(said.size() == 1u);
  BOOST_TEST(said[0].contains("DNS has the record of key new, which signs from"));
  pass(hours(1) - seconds(3));
  BOOST_TEST(signer() == "old");
  pass(seconds(3));
  BOOST_TEST(signer() == "new");
  const int so_far = looked;
  pass(hours(100));
  BOOST_TEST(signer() == "new");
  BOOST_TEST(looked == so_far);  // what was seen is not looked for again
  BOOST_TEST(said.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_key_without_its_record_waits_and_the_old_one_goes_on) {
  plan();
  pass(hours(5));
  BOOST_TEST(signer() == "old");
  BOOST_TEST_REQUIRE(said.size() == 1u);
  BOOST_TEST(said[0].starts_with("! dkim: key new should sign since "));
  BOOST_TEST(said[0].contains("DNS has no record new._domainkey.example.org: the key before it goes on"));
  pass(hours(30));
  BOOST_TEST(signer() == "old");
  BOOST_TEST(said.size() == 2u);  // once a day
  publish("old");                 // the wrong one
  pass(hours(24));
  BOOST_TEST(signer() == "old");
  BOOST_TEST(said.back().contains("DNS has another key at"));
  publish("new");
  pass(seconds(90));
  BOOST_TEST(signer() == "new");
  BOOST_TEST(said.back().contains("DNS has the record of key new, which signs since"));
}

BOOST_AUTO_TEST_CASE(a_silent_dns_changes_nothing) {
  dns["new._domainkey.example.org"].state = dkim::KeyAnswer::State::unknown;
  plan();
  pass(hours(3));
  BOOST_TEST(signer() == "old");
  BOOST_TEST(said.back().contains("DNS does not answer"));
  pass(hours(40));  // a silence of two days is no record either
  BOOST_TEST(signer() == "old");
  publish("new");
  pass(seconds(90));
  BOOST_TEST(signer() == "new");
}

BOOST_AUTO_TEST_CASE(a_key_that_has_signed_for_long_goes_on_when_dns_is_silent_at_a_start) {
  dns["new._domainkey.example.org"].state = dkim::KeyAnswer::State::unknown;
  dates("old - " + utc_text(start - hours(100)) + "\nnew " + utc_text(start - hours(100)) + " -\n");
  pass(seconds(90));
  BOOST_TEST(looked > 0);
  BOOST_TEST(signer() == "new");
}

BOOST_AUTO_TEST_CASE(the_only_key_signs_though_its_record_is_missing) {
  dir.write("senders", "*@example.org new\n");
  dates("new " + utc_text(start - hours(100)) + " -\n");
  pass(seconds(90));
  BOOST_TEST(looked > 0);
  BOOST_TEST(signer() == "new");
  BOOST_TEST_REQUIRE(!said.empty());
  BOOST_TEST(said[0].contains("DNS has no record"));
  dates("new " + utc_text(start + hours(100)) + " -\n");
  pass(seconds(90));
  BOOST_TEST(signer() == "new");
}

BOOST_AUTO_TEST_CASE(dates_that_make_no_sense_hold_mail_up) {
  dates("old soon -\n");
  pass(seconds(2));
  BOOST_TEST(signer().starts_with("!"));
  BOOST_TEST(signer().contains("dates:1"));
  plan();
  BOOST_TEST(signer() == "old");
}

BOOST_AUTO_TEST_SUITE_END()
