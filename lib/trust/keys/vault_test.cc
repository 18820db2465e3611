#include "lib/trust/keys/vault.h"

#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

#include "lib/base/digest/owned.h"

using namespace pen;
using namespace pen::keys;
using digest::bytes_of;
using digest::Owned;
using digest::text_of;
using ipc::keys::Decrypt;
using ipc::keys::Done;
using ipc::keys::List;
using ipc::keys::Listed;
using ipc::keys::Refusal;
using ipc::keys::Scheme;
using ipc::keys::Sign;

namespace {

/// A key and a certificate for it.
struct Made {
  Owned<EVP_PKEY> key;
  std::string pem, certificate;
  Pair pair() const { return {.key = pem, .certificates = certificate}; }
};

Made certified(EVP_PKEY* key) {
  Made out{.key = Owned<EVP_PKEY>(key), .pem = {}, .certificate = {}};
  const Owned<BIO> pem(BIO_new(BIO_s_mem()));
  BOOST_REQUIRE(PEM_write_bio_PKCS8PrivateKey(pem.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  out.pem = text_of(pem.get());
  const Owned<X509> x(X509_new());
  X509_gmtime_adj(X509_getm_notBefore(x.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(x.get()), 3600);
  X509_set_pubkey(x.get(), key);
  const EVP_MD* md = EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
  BOOST_REQUIRE(X509_sign(x.get(), key, md) > 0);
  const Owned<BIO> certificate(BIO_new(BIO_s_mem()));
  BOOST_REQUIRE(PEM_write_bio_X509(certificate.get(), x.get()) == 1);
  out.certificate = text_of(certificate.get());
  return out;
}
Made rsa(unsigned bits = 2048) { return certified(EVP_RSA_gen(bits)); }
Made ec() { return certified(EVP_EC_gen("P-256")); }
Made ed25519() { return certified(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")); }

std::string digest_of(std::string_view text, const EVP_MD* md) {
  std::string out(static_cast<std::size_t>(EVP_MD_get_size(md)), '\0');
  BOOST_REQUIRE(EVP_Digest(text.data(), text.size(), bytes_of(out), nullptr, md, nullptr) == 1);
  return out;
}

/// Checks as the receiver of the signature does: from the text.
bool verifies(EVP_PKEY* key, std::string_view text, std::string_view signature, const EVP_MD* md, bool pss = false) {
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* with = nullptr;
  BOOST_REQUIRE(EVP_DigestVerifyInit(context.get(), &with, md, nullptr, key) == 1);
  if (pss) {
    BOOST_REQUIRE(EVP_PKEY_CTX_set_rsa_padding(with, RSA_PKCS1_PSS_PADDING) == 1);
    BOOST_REQUIRE(EVP_PKEY_CTX_set_rsa_pss_saltlen(with, RSA_PSS_SALTLEN_DIGEST) == 1);
  }
  return EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(text), text.size()) == 1;
}

struct Fixture {
  Vault vault;
  std::string put(const std::string& name, Use use, const Made& made) {
    const auto id = vault.put(name, use, made.pair());
    BOOST_REQUIRE(id.has_value());
    BOOST_TEST(id->size() == 32U);
    return *id;
  }
  Done sign(Use use, const std::string& id, Scheme scheme, const std::string& data) {
    return std::get<Done>(vault.answer(use, Sign{.request = 7, .key = id, .scheme = scheme, .data = data}));
  }
  Refusal refusal(Use use, const std::string& id, Scheme scheme, const std::string& data) {
    const Done done = sign(use, id, scheme, data);
    BOOST_TEST((done.data.empty() == (done.refusal != Refusal::none)));
    return done.refusal;
  }
  Done decrypt(Use use, const std::string& id, const std::string& data, std::uint16_t version = 0x0303) {
    return std::get<Done>(vault.answer(use, Decrypt{.request = 8, .key = id, .version = version, .data = data}));
  }
  Listed list(Use use, std::string_view after = "") {
    return std::get<Listed>(vault.answer(use, List{.request = 9, .after = after}));
  }
};

const std::string kText = "what both sides said";
const std::string kDigest(32, 'd');

}  // namespace

BOOST_FIXTURE_TEST_SUITE(keys, Fixture)

BOOST_AUTO_TEST_CASE(signatures_of_every_scheme_verify) {
  const Made r = rsa(), e = ec(), d = ed25519();
  const std::string r_id = put("r", Use::server, r), e_id = put("e", Use::server, e), d_id = put("d", Use::server, d);
  const struct {
    const EVP_MD* md;
    Scheme pkcs1, pss, ecdsa;
  } sizes[] = {{EVP_sha256(), Scheme::rsa_pkcs1_sha256, Scheme::rsa_pss_sha256, Scheme::ecdsa_sha256},
               {EVP_sha384(), Scheme::rsa_pkcs1_sha384, Scheme::rsa_pss_sha384, Scheme::ecdsa_sha384},
               {EVP_sha512(), Scheme::rsa_pkcs1_sha512, Scheme::rsa_pss_sha512, Scheme::ecdsa_sha512}};
  for (const auto& s : sizes) {
    const std::string digest = digest_of(kText, s.md);
    const Done pkcs1 = sign(Use::server, r_id, s.pkcs1, digest);
    BOOST_TEST(pkcs1.request == 7U);
    BOOST_TEST(verifies(r.key.get(), kText, pkcs1.data, s.md));
    BOOST_TEST(!verifies(r.key.get(), kText + ".", pkcs1.data, s.md));
    BOOST_TEST(verifies(r.key.get(), kText, sign(Use::server, r_id, s.pss, digest).data, s.md, true));
    BOOST_TEST(verifies(e.key.get(), kText, sign(Use::server, e_id, s.ecdsa, digest).data, s.md));
  }
  const std::string said(130, 's');
  BOOST_TEST(verifies(d.key.get(), said, sign(Use::server, d_id, Scheme::ed25519, said).data, nullptr));
}

BOOST_AUTO_TEST_CASE(dkim_keys_sign_digests_in_the_two_ways_that_dkim_has) {
  const Made r = rsa(), d = ed25519();
  const std::string r_id = put("r", Use::dkim, {.key = nullptr, .pem = r.pem, .certificate = {}});
  const std::string d_id = put("d", Use::dkim, {.key = nullptr, .pem = d.pem, .certificate = {}});
  const std::string digest = digest_of(kText, EVP_sha256());
  BOOST_TEST(verifies(r.key.get(), kText, sign(Use::dkim, r_id, Scheme::rsa_pkcs1_sha256, digest).data, EVP_sha256()));
  BOOST_TEST(verifies(d.key.get(), digest, sign(Use::dkim, d_id, Scheme::ed25519, digest).data, nullptr));
  BOOST_TEST((refusal(Use::dkim, r_id, Scheme::rsa_pss_sha256, digest) == Refusal::scheme));
  BOOST_TEST((refusal(Use::dkim, r_id, Scheme::rsa_pkcs1_sha512, std::string(64, 'd')) == Refusal::scheme));
  // What TLS signs is no digest.
  BOOST_TEST((refusal(Use::dkim, d_id, Scheme::ed25519, std::string(130, 's')) == Refusal::size));
  BOOST_TEST((vault.put("e", Use::dkim, ec().pair()).error().is(KeyError::unsupported)));
}

BOOST_AUTO_TEST_CASE(a_key_is_unknown_to_uses_that_it_was_not_put_in_for) {
  const Made made = rsa();
  const std::string id = put("mx", Use::server, made);
  BOOST_TEST((refusal(Use::server, id, Scheme::rsa_pkcs1_sha256, kDigest) == Refusal::none));
  for (const Use other : {Use::client, Use::dkim}) {
    BOOST_TEST((refusal(other, id, Scheme::rsa_pkcs1_sha256, kDigest) == Refusal::unknown_key));
    BOOST_TEST((decrypt(other, id, std::string(256, 'x')).refusal == Refusal::unknown_key));
    BOOST_TEST(list(other).keys.empty());
  }
  put("mx", Use::client, made);
  BOOST_TEST((refusal(Use::client, id, Scheme::rsa_pkcs1_sha256, kDigest) == Refusal::none));
}

BOOST_AUTO_TEST_CASE(other_sizes_and_schemes_of_other_keys_are_refused) {
  const std::string r = put("r", Use::server, rsa()), e = put("e", Use::server, ec());
  const std::string d = put("d", Use::server, ed25519());
  for (const std::size_t size : {0U, 20U, 31U, 33U, 48U, 256U})
    BOOST_TEST((refusal(Use::server, r, Scheme::rsa_pss_sha256, std::string(size, 'd')) == Refusal::size));
  BOOST_TEST((refusal(Use::server, r, Scheme::ecdsa_sha256, kDigest) == Refusal::scheme));
  BOOST_TEST((refusal(Use::server, e, Scheme::rsa_pkcs1_sha256, kDigest) == Refusal::scheme));
  BOOST_TEST((refusal(Use::server, r, static_cast<Scheme>(200), kDigest) == Refusal::scheme));
  // A digest of DKIM is no handshake, nor is what no handshake can be as long as.
  for (const std::size_t size : {0U, 32U, 64U, 513U})
    BOOST_TEST((refusal(Use::server, d, Scheme::ed25519, std::string(size, 'd')) == Refusal::size));
  BOOST_TEST((refusal(Use::server, std::string(32, 'k'), Scheme::rsa_pkcs1_sha256, kDigest) == Refusal::unknown_key));
  BOOST_TEST((refusal(Use::server, "", Scheme::rsa_pkcs1_sha256, kDigest) == Refusal::unknown_key));
  // 62 bytes of padding and digest do not fit beside a salt of 64.
  const std::string small = put("s", Use::server, rsa(1024));
  BOOST_TEST((refusal(Use::server, small, Scheme::rsa_pss_sha512, std::string(64, 'd')) == Refusal::failed));
}

BOOST_AUTO_TEST_CASE(a_premaster_secret_has_48_bytes_whatever_was_sent) {
  const Made made = rsa();
  const std::string id = put("mx", Use::server, made);
  std::string secret(48, 'p');
  secret[0] = 3;
  secret[1] = 3;
  const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new(made.key.get(), nullptr));
  BOOST_REQUIRE(EVP_PKEY_encrypt_init(context.get()) == 1);
  std::string sent(256, '\0');
  std::size_t size = sent.size();
  BOOST_REQUIRE(EVP_PKEY_encrypt(context.get(), bytes_of(sent), &size, bytes_of(secret), secret.size()) == 1);
  BOOST_TEST((decrypt(Use::server, id, sent).data == secret));
  BOOST_TEST((decrypt(Use::server, id, sent, 0x0301).data != secret));  // another version
  std::string garbage(256, '\1');
  const Done first = decrypt(Use::server, id, garbage), second = decrypt(Use::server, id, garbage);
  BOOST_TEST((first.refusal == Refusal::none && first.data.size() == 48U && first.data != second.data));
  BOOST_TEST((decrypt(Use::server, id, std::string(255, 'x')).refusal == Refusal::size));
  BOOST_TEST((decrypt(Use::server, put("e", Use::server, ec()), sent).refusal == Refusal::scheme));
  put("mx", Use::client, made);
  BOOST_TEST((decrypt(Use::client, id, sent).refusal == Refusal::scheme));
}

BOOST_AUTO_TEST_CASE(threads_sign_with_one_key_at_a_time_and_after_it_was_forgotten) {
  const Made made = rsa(1024), curve = ec();
  const std::string id = put("mx", Use::server, made), other = put("e", Use::server, curve);
  const auto begin = [&](const std::string& key, Scheme scheme, const std::string& data) {
    auto begun = vault.begin(Use::server, Sign{.request = 7, .key = key, .scheme = scheme, .data = data});
    BOOST_REQUIRE(std::holds_alternative<Operation>(begun));
    return std::get<Operation>(std::move(begun));
  };
  BOOST_TEST(!begin(other, Scheme::ecdsa_sha256, kDigest).slow());
  constexpr std::size_t kThreads = 4, kEach = 100;
  struct Work {
    std::string text;
    Operation operation;
    Done done;
  };
  std::vector<std::vector<Work>> work(kThreads);
  for (std::size_t i = 0; i < kThreads * kEach; ++i) {
    std::string text = "text " + std::to_string(i);
    auto operation = begin(id, Scheme::rsa_pss_sha256, digest_of(text, EVP_sha256()));
    BOOST_TEST(operation.slow());
    work[i % kThreads].push_back({.text = std::move(text), .operation = std::move(operation), .done = {}});
  }
  vault.forget("mx", Use::server);
  BOOST_TEST((refusal(Use::server, id, Scheme::rsa_pss_sha256, kDigest) == Refusal::unknown_key));
  std::vector<std::jthread> threads;
  for (auto& part : work)
    threads.emplace_back([&part] {
      for (Work& one : part) one.done = one.operation.run();
    });
  threads.clear();
  for (const auto& part : work)
    for (const Work& one : part) {
      BOOST_TEST(one.done.request == 7U);
      BOOST_TEST(verifies(made.key.get(), one.text, one.done.data, EVP_sha256(), true));
    }
}

BOOST_AUTO_TEST_CASE(a_pair_that_is_not_whole_leaves_the_old_one_in_use) {
  const Made old = rsa(), renewed = rsa();
  const std::string id = put("mx", Use::server, old);
  const auto refused = [&](const Pair& pair, KeyError why) {
    BOOST_TEST(vault.put("mx", Use::server, pair).error().is(why));
    BOOST_TEST((refusal(Use::server, id, Scheme::rsa_pkcs1_sha256, kDigest) == Refusal::none));
    BOOST_TEST((list(Use::server).keys.at(0).id == id));
  };
  refused({.key = renewed.pem, .certificates = old.certificate}, KeyError::mismatch);
  refused({.key = old.pem, .certificates = renewed.certificate}, KeyError::mismatch);
  refused({.key = renewed.pem, .certificates = ""}, KeyError::no_certificate);
  refused({.key = "", .certificates = renewed.certificate}, KeyError::no_key);
  refused({.key = std::string_view(renewed.pem).substr(0, 200), .certificates = renewed.certificate}, KeyError::no_key);
  refused(rsa(512).pair(), KeyError::weak);
}

BOOST_AUTO_TEST_CASE(the_pair_before_serves_until_the_next_one) {
  const Made first = rsa(), second = ec(), third = ec();
  const std::string one = put("mx", Use::server, first), two = put("mx", Use::server, second);
  BOOST_TEST((list(Use::server).keys.size() == 1U && list(Use::server).keys[0].id == two));
  BOOST_TEST((refusal(Use::server, one, Scheme::rsa_pkcs1_sha256, kDigest) == Refusal::none));
  put("mx", Use::server, second);  // read again: nothing goes
  BOOST_TEST((refusal(Use::server, one, Scheme::rsa_pkcs1_sha256, kDigest) == Refusal::none));
  put("mx", Use::server, third);
  BOOST_TEST((refusal(Use::server, one, Scheme::rsa_pkcs1_sha256, kDigest) == Refusal::unknown_key));
  BOOST_TEST((refusal(Use::server, two, Scheme::ecdsa_sha256, kDigest) == Refusal::none));
  // Another name with the same key keeps it.
  put("other", Use::server, second);
  vault.forget("mx", Use::server);
  BOOST_TEST((refusal(Use::server, two, Scheme::ecdsa_sha256, kDigest) == Refusal::none));
  vault.forget("other", Use::server);
  BOOST_TEST((refusal(Use::server, two, Scheme::ecdsa_sha256, kDigest) == Refusal::unknown_key));
  BOOST_TEST(vault.names(Use::server) == 0U);
}

BOOST_AUTO_TEST_CASE(lists_hold_public_parts_alone_and_come_in_pieces) {
  const Made made = ec();
  const std::string chain = made.certificate + made.pem + made.certificate;  // as chain files hold them
  BOOST_REQUIRE(vault.put("0", Use::server, {.key = made.pem, .certificates = chain}).has_value());
  const auto held = list(Use::server).keys.at(0);
  BOOST_TEST(held.certificates == made.certificate + made.certificate);
  BOOST_TEST(!held.certificates.contains("PRIVATE"));
  const unsigned char* at = bytes_of(held.public_key);
  const Owned<EVP_PKEY> key(d2i_PUBKEY(nullptr, &at, static_cast<long>(held.public_key.size())));
  BOOST_TEST((key && EVP_PKEY_eq(key.get(), made.key.get()) == 1));
  constexpr int kMany = 2000;
  for (int i = 1; i < kMany; ++i) put(std::to_string(i), Use::server, made);
  std::size_t seen = 0, answers = 0;
  for (std::string after;; ++answers) {
    const Listed part = list(Use::server, after);
    BOOST_TEST(encode(part).size() < (std::size_t{1} << 20));
    seen += part.keys.size();
    if (!part.more) break;
    after = part.keys.back().name;
  }
  BOOST_TEST(seen == static_cast<std::size_t>(kMany));
  BOOST_TEST(answers > 0U);
}

BOOST_AUTO_TEST_SUITE_END()
