#include "lib/trust/dkim/verify.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"
#include "lib/trust/dkim/sign.h"

using namespace pen;
using namespace pen::dkim;

namespace {

// RFC 8463 appendix A.
const std::string kHeader8463 =
    "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n"
    " d=football.example.com; i=@football.example.com;\r\n"
    " q=dns/txt; s=brisbane; t=1528637909; h=from : to :\r\n"
    " subject : date : message-id : from : subject : date;\r\n"
    " bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n"
    " b=/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11Bus\r\n"
    " Fa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==\r\n"
    "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;\r\n"
    " d=football.example.com; i=@football.example.com;\r\n"
    " q=dns/txt; s=test; t=1528637909; h=from : to : subject :\r\n"
    " date : message-id : from : subject : date;\r\n"
    " bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n"
    " b=F45dVWDfMbQDGHJFlXUNB2HKfbCeLRyhDXgFpEL8GwpsRe0IeIixNTe3\r\n"
    " DhCVlUrSjV4BwcVcOF6+FF3Zo9Rpo1tFOeS9mPYQTnGdaSGsgeefOsk2Jz\r\n"
    " dA+L10TeYt9BgDfQNZtKdN1WO//KgIqXP7OdEFE4LjFYNcUxZQ4FADY+8=\r\n"
    "From: Joe SixPack <joe@football.example.com>\r\n"
    "To: Suzie Q <suzie@shopping.example.net>\r\n"
    "Subject: Is dinner ready?\r\n"
    "Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n"
    "Message-ID: <20030712040037.46341.5F8J@football.example.com>\r\n";
const std::string kBody8463 = "Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n";
const std::string kRsaKey =
    "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkHlOQoBTzWRiGs5V6NpP3idY6Wk08a5qhdR6wy5bdOKb2jLQiY/J16JYi0Qvx/byYzCNb3W91"
    "y3FutACDfzwQ/BC/e/8uBsCR+yz1Lxj+PL6lHvqMKrM3rG4hstT5QjvHO9PzoxZyVYLzBfO2EeC3Ip3G+2kryOTIKT+l/K4w3QIDAQAB";

using Dns = std::map<std::string, KeyAnswer>;

KeyAnswer found(std::string text) { return {KeyAnswer::State::found, {std::move(text)}}; }

Dns dns8463() {
  return {{"brisbane._domainkey.football.example.com",
           found("v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=")},
          {"test._domainkey.football.example.com", found("v=DKIM1; k=rsa; p=" + kRsaKey)}};
}

std::vector<Outcome> verify(const std::string& header, std::string_view body, const Dns& dns) {
  Verifier verifier(WallTime(seconds(1600000000)));
  verifier.header(header);
  verifier.body(body);
  return verifier.results(dns);
}

/// Changes the Ed25519 record and returns what the first signature is then.
Outcome with_record(const KeyAnswer& answer) {
  Dns dns = dns8463();
  dns["brisbane._domainkey.football.example.com"] = answer;
  return verify(kHeader8463, kBody8463, dns)[0];
}

std::string changed(std::string text, std::string_view what, std::string_view into) {
  const auto at = text.find(what);
  BOOST_REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), into);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dkim_verify)

BOOST_AUTO_TEST_CASE(the_message_of_rfc_8463_passes_twice) {
  Verifier verifier(WallTime(seconds(1600000000)));
  verifier.header(kHeader8463);
  verifier.body(kBody8463);
  BOOST_TEST((verifier.wanted() == std::vector<std::string>{"brisbane._domainkey.football.example.com",
                                                            "test._domainkey.football.example.com"}));
  const auto outcomes = verifier.results(dns8463());
  BOOST_REQUIRE(outcomes.size() == 2U);
  for (const auto& o : outcomes) {
    BOOST_TEST((o.verdict == Verdict::pass), o.reason);
    BOOST_TEST(o.domain == "football.example.com");
    BOOST_TEST(o.identity == "@football.example.com");
  }
  BOOST_TEST(outcomes[0].algorithm == "ed25519-sha256");
  BOOST_TEST(outcomes[0].tag == "/gCrinpc");
  BOOST_TEST(outcomes[1].selector == "test");
}

BOOST_AUTO_TEST_CASE(the_private_key_of_rfc_8463_gives_its_signature) {
  const auto key = PrivateKey::parse("nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=");
  BOOST_REQUIRE(key.has_value());
  const auto fields = split_fields(kHeader8463, 100);
  std::string covered;
  for (const std::size_t i : {2u, 3u, 4u, 5u, 6u}) {  // the names that come again have no further field
    append_canonical(Form::relaxed, fields[i].whole, covered);
    covered += "\r\n";
  }
  append_canonical(Form::relaxed, without_signature(fields[0].whole), covered);
  BOOST_TEST(base64_encode((*key)->sign(covered)) ==
             "/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11BusFa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==");
}

// RFC 6376 appendix A.2.
BOOST_AUTO_TEST_CASE(the_message_of_rfc_6376_passes) {
  const std::string header =
      "DKIM-Signature: v=1; a=rsa-sha256; s=brisbane; d=example.com;\r\n"
      "      c=simple/simple; q=dns/txt; i=joe@football.example.com;\r\n"
      "      h=Received : From : To : Subject : Date : Message-ID;\r\n"
      "      bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n"
      "      b=AuUoFEfDxTDkHlLXSZEpZj79LICEps6eda7W3deTVFOk4yAUoqOB\r\n"
      "      4nujc7YopdG5dWLSdNg6xNAZpOPr+kHxt1IrE+NahM6L/LbvaHut\r\n"
      "      KVdkLLkpVaVVQPzeRDI009SO2Il5Lu7rDNH6mZckBdrIx0orEtZV\r\n"
      "      4bmp/YzhwvcubU4=;\r\n"
      "Received: from client1.football.example.com  [192.0.2.1]\r\n"
      "      by submitserver.example.com with SUBMISSION;\r\n"
      "      Fri, 11 Jul 2003 21:01:54 -0700 (PDT)\r\n"
      "From: Joe SixPack <joe@football.example.com>\r\n"
      "To: Suzie Q <suzie@shopping.example.net>\r\n"
      "Subject: Is dinner ready?\r\n"
      "Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n"
      "Message-ID: <20030712040037.46341.5F8J@football.example.com>\r\n";
  const Dns dns = {
      {"brisbane._domainkey.example.com",
       found("v=DKIM1; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDwIRP/UC3SBsEmGqZ9ZJW3/DkMoGeLnQg1fWn7/zYtIxN2SnFC"
             "jxOCKG9v3b4jYfcTNh5ijSsq631uBItLa7od+v/RtdC2UzJ1lWT947qR+Rcac2gbto/NMqJ0fzfVjH4OuKhitdY9tf6mcwGjaNBc"
             "WToIMmPSPDdQPNUYckcQ2QIDAQAB")}};
  const auto outcomes = verify(header, changed(kBody8463, "game.  Are", "game. Are"), dns);
  BOOST_REQUIRE(outcomes.size() == 1U);
  BOOST_TEST((outcomes[0].verdict == Verdict::pass), outcomes[0].reason);
}

BOOST_AUTO_TEST_CASE(many_names_and_many_fields_are_not_multiplied) {
  constexpr std::size_t kNames = 990, kFields = 100000;
  std::string names = "from";
  for (std::size_t i = 0; i < kNames; ++i) names += ":x" + std::to_string(i);
  std::string header = changed(kHeader8463, "h=from : to :\r\n subject : date : message-id : from : subject : date;",
                               "h=" + names + ";");
  for (std::size_t i = 0; i < kFields; ++i) header += "a:\r\n";
  Verifier verifier(WallTime(seconds(1600000000)));
  verifier.header(header);
  verifier.body(kBody8463);
  BOOST_TEST((verifier.results(dns8463())[0].verdict == Verdict::fail));
  BOOST_TEST(verifier.steps() > kNames);
  BOOST_TEST(verifier.steps() < 10 * kNames);
}

BOOST_AUTO_TEST_CASE(a_name_takes_its_fields_from_the_last_one_up) {
  const std::string header = "A: 1\r\nB: 2\r\na: 3\r\nA : 4\r\n";
  const auto fields = split_fields(header, 100);
  const FieldIndex index(fields);
  const std::vector<std::string> names = {"a", "c", "A", "b", "a", "a"};
  std::string out;
  index.append(Form::simple, names, nullptr, out);
  BOOST_TEST(out == "A : 4\r\na: 3\r\nB: 2\r\nA: 1\r\n");
  out.clear();
  index.append(Form::relaxed, names, fields[2].whole.data(), out);
  BOOST_TEST(out == "a:4\r\na:1\r\nb:2\r\n");
}

BOOST_AUTO_TEST_CASE(what_dns_says_of_the_key_decides) {
  using enum KeyAnswer::State;
  BOOST_TEST((with_record({unknown}).verdict == Verdict::temperror));
  BOOST_TEST((with_record({missing}).verdict == Verdict::permerror));
  BOOST_TEST((with_record({found, {}}).verdict == Verdict::permerror));
  BOOST_TEST((with_record(::found("v=spf1 -all")).verdict == Verdict::permerror));
  BOOST_TEST(with_record(::found("v=DKIM1; k=ed25519; p=")).reason == "the key is revoked");
  BOOST_TEST(with_record(::found("v=DKIM1; p=" + kRsaKey)).reason == "the key is of another type");
  const std::string right = "k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=; ";
  BOOST_TEST((with_record(::found(right)).verdict == Verdict::pass));
  BOOST_TEST((with_record(::found(right + "t=s")).verdict == Verdict::pass));
  BOOST_TEST(with_record(::found(right + "t=y")).testing);
  BOOST_TEST((with_record(::found(right + "h=sha1")).verdict == Verdict::permerror));
  BOOST_TEST((with_record(::found(right + "s=tlsrpt")).verdict == Verdict::permerror));
  // Another key of the same type.
  BOOST_TEST((with_record(::found("k=ed25519; p=MCowBQYDK2VwAyEAlBZ9GShvbQEtyyaGs+0Nd4aurH7=")).verdict ==
              Verdict::permerror));
  BOOST_TEST(
      (with_record(::found("k=ed25519; p=lBZ9GShvbQEtyyaGs+0Nd4aurH7ERq6UOIvXGb5/tXA=")).verdict == Verdict::fail));
  // Of several records the first that is one.
  BOOST_TEST((with_record({found, {"v=spf1 -all", right}}).verdict == Verdict::pass));
}

BOOST_AUTO_TEST_CASE(a_key_below_1024_bits_is_never_accepted) {
  const auto key = PrivateKey::generate(Algorithm::rsa_sha256, 768);
  const std::string header = "From: a@example.org\r\n";
  const SigningForm form;
  Signer signer(form, {{key, "example.org", "s"}}, WallTime(seconds(1600000000)));
  signer.header(header);
  const std::string fields = signer.finish();
  const Dns dns = {{"s._domainkey.example.org", found("p=" + base64_encode(key->public_bytes()))}};
  BOOST_TEST((verify(fields + header, "", dns)[0].verdict == Verdict::policy));
}

BOOST_AUTO_TEST_CASE(sha_1_and_signatures_over_a_part_are_not_accepted) {
  const std::string sha1 = changed(kHeader8463, "a=rsa-sha256", "a=rsa-sha1");
  BOOST_TEST((verify(sha1, kBody8463, dns8463())[1].verdict == Verdict::permerror));
  const std::string part = changed(kHeader8463, "q=dns/txt;", "q=dns/txt; l=10;");
  BOOST_TEST((verify(part, kBody8463, dns8463())[0].verdict == Verdict::policy));
}

BOOST_AUTO_TEST_CASE(a_changed_body_and_a_changed_header_are_told_apart) {
  BOOST_TEST(verify(kHeader8463, kBody8463 + "x", dns8463())[0].reason == "the body has changed");
  const auto header = changed(kHeader8463, "Is dinner", "Was dinner");
  for (const auto& o : verify(header, kBody8463, dns8463())) {
    BOOST_TEST((o.verdict == Verdict::fail));
    BOOST_TEST(o.reason == "the signature is not for this header");
  }
  for (const auto& o : verify("Subject: another\r\n" + kHeader8463, kBody8463, dns8463()))
    BOOST_TEST((o.verdict == Verdict::fail));
}

BOOST_AUTO_TEST_CASE(a_malformed_signature_does_not_hide_a_good_one) {
  const auto outcomes =
      verify("DKIM-Signature: v=1; a=\r\nDKIM-Signature: v=9\r\n" + kHeader8463, kBody8463, dns8463());
  BOOST_REQUIRE(outcomes.size() == 4U);
  BOOST_TEST((outcomes[0].verdict == Verdict::permerror));
  BOOST_TEST((outcomes[1].verdict == Verdict::neutral));
  BOOST_TEST((outcomes[2].verdict == Verdict::pass));
}

BOOST_AUTO_TEST_CASE(so_many_signatures_are_looked_at_and_no_more) {
  std::string header;
  for (int i = 0; i < 30; ++i) header += "DKIM-Signature: v=1\r\n";
  BOOST_TEST(verify(header + kHeader8463, kBody8463, dns8463()).size() == Verifier::kMostSignatures);
}

BOOST_AUTO_TEST_CASE(a_message_without_signatures_asks_for_nothing) {
  Verifier verifier(WallTime(seconds(0)));
  verifier.header("From: a@b.example\r\n");
  verifier.body("x");
  BOOST_TEST(verifier.wanted().empty());
  BOOST_TEST(verifier.results({}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
