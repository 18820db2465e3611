#include "lib/trust/dkim/key_record.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"
#include "lib/trust/dkim/key.h"

using namespace pen;
using namespace pen::dkim;

BOOST_AUTO_TEST_SUITE(dkim_key_record)

BOOST_AUTO_TEST_CASE(tags_and_their_defaults) {
  const auto plain = KeyRecord::parse("p=QUJD");
  BOOST_REQUIRE(plain.has_value());
  BOOST_TEST(plain->key == "ABC");
  BOOST_TEST((plain->type == KeyRecord::Type::rsa));
  BOOST_TEST((plain->sha256 && plain->for_mail && !plain->testing && !plain->same_domain));
  const auto all = KeyRecord::parse("v=DKIM1; k=ed25519; h=sha1:sha256; s=tlsrpt; t=y:s; n=what; p=QU JD;");
  BOOST_REQUIRE(all.has_value());
  BOOST_TEST((all->type == KeyRecord::Type::ed25519));
  BOOST_TEST((all->sha256 && !all->for_mail && all->testing && all->same_domain));
  BOOST_TEST(!KeyRecord::parse("h=sha1; p=QUJD")->sha256);
  BOOST_TEST(KeyRecord::parse("v=DKIM1; p=")->key.empty());
  BOOST_TEST(KeyRecord::parse("p=QUI")->key == "AB");  // without its =
}

BOOST_AUTO_TEST_CASE(what_is_no_key_record_is_refused) {
  for (const char* text : {"", "v=spf1 -all", "v=DKIM2; p=QUJD", "k=rsa", "p=*", "p=QUJD; v=DKIM1", "p=QUJD; p=QUJD",
                           "k=dsa; p=QUJD", "just words", "=x; p=QUJD"})
    BOOST_TEST(!KeyRecord::parse(text), text);
  BOOST_TEST(!KeyRecord::parse("p=" + std::string(20000, 'A')));
}

BOOST_AUTO_TEST_CASE(a_zone_line_has_strings_that_dns_can_hold) {
  const std::string value(600, 'x');
  const std::string line = zone_line("s._domainkey.example.org", value);
  BOOST_TEST(line.starts_with("s._domainkey.example.org. IN TXT (\n\t\"xxx"));
  std::size_t strings = 0, longest = 0;
  for (std::size_t at = line.find('"'); at != std::string::npos; at = line.find('"', at + 1)) {
    const auto end = line.find('"', at + 1);
    longest = std::max(longest, end - at - 1);
    ++strings;
    at = end;
  }
  BOOST_TEST(strings == 3U);
  BOOST_TEST(longest == 255U);
}

BOOST_AUTO_TEST_CASE(a_key_that_is_dear_to_check_with_is_refused) {
  // RSAPublicKey of RFC 8017 appendix A.1.1; numbers whose first bit is set have a byte in front of it.
  const auto element = [](char tag, const std::string& content) {
    const auto size = static_cast<unsigned>(content.size());
    return std::string{tag, '\x82', static_cast<char>(size >> 8), static_cast<char>(size)} + content;
  };
  const auto with_exponent = [&](const std::string& exponent) {
    KeyRecord record;
    const std::string modulus = std::string(1, '\0') + std::string(255, '\xc5') + "\x61";
    record.key = element('\x30', element('\x02', modulus) + element('\x02', std::string(1, '\0') + exponent));
    return PublicKey::of(record);
  };
  BOOST_TEST(with_exponent(std::string("\x01\0\x01", 3)).has_value());
  BOOST_TEST(with_exponent(std::string(8, '\xff')).has_value());
  BOOST_TEST(with_exponent("\x01" + std::string(8, '\xff')).error().is(DkimError::too_large));
  BOOST_TEST(with_exponent(std::string(250, '\xff')).error().is(DkimError::too_large));
}

BOOST_AUTO_TEST_CASE(keys_are_written_and_read_and_short_ones_refused) {
  for (const auto algorithm : {Algorithm::rsa_sha256, Algorithm::ed25519_sha256}) {
    const auto key = PrivateKey::generate(algorithm, kLeastBits);
    const auto again = PrivateKey::parse(key->pem());
    BOOST_REQUIRE(again.has_value());
    BOOST_TEST((*again)->public_bytes() == key->public_bytes());
    KeyRecord record;
    record.type = algorithm == Algorithm::rsa_sha256 ? KeyRecord::Type::rsa : KeyRecord::Type::ed25519;
    record.key = key->public_bytes();
    const auto public_key = PublicKey::of(record);
    BOOST_REQUIRE(public_key.has_value());
    const std::string signature = (*again)->sign("text");
    BOOST_TEST(signature.size() == key->signature_size());
    BOOST_TEST(public_key->verifies("text", signature));
    BOOST_TEST(!public_key->verifies("Text", signature));
    BOOST_TEST(!public_key->verifies("text", ""));
    record.key.pop_back();
    BOOST_TEST(PublicKey::of(record).error().is(DkimError::bad_key));
  }
  KeyRecord weak;
  weak.key = PrivateKey::generate(Algorithm::rsa_sha256, 768)->public_bytes();
  BOOST_TEST(PublicKey::of(weak).error().is(DkimError::weak_key));
  // The same key without its lines.
  std::string pem = PrivateKey::generate(Algorithm::ed25519_sha256)->pem();
  pem = pem.substr(pem.find('\n') + 1);
  BOOST_TEST(PrivateKey::parse(pem.substr(0, pem.find("-----"))).has_value());
  for (const char* text : {"", "no key", "-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----\n", "QUJD"})
    BOOST_TEST(!PrivateKey::parse(text), text);
}

BOOST_AUTO_TEST_SUITE_END()
