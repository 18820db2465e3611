#include "lib/trust/dkim/arc_seal.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"
#include "lib/base/text.h"

using namespace pen;
using namespace pen::dkim;

namespace {

const WallTime kSealedAt{seconds(1700000000)};

/// A message that goes from sealer to sealer; each judges what it got, and seals it by the code under test.
struct Relay {
  std::string header =
      "Received: from a\r\nFrom: <a@x.example>\r\nTo: list@y.example\r\nSubject: one\r\n two\r\n"
      "DKIM-Signature: v=1; a=b\r\n";
  std::string body = "hello  world \r\n\r\n\r\n";
  std::map<std::string, KeyAnswer> dns;
  SigningForm form = sealing_form({.canonicalization = {Form::simple, Form::simple},
                                   .fields = {"From", "To", "Subject", "Authentication-Results", "ARC-Seal"},
                                   .oversigned = {"From"},
                                   .lifetime = seconds(60)});

  ArcOutcome judged() const {
    ArcChain chain(split_fields(header, 100000), kSealedAt);
    chain.body(body);
    std::map<std::string, KeyAnswer> answers;
    for (const auto& name : chain.wanted())
      if (const auto found = dns.find(name); found != dns.end()) answers.insert(*found);
    ArcOutcome out = chain.result(answers);
    out.seen = {};  // into the header of a moment
    return out;
  }
  std::string word() const { return std::string(verdict_word(judged().verdict)); }
  std::string obstacle() const {
    return std::string(ArcPlace::of(split_fields(header, 100000)).obstacle(judged().verdict));
  }
  /// Adds a set. by_steps: as with a key that is elsewhere.
  void seal(const std::string& domain, bool rsa = false, bool by_steps = false) {
    const auto key = PrivateKey::generate(rsa ? Algorithm::rsa_sha256 : Algorithm::ed25519_sha256, 1024);
    dns["s._domainkey." + domain] = {
        KeyAnswer::State::found,
        {std::string("k=") + (rsa ? "rsa" : "ed25519") + "; p=" + base64_encode(key->public_bytes())}};
    const ArcVerdict verdict = judged().verdict;
    ArcSealer sealer(form, {.key = key, .domain = domain, .selector = "s"}, kSealedAt);
    sealer.header(header, " mx." + domain + ";\r\n\tarc=" + std::string(verdict_word(verdict)), verdict);
    for (const char c : body) sealer.body(std::string_view(&c, 1));
    std::string set;
    if (by_steps) {
      set = sealer.finish(key->sign_digest(sealer.seal_digest(key->sign_digest(sealer.message_digest()))));
    } else {
      set = sealer.finish();
    }
    BOOST_TEST(set.size() == sealer.room());
    for (std::string_view rest = set; !rest.empty();) {
      const auto end = rest.find("\r\n");
      BOOST_TEST(end <= 78U);
      rest.remove_prefix(end + 2);
    }
    header.insert(0, set);
  }
  std::string newest(const std::string& name) const {
    const auto at = header.find(name + ":");
    BOOST_TEST_REQUIRE(at != std::string::npos);
    std::size_t end = header.find("\r\n", at);
    while (header.substr(end + 2, 1) == "\t") end = header.find("\r\n", end + 2);
    return header.substr(at, end - at);
  }
  void replace(const std::string& what, const std::string& by) {
    const auto at = header.find(what);
    BOOST_TEST_REQUIRE(at != std::string::npos, what);
    header.replace(at, what.size(), by);
  }
};

bool has(std::string_view text, std::string_view part) { return text.contains(part); }

}  // namespace

BOOST_AUTO_TEST_SUITE(dkim_arc_seal)

BOOST_AUTO_TEST_CASE(chains_of_one_two_and_three_seals_hold) {
  Relay r;
  r.seal("one.example");
  BOOST_TEST(has(r.newest("ARC-Seal"), "i=1;"));
  BOOST_TEST(has(r.newest("ARC-Seal"), "cv=none;"));
  BOOST_TEST(r.word() == "pass", r.judged().reason);
  r.seal("two.example", true);
  BOOST_TEST(has(r.newest("ARC-Seal"), "i=2; a=rsa-sha256;"));
  BOOST_TEST(has(r.newest("ARC-Seal"), "cv=pass;"));
  BOOST_TEST(r.word() == "pass", r.judged().reason);
  // What lists do: the second sealer's signature of the message no longer holds, and nobody asks for it.
  r.body += "-- \r\nthe list\r\n";
  BOOST_TEST(r.word() == "fail");
  r.body.resize(r.body.size() - 15);
  r.seal("three.example");
  BOOST_TEST(r.word() == "pass", r.judged().reason);
  BOOST_TEST(r.judged().sealer == "three.example");
  // Fields that later hosts add are not covered.
  r.header.insert(0, "Received: by b\r\nAuthentication-Results: mx; none\r\n");
  BOOST_TEST(r.word() == "pass");
  r.header.insert(0, "From: <b@x.example>\r\n");
  BOOST_TEST(r.word() == "fail");
}

BOOST_AUTO_TEST_CASE(the_message_signature_has_the_form_that_the_rfc_asks_for) {
  Relay r;
  r.seal("one.example");
  std::string message = r.newest("ARC-Message-Signature");
  for (auto at = message.find("\r\n\t"); at != std::string::npos; at = message.find("\r\n\t")) message.erase(at, 3);
  BOOST_TEST(has(message, "ARC-Message-Signature: i=1; a=ed25519-sha256; c=relaxed/relaxed;d=one.example;"));
  BOOST_TEST(has(message, "h=From:From:To:Subject:DKIM-Signature;"), message);
  for (const auto* part : {"v=", "x=", "ARC-Seal:", "Authentication-Results"})
    BOOST_TEST(!has(message.substr(5), part), message);
  const std::string results = r.newest("ARC-Authentication-Results");
  BOOST_TEST(results == "ARC-Authentication-Results: i=1; mx.one.example;\r\n\tarc=none");
  // In the order in which fields are put in front: the seal is above what it covers.
  BOOST_TEST(r.header.starts_with("ARC-Seal:"));
  BOOST_TEST(r.header.find("ARC-Message") < r.header.find("ARC-Auth"));
}

BOOST_AUTO_TEST_CASE(a_key_that_is_elsewhere_signs_twice) {
  Relay r;
  r.seal("one.example", true, true);
  BOOST_TEST(has(r.newest("ARC-Seal"), "i=1;"));
  BOOST_TEST(r.word() == "pass", r.judged().reason);
  r.seal("two.example", false, true);
  BOOST_TEST(r.word() == "pass", r.judged().reason);
}

BOOST_AUTO_TEST_CASE(a_broken_chain_is_said_to_be_broken_and_is_not_sealed_again) {
  for (const auto* lost : {"Subject: one", "ARC-Authentication-Results: i=1; ", "cv=pass;"}) {
    Relay r;
    r.seal("one.example");
    r.seal("two.example");
    r.replace(lost, std::string(lost).insert(std::string(lost).size() - 2, "x"));
    BOOST_TEST(r.word() == "fail", lost);
    BOOST_TEST(r.obstacle().empty());
    r.seal("three.example");
    BOOST_TEST(has(r.newest("ARC-Seal"), "i=3;"));
    BOOST_TEST(has(r.newest("ARC-Seal"), "cv=fail;"));
    BOOST_TEST(r.word() == "fail");
    BOOST_TEST(r.obstacle() == "the last seal says that the chain is broken");
  }
}

BOOST_AUTO_TEST_CASE(the_seal_of_a_broken_chain_covers_its_own_set_alone) {
  Relay r;
  r.seal("one.example");
  r.replace("Subject: one", "Subject: two");
  r.seal("two.example");
  const auto key = KeyRecord::parse(r.dns["s._domainkey.two.example"].texts.front());
  BOOST_TEST_REQUIRE(key.has_value());
  std::string covered;
  for (const auto* name : {"ARC-Authentication-Results", "ARC-Message-Signature"}) {
    append_canonical(Form::relaxed, r.newest(name), covered);
    covered += "\r\n";
  }
  const std::string seal = r.newest("ARC-Seal");
  append_canonical(Form::relaxed, without_signature(seal), covered);
  std::string digits = seal.substr(seal.find("\tb=") + 3);
  std::erase_if(digits, [](char c) { return c == '\r' || c == '\n' || c == '\t'; });
  const auto signature = base64_decode(digits);
  BOOST_TEST_REQUIRE(signature.has_value());
  BOOST_TEST(PublicKey::of(*key)->verifies(covered, *signature));
}

BOOST_AUTO_TEST_CASE(fifty_sets_are_the_most) {
  Relay r;
  for (std::size_t i = 1; i <= ArcChain::kMostSets; ++i) {
    BOOST_TEST(r.obstacle().empty());
    r.seal("d" + std::to_string(i) + ".example");
  }
  BOOST_TEST(has(r.newest("ARC-Seal"), "i=50;"));
  BOOST_TEST(r.word() == "pass", r.judged().reason);
  BOOST_TEST(r.obstacle() == "the chain is as long as it may be");
}

BOOST_AUTO_TEST_CASE(what_strangers_write_finds_a_place_or_none) {
  const auto place = [](std::string_view header) { return ArcPlace::of(split_fields(header, 1000)); };
  BOOST_TEST(place("From: a\r\n").text.empty());
  BOOST_TEST(place("From: a\r\n").sets.empty());
  // Fields that have no number count as a chain, for they break it.
  BOOST_TEST(place("ARC-Seal: nonsense\r\n").sets.empty());
  BOOST_TEST(place("ARC-Seal: nonsense\r\n").text == "arc-seal:nonsense\r\n");
  BOOST_TEST(place("ARC-Seal: i=99; cv=pass\r\nARC-Seal: i=0\r\nARC-Seal: i=051\r\n").sets.empty());
  BOOST_TEST(place("ARC-Authentication-Results: i=7; mx; none\r\n").sets.size() == 7U);
  BOOST_TEST(!place("ARC-Seal: i=1; cv=fail\r\nARC-Seal: i=2; cv=pass\r\n").closed);
  BOOST_TEST(place("ARC-Seal: i=1; cv=pass\r\nARC-Seal: i=2; cv=Fail\r\n").closed);
  BOOST_TEST(!place("From: a\r\n").obstacle(ArcVerdict::temperror).empty());
  // The same chain whatever its folding; another one with one more field.
  BOOST_TEST(place("ARC-Seal:  i=1;\r\n\tcv=none\r\n").text == place("arc-seal: i=1; cv=none\r\n").text);
  BOOST_TEST(place("ARC-Seal: i=1; cv=none\r\n").text != place("ARC-Seal: i=1; cv=pass\r\n").text);
}

BOOST_AUTO_TEST_SUITE_END()
