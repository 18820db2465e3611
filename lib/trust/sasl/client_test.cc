#include "lib/trust/sasl/client.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"
#include "lib/base/digest/digest.h"

namespace pen::sasl {
namespace {

std::unique_ptr<ClientExchange> make(const std::string& name, Credentials credentials, std::string nonce = "x") {
  auto made = choose({name}, [](const Mechanism&) { return true; }, credentials, std::move(nonce));
  BOOST_REQUIRE(made != nullptr);
  BOOST_TEST(made->mechanism() == name);
  return made;
}
bool refused(const Result<std::string>& r) { return !r && r.error().is(SaslError::bad_challenge); }

BOOST_AUTO_TEST_SUITE(sasl_client)

BOOST_AUTO_TEST_CASE(plain_login_and_xoauth2_say_what_their_documents_say) {
  auto plain = make("PLAIN", {"tim", "tanstaaftanstaaf"});  // RFC 4616 section 4
  BOOST_TEST((plain->initial() == std::string("\0tim\0tanstaaftanstaaf", 21)));
  BOOST_TEST(refused(plain->respond("")));
  auto login = make("LOGIN", {"tim", "tan"});
  BOOST_TEST(!login->initial());
  BOOST_TEST(login->respond("Username:").value() == "tim");
  BOOST_TEST(login->respond("whatever").value() == "tan");
  BOOST_TEST(refused(login->respond("Again:")));
  // The example on Google's XOAUTH2 page.
  auto oauth = make("XOAUTH2", {"someuser@example.com", "ya29.vF9dft4qmTc2Nvb3RlckBhdHRhdmlzdGEuY29tCg"});
  BOOST_TEST(base64_encode(*oauth->initial()) ==
             "dXNlcj1zb21ldXNlckBleGFtcGxlLmNvbQFhdXRoPUJlYXJlciB5YTI5LnZGOWRmdDRxbVRjMk52YjNSbGNrQmhkSFJo"
             "ZG1semRHRXVZMjl0Q2cBAQ==");
  BOOST_TEST(oauth->respond("{\"status\":\"401\"}").value() == "");
  BOOST_TEST(refused(oauth->respond("")));
}

BOOST_AUTO_TEST_CASE(cram_md5_gives_the_digest_of_rfc_2195) {
  auto cram = make("CRAM-MD5", {"tim", "tanstaaftanstaaf"});
  BOOST_TEST(!cram->initial());
  BOOST_TEST(cram->respond("<1896.697170952@postoffice.reston.mci.net>").value() ==
             "tim b913a602c7eda7a495b4e6e7334d3890");
  BOOST_TEST(refused(cram->respond("<again>")));
}

BOOST_AUTO_TEST_CASE(scram_sha_1_follows_the_exchange_of_rfc_5802) {
  auto scram = make("SCRAM-SHA-1", {"user", "pencil"}, "fyko+d2lbbFgONRv9qkxdawL");
  BOOST_TEST((scram->initial() == "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"));
  BOOST_TEST(scram->respond("r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096").value() ==
             "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=");
  BOOST_TEST(!scram->satisfied());
  BOOST_TEST(scram->respond("v=rmF9pqV8S7suAoZWja4dJRkFsKQ=").value() == "");
  BOOST_TEST(scram->satisfied());
}

BOOST_AUTO_TEST_CASE(scram_sha_256_follows_the_exchange_of_rfc_7677) {
  auto scram = make("SCRAM-SHA-256", {"user", "pencil"}, "rOprNGfwEbeRWgbNEkqO");
  BOOST_TEST((scram->initial() == "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"));
  BOOST_TEST(scram
                 ->respond("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s="
                           "W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
                 .value() ==
             "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
             "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
  BOOST_TEST(scram->respond("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").value() == "");
  BOOST_TEST(scram->satisfied());
}

BOOST_AUTO_TEST_CASE(scram_believes_no_server_that_does_not_know_the_password) {
  const auto first = [] {
    auto scram = make("SCRAM-SHA-256", {"user", "pencil"}, "rOprNGfwEbeRWgbNEkqO");
    (void)scram->respond("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
    return scram;
  };
  for (const char* wrong : {"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=", "v=", "v=***", "", "e=other-error",
                            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="}) {
    auto scram = first();
    BOOST_TEST(refused(scram->respond(wrong)), wrong);
    BOOST_TEST(!scram->satisfied());
  }
  BOOST_TEST(!make("SCRAM-SHA-256", {"user", "pencil"})->satisfied());
}

BOOST_AUTO_TEST_CASE(scram_answers_no_first_message_that_is_wrong) {
  for (const char* wrong : {"", "r=abcX", "r=abcX,s=QSXCR+Q6sek8bf92", "r=abc,s=QSXCR+Q6sek8bf92,i=4096",
                            "r=xyz,s=QSXCR+Q6sek8bf92,i=4096", "r=abX,s=QSXCR+Q6sek8bf92,i=4096", "r=abcX,s=,i=4096",
                            "r=abcX,s=*,i=4096", "r=abcX,s=QSXCR+Q6sek8bf92,i=0", "r=abcX,s=QSXCR+Q6sek8bf92,i=-1",
                            "r=abcX,s=QSXCR+Q6sek8bf92,i=200001", "r=abcX,s=QSXCR+Q6sek8bf92,i=99999999999999999999",
                            "m=ext,r=abcX,s=QSXCR+Q6sek8bf92,i=4096", "s=QSXCR+Q6sek8bf92,r=abcX,i=4096"})
    BOOST_TEST(refused(make("SCRAM-SHA-1", {"user", "pencil"}, "abc")->respond(wrong)), wrong);
  BOOST_TEST(
      make("SCRAM-SHA-1", {"user", "pencil"}, "abc")->respond("r=abcX,s=QSXCR+Q6sek8bf92,i=1,x=later").has_value());
}

BOOST_AUTO_TEST_CASE(names_with_special_characters_are_escaped) {
  BOOST_TEST((make("SCRAM-SHA-1", {"a,b=c", "p"}, "N")->initial() == "n,,n=a=2Cb=3Dc,r=N"));
}

BOOST_AUTO_TEST_CASE(the_best_mechanism_that_is_allowed_is_chosen) {
  const std::vector<std::string> all = {"XOAUTH2",     "login",   "PLAIN",         "CRAM-MD5",
                                        "SCRAM-SHA-1", "GSSAPI",  "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS",
                                        "ANONYMOUS",   "EXTERNAL"};
  const auto best = [&](std::vector<std::string> words) {
    const auto options = SecurityOptions::parse(words).value();
    auto made = choose(all, [&](const Mechanism& m) { return options.allow(m.properties); }, {"u", "p"}, "n");
    return made ? std::string(made->mechanism()) : std::string();
  };
  BOOST_TEST(best({}) == "SCRAM-SHA-256");
  BOOST_TEST(best({"noplaintext", "noanonymous"}) == "SCRAM-SHA-256");
  BOOST_TEST(best({"mutual_auth"}) == "SCRAM-SHA-256");
  BOOST_TEST(best({"nodictionary"}) == "PLAIN");
  BOOST_TEST(best({"nodictionary", "noplaintext"}) == "");
  BOOST_TEST(choose({"GSSAPI", "EXTERNAL"}, [](const Mechanism&) { return true; }, {"u", "p"}, "n") == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::sasl
