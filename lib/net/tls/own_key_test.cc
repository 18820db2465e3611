#include "lib/net/tls/own_key.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "lib/net/tls/certificate_file.h"
#include "lib/net/tls/library.h"
#include "lib/testing/scratch.h"

using namespace pen;
using tls::OwnKey;

namespace {

const std::vector<std::string> kHosts = {"mx.example.org", "mail.example.org"};
constexpr WallTime kNow{std::chrono::seconds(1'795'792'370)};

struct Fixture {
  testing::ScratchDir dir;
  std::string file(const std::string& name, const std::string& text) const { return dir.write(name, text); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(own_key, Fixture)

BOOST_AUTO_TEST_CASE(a_key_and_its_certificate_belong_together_and_to_the_hosts) {
  for (const char* algorithm : {"rsa", "ecdsa"}) {
    const auto key = OwnKey::make(algorithm, 0);
    BOOST_REQUIRE_MESSAGE(key, algorithm);
    const std::string pem = *key->pem();
    const auto text = key->certificate(kHosts, kNow);
    BOOST_REQUIRE_MESSAGE(text, (text ? "" : text.error().message()));
    const std::string certificate = file("cert.pem", *text), key_file = file("key.pem", pem);
    BOOST_CHECK(tls::key_fits(key_file, certificate) == true);
    for (const auto& host : kHosts) BOOST_CHECK(tls::certificate_names(certificate, host) == true);
    BOOST_CHECK(tls::certificate_names(certificate, "other.example.org") == false);
    const auto dates = tls::look_at_certificate(certificate);
    BOOST_REQUIRE(dates);
    BOOST_CHECK(dates->begins == kNow);
    BOOST_CHECK(dates->ends == kNow + std::chrono::days(3650));
    BOOST_CHECK(*tls::certificate_hosts(certificate) == kHosts);
    // What TLSA says of the key is true of the certificate.
    const auto digest = key->digest();
    BOOST_REQUIRE(digest);
    BOOST_TEST(digest->size() == 64U);
    BOOST_CHECK(tls::certificate_fits(certificate, *tls::parse_tlsa("3 1 1 " + *digest)) == true);
    // Read again, it is the same.
    const auto again = OwnKey::read(key_file);
    BOOST_REQUIRE(again);
    BOOST_TEST(*again->digest() == *digest);
    const auto other = OwnKey::make(algorithm, 0);
    BOOST_TEST(*other->digest() != *digest);
    BOOST_CHECK(tls::key_fits(file("other.pem", *other->pem()), certificate) == false);
  }
}

BOOST_AUTO_TEST_CASE(a_request_is_made_and_begins_as_one) {
  const auto key = OwnKey::make("ecdsa", 384);
  BOOST_REQUIRE(key);
  const auto request = key->request(kHosts);
  BOOST_REQUIRE_MESSAGE(request, (request ? "" : request.error().message()));
  BOOST_TEST(request->starts_with("-----BEGIN CERTIFICATE REQUEST-----\n"));
}

BOOST_AUTO_TEST_CASE(what_no_program_could_use_is_refused) {
  BOOST_CHECK(!OwnKey::make("rsa", 1024));
  BOOST_CHECK(!OwnKey::make("ecdsa", 255));
  BOOST_CHECK(!OwnKey::make("dsa", 0));
  BOOST_CHECK(!OwnKey::read(dir.file("nothing")));
  BOOST_CHECK(!OwnKey::read(file("garbage", "garbage")));
  const auto key = OwnKey::make("ecdsa", 0);
  BOOST_CHECK(!key->certificate({}, kNow));
  BOOST_CHECK(!key->request({}));
  // A name that is too long for a common name is there all the same.
  const std::string host = std::string(60, 'a') + ".example.org";
  const auto certificate = key->certificate({host}, kNow);
  BOOST_REQUIRE(certificate);
  BOOST_CHECK(tls::certificate_names(file("long.pem", *certificate), host) == true);
}

BOOST_AUTO_TEST_CASE(the_library_is_named) {
  BOOST_TEST(tls::compiled_version().starts_with("OpenSSL "));
  BOOST_TEST(tls::running_version().starts_with("OpenSSL "));
  const auto all = tls::public_key_algorithms();
  for (const char* name : {"ecdsa", "rsa"}) BOOST_CHECK(std::ranges::find(all, name) != all.end());
  BOOST_CHECK(std::ranges::is_sorted(all));
}

BOOST_AUTO_TEST_SUITE_END()
