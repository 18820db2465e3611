#include "lib/trust/dkim/sign.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"
#include "lib/base/text.h"
#include "lib/trust/dkim/verify.h"

using namespace pen;
using namespace pen::dkim;

BOOST_AUTO_TEST_SUITE(dkim_sign)

namespace {

const WallTime kNow = WallTime(seconds(1700000000));

struct Keys {
  std::shared_ptr<const PrivateKey> rsa = PrivateKey::generate(Algorithm::rsa_sha256);
  std::shared_ptr<const PrivateKey> ed25519 = PrivateKey::generate(Algorithm::ed25519_sha256);
  std::vector<SignWith> both() const { return {{rsa, "example.org", "r"}, {ed25519, "example.org", "e"}}; }
  std::map<std::string, KeyAnswer> dns() const {
    return {{"r._domainkey.example.org", {KeyAnswer::State::found, {record(*rsa, "rsa")}}},
            {"e._domainkey.example.org", {KeyAnswer::State::found, {record(*ed25519, "ed25519")}}}};
  }
  static std::string record(const PrivateKey& key, const char* type) {
    return std::string("v=DKIM1; k=") + type + "; p=" + base64_encode(key.public_bytes());
  }
};

const Keys& keys() {
  static const Keys kKeys;  // making an RSA key takes its time
  return kKeys;
}

const std::string kHeader =
    "Received: from x\r\n by y\r\nFrom: Jo <jo@example.org>\r\nTo: a@b.example,\r\n\tc@d.example\r\n"
    "Subject:   two  blanks \r\nSubject: another\r\nX-Other: x\r\n";
const std::string kBody = "Hello,\r\n\r\n  w\xf6rld \t \r\n.\r\n..dots\r\n\r\n\r\n";

std::string sign(const SigningForm& form, std::string_view header, std::string_view body,
                 std::size_t piece = SIZE_MAX) {
  Signer signer(form, keys().both(), kNow);
  signer.header(header);
  for (std::size_t at = 0; at < body.size(); at += std::min(piece, body.size() - at))
    signer.body(body.substr(at, piece));
  std::string fields = signer.finish();
  BOOST_TEST(fields.size() == signer.room());
  return fields;
}

std::vector<Outcome> verify(const std::string& header, std::string_view body, WallTime now = kNow) {
  Verifier verifier(now);
  verifier.header(header);
  verifier.body(body);
  return verifier.results(keys().dns());
}

bool passes(const std::string& header, std::string_view body) {
  const auto outcomes = verify(header, body);
  BOOST_TEST(outcomes.size() == 2U);
  const bool pass = std::ranges::all_of(outcomes, [](const Outcome& o) { return o.verdict == Verdict::pass; });
  const bool fail = std::ranges::all_of(outcomes, [](const Outcome& o) { return o.verdict == Verdict::fail; });
  BOOST_TEST(pass != fail);
  return pass;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_signed_passes_in_every_form_and_in_any_pieces) {
  for (const char* text : {"simple/simple", "simple/relaxed", "relaxed/simple", "relaxed/relaxed"}) {
    SigningForm form{.canonicalization = *Canonicalization::parse(text)};
    for (const std::string_view body : {std::string_view(kBody), std::string_view(), std::string_view("\r\n\r\n")}) {
      const std::string fields = sign(form, kHeader, body);
      BOOST_TEST(passes(fields + kHeader, body), text);
      BOOST_TEST(sign(form, kHeader, body, 1).size() == fields.size());
      BOOST_TEST(passes(sign(form, kHeader, body, 3) + kHeader, body), text);
      BOOST_TEST(!passes(fields + kHeader, std::string(body) + "more\r\n"), text);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_change_of_what_is_signed_fails_and_of_the_rest_passes) {
  const std::string fields = sign({}, kHeader, kBody);
  const auto changed = [&](std::string_view what, std::string_view into) {
    std::string header = kHeader;
    header.replace(header.find(what), what.size(), into);
    return fields + header;
  };
  BOOST_TEST(passes(changed("X-Other: x", "X-Other: y"), kBody));
  BOOST_TEST(passes(changed("two  blanks ", "two blanks"), kBody));
  BOOST_TEST(!passes(changed("two  blanks", "two planks"), kBody));
  BOOST_TEST(!passes(changed("Jo <", "Joe <"), kBody));
  BOOST_TEST(passes("Received: another\r\n" + fields + kHeader, kBody));
}

BOOST_AUTO_TEST_CASE(an_oversigned_field_cannot_be_added_and_another_can) {
  SigningForm form;
  form.oversigned = {"From", "Reply-To"};
  const std::string fields = sign(form, kHeader, kBody);
  BOOST_TEST(!passes("From: someone@else.example\r\n" + fields + kHeader, kBody));
  BOOST_TEST(!passes(fields + kHeader + "Reply-To: someone@else.example\r\n", kBody));
  BOOST_TEST(passes("Comments: x\r\n" + fields + kHeader, kBody));
  // The instances that are there are signed from the last one up.
  BOOST_TEST(passes("Subject: a third one\r\n" + fields + kHeader, kBody));
}

BOOST_AUTO_TEST_CASE(times_are_written_and_an_old_signature_has_expired) {
  SigningForm form;
  form.lifetime = seconds(60);
  const std::string fields = sign(form, kHeader, kBody);
  BOOST_TEST(fields.contains("t=1700000000;"));
  BOOST_TEST(fields.contains("x=1700000060;"));
  BOOST_TEST(!fields.contains(" l="));
  BOOST_TEST((verify(fields + kHeader, kBody, kNow + seconds(60))[0].verdict == Verdict::pass));
  const auto late = verify(fields + kHeader, kBody, kNow + seconds(61));
  BOOST_TEST((late[0].verdict == Verdict::fail));
  BOOST_TEST(late[0].reason == "expired");
  BOOST_TEST(!sign({}, kHeader, kBody).contains("x="));
}

BOOST_AUTO_TEST_CASE(of_very_many_fields_the_last_ones_are_signed) {
  std::string header = kHeader;
  for (int i = 0; i < 1000; ++i) header += "To: a@b.example\r\n";
  const std::string fields = sign({}, header, kBody);
  BOOST_TEST(fields.size() < 4096U);
  BOOST_TEST(passes(fields + header, kBody));
}

BOOST_AUTO_TEST_CASE(a_message_without_from_is_signed_against_one_that_is_added) {
  const std::string header = "Subject: x\r\n";
  const std::string fields = sign({}, header, kBody);
  BOOST_TEST(passes(fields + header, kBody));
  BOOST_TEST(!passes(fields + header + "From: a@b.example\r\n", kBody));
}

BOOST_AUTO_TEST_SUITE_END()
