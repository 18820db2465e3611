#include "lib/trust/sasl/crypt_hash.h"

#include <boost/test/unit_test.hpp>

namespace pen::sasl {

BOOST_AUTO_TEST_SUITE(crypt_hashes)

namespace {

bool matches(const std::string& value, const std::string& password) {
  const auto hash = CryptHash::parse(value);
  return hash && hash->is_of(password);
}

// Of "password", made by crypt(3).
const std::string kSha512 =
    "$6$saltsalt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2/jctKu9YterLp8wwnSq.qc.eoxqOmSuNp2xS0ktL3nh/";
const std::string kSha256 = "$5$saltsalt$gOjOtoMpVhru2uyjeJSEc/JaLQWOXMNmlOnj6T4AtC.";
const std::string kYescrypt = "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$tnSYvahCwPBHKZUspmcxMfb0.WiB9W.zEaKlOBL35rC";
const std::string kBcrypt = "$2b$05$abcdefghijklmnopqrstuuWG29KuyeAicPCJODk1zjyGvyQUU2awu";
const std::string kMd5 = "$1$saltsalt$qjXMvbEw8oaL.CzflDtaK/";

}  // namespace

BOOST_AUTO_TEST_CASE(each_kind_is_known_alone_and_by_the_words_of_dovecot) {
  for (const std::string& hash : {kYescrypt, kBcrypt, kSha512, kSha256, kMd5}) {
    BOOST_TEST(matches(hash, "password"), hash);
    BOOST_TEST(!matches(hash, "Password"), hash);
    BOOST_TEST(!matches(hash, ""), hash);
    BOOST_TEST(matches("{CRYPT}" + hash, "password"), hash);
  }
  BOOST_TEST(matches("{SHA512-CRYPT}" + kSha512, "password"));
  BOOST_TEST(matches("{sha256-crypt}" + kSha256, "password"));
  BOOST_TEST(matches("{MD5-CRYPT}" + kMd5, "password"));
  BOOST_TEST(matches("{BLF-CRYPT}" + kBcrypt, "password"));
  BOOST_TEST(matches("{DES-CRYPT}rqVTKtRlPS2tM", "password"));
}

BOOST_AUTO_TEST_CASE(what_is_no_hash_is_nobodys_password) {
  for (const char* value : {"", "password", "$", "$6", "$$$$", "{PLAIN}password", "{SSHA}AAAA", "{SHA512-CRYPT",
                            "!$6$saltsalt$x", "*", "x", "rqVTKtRlPS2tM", "{SHA512-CRYPT}password"}) {
    BOOST_TEST(!matches(value, value), value);
    BOOST_TEST(!matches(value, "password"), value);
  }
  BOOST_TEST(!matches("$no$such$kind", "password"));
  BOOST_TEST(CryptHash::locked("!" + kSha512));
  BOOST_TEST(!CryptHash::locked(kSha512));
  BOOST_TEST(!CryptHash::parse(std::string(1000, '$')).has_value());
}

BOOST_AUTO_TEST_CASE(passwords_that_libcrypt_cannot_take_match_nothing) {
  BOOST_TEST(!matches(kSha512, std::string("password\0more", 13)));
  BOOST_TEST(!matches(kSha512, std::string(CryptHash::kMaxPassword + 1, 'a')));
}

BOOST_AUTO_TEST_CASE(an_unknown_user_costs_a_calculation) {
  BOOST_TEST(!nobodys_hash().is_of("password"));
  BOOST_TEST(nobodys_hash().text().substr(0, 7) == kYescrypt.substr(0, 7));  // with the same cost
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::sasl
