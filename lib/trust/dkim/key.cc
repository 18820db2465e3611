#include "lib/trust/dkim/key.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <mutex>
#include <vector>

#include "lib/base/base64.h"
#include "lib/base/check.h"
#include "lib/base/digest/owned.h"
#include "lib/base/text.h"
#include "lib/trust/dkim/tag_list.h"

namespace pen::dkim {
namespace {

using digest::bytes_of;
using digest::no_passphrase;
using digest::Owned;
using digest::text_of;

Owned<EVP_PKEY> read_private(std::string_view text) {
  if (text.contains("-----BEGIN")) {
    const Owned<BIO> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    return Owned<EVP_PKEY>(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  }
  const auto der = base64_decode(without_blanks(text));
  if (!der) return nullptr;
  constexpr std::size_t kSeed = 32;
  if (der->size() == kSeed)
    return Owned<EVP_PKEY>(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes_of(*der), der->size()));
  const unsigned char* p = bytes_of(*der);
  return Owned<EVP_PKEY>(d2i_AutoPrivateKey(nullptr, &p, static_cast<long>(der->size())));
}

/// EVP_sha256() is looked for anew at each use.
const EVP_MD* fetched_sha256() {
  static const EVP_MD* const md = EVP_MD_fetch(nullptr, "SHA256", nullptr);  // for the life of the process
  return md;
}

/// Of an RSA key.
bool has_small_exponent(EVP_PKEY* key) {
  BIGNUM* exponent = nullptr;
  if (EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &exponent) != 1) return false;
  const bool is_small = BN_num_bits(exponent) <= static_cast<int>(kMostExponentBits);
  BN_free(exponent);
  return is_small;
}

std::string sha256(std::string_view data) {
  Sha256 hash;
  hash.update(data);
  return hash.finish();
}

}  // namespace

std::string_view algorithm_name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::rsa_sha256:
      return "rsa-sha256";
    case Algorithm::ed25519_sha256:
      return "ed25519-sha256";
  }
  return "unknown";
}

struct Sha256::Context {
  Owned<EVP_MD_CTX> context{EVP_MD_CTX_new()};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  PEN_CHECK(EVP_DigestInit_ex2(context_->context.get(), fetched_sha256(), nullptr) == 1, "no SHA-256");
}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::string_view data) {
  PEN_CHECK(EVP_DigestUpdate(context_->context.get(), data.data(), data.size()) == 1, "SHA-256");
}

std::string Sha256::finish() {
  std::string out(32, '\0');
  PEN_CHECK(EVP_DigestFinal_ex(context_->context.get(), bytes_of(out), nullptr) == 1, "SHA-256");
  return out;
}

Sha256 Sha256::copy() const {
  Sha256 out;
  PEN_CHECK(EVP_MD_CTX_copy_ex(out.context_->context.get(), context_->context.get()) == 1, "SHA-256");
  return out;
}

struct PrivateKey::Key {
  explicit Key(Owned<EVP_PKEY> k) : key(std::move(k)) {}
  Owned<EVP_PKEY> key;
  // Contexts of RSA that are ready to sign: to make one costs as much as the rest of a short message. One at most for
  // each thread that ever signed at the same time as others.
  std::mutex mutex;
  std::vector<Owned<EVP_PKEY_CTX>> ready;

  Owned<EVP_PKEY_CTX> take() {
    {
      const std::scoped_lock lock(mutex);
      if (!ready.empty()) {
        auto context = std::move(ready.back());
        ready.pop_back();
        return context;
      }
    }
    Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new(key.get(), nullptr));
    const bool good = context && EVP_PKEY_sign_init(context.get()) == 1 &&
                      EVP_PKEY_CTX_set_rsa_padding(context.get(), RSA_PKCS1_PADDING) == 1 &&
                      EVP_PKEY_CTX_set_signature_md(context.get(), EVP_sha256()) == 1;
    PEN_CHECK(good, "a key that was read does not sign");
    return context;
  }
  void put_back(Owned<EVP_PKEY_CTX> context) {
    const std::scoped_lock lock(mutex);
    ready.push_back(std::move(context));
  }
};

PrivateKey::PrivateKey(std::unique_ptr<Key> key, Algorithm algorithm)
    : SigningKey(algorithm, static_cast<std::size_t>(EVP_PKEY_get_size(key->key.get()))), key_(std::move(key)) {}
PrivateKey::~PrivateKey() = default;

Result<std::shared_ptr<const PrivateKey>> PrivateKey::parse(std::string_view text) {
  constexpr std::size_t kMaxText = 64 * 1024;
  if (text.size() > kMaxText) return fail(DkimError::too_large);
  auto key = read_private(text);
  ERR_clear_error();
  if (!key) return fail(DkimError::bad_key, "no private key that can be read without a passphrase");
  auto owned = std::make_unique<Key>(std::move(key));
  switch (EVP_PKEY_get_base_id(owned->key.get())) {
    case EVP_PKEY_RSA:
      return std::shared_ptr<const PrivateKey>(new PrivateKey(std::move(owned), Algorithm::rsa_sha256));
    case EVP_PKEY_ED25519:
      return std::shared_ptr<const PrivateKey>(new PrivateKey(std::move(owned), Algorithm::ed25519_sha256));
    default:
      return fail(DkimError::unsupported, "a key that is neither RSA nor Ed25519");
  }
}

std::shared_ptr<const PrivateKey> PrivateKey::generate(Algorithm algorithm, unsigned bits) {
  const int type = algorithm == Algorithm::rsa_sha256 ? EVP_PKEY_RSA : EVP_PKEY_ED25519;
  const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_id(type, nullptr));
  EVP_PKEY* key = nullptr;
  bool good = EVP_PKEY_keygen_init(context.get()) == 1;
  if (type == EVP_PKEY_RSA) good = good && EVP_PKEY_CTX_set_rsa_keygen_bits(context.get(), static_cast<int>(bits)) == 1;
  PEN_CHECK(good && EVP_PKEY_keygen(context.get(), &key) == 1, "no key can be made");
  auto owned = std::make_unique<Key>(Owned<EVP_PKEY>(key));
  return std::shared_ptr<const PrivateKey>(new PrivateKey(std::move(owned), algorithm));
}

unsigned PrivateKey::bits() const { return static_cast<unsigned>(EVP_PKEY_get_bits(key_->key.get())); }

std::string PrivateKey::sign(std::string_view covered) const { return sign_digest(sha256(covered)); }

std::string PrivateKey::sign_digest(std::string_view digest) const {
  // Ed25519 signs it too, and not the text (RFC 8463 section 3).
  std::string out(signature_size(), '\0');
  std::size_t size = out.size();
  bool good = false;
  if (algorithm() == Algorithm::rsa_sha256) {
    auto context = key_->take();
    good = EVP_PKEY_sign(context.get(), bytes_of(out), &size, bytes_of(digest), digest.size()) == 1;
    key_->put_back(std::move(context));
  } else {
    const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
    good = EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_->key.get()) == 1 &&
           EVP_DigestSign(context.get(), bytes_of(out), &size, bytes_of(digest), digest.size()) == 1;
  }
  PEN_CHECK(good && size == out.size(), "a key that was read does not sign");
  return out;
}

std::string PrivateKey::pem() const {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  PEN_CHECK(PEM_write_bio_PKCS8PrivateKey(bio.get(), key_->key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1,
            "PEM");
  return text_of(bio.get());
}

std::string PrivateKey::public_bytes() const {
  if (algorithm() == Algorithm::ed25519_sha256) {
    std::string out(32, '\0');
    std::size_t size = out.size();
    PEN_CHECK(EVP_PKEY_get_raw_public_key(key_->key.get(), bytes_of(out), &size) == 1, "Ed25519");
    return out;
  }
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  PEN_CHECK(i2d_PUBKEY_bio(bio.get(), key_->key.get()) == 1, "RSA");
  return text_of(bio.get());
}

Result<KeyShape> shape_of(std::string_view public_key) {
  const unsigned char* p = bytes_of(public_key);
  const Owned<EVP_PKEY> key(d2i_PUBKEY(nullptr, &p, static_cast<long>(public_key.size())));
  ERR_clear_error();
  if (!key) return fail(DkimError::bad_key);
  const auto size = static_cast<std::size_t>(EVP_PKEY_get_size(key.get()));
  switch (EVP_PKEY_get_base_id(key.get())) {
    case EVP_PKEY_RSA:
      return KeyShape{Algorithm::rsa_sha256, size};
    case EVP_PKEY_ED25519:
      return KeyShape{Algorithm::ed25519_sha256, size};
    default:
      return fail(DkimError::unsupported, "a key that is neither RSA nor Ed25519");
  }
}

struct PublicKey::Key {
  Owned<EVP_PKEY> key;
};

PublicKey::PublicKey(std::unique_ptr<Key> key, Algorithm algorithm) : key_(std::move(key)), algorithm_(algorithm) {}
PublicKey::PublicKey(PublicKey&&) noexcept = default;
PublicKey::~PublicKey() = default;

Result<PublicKey> PublicKey::of(const KeyRecord& record) {
  if (record.type == KeyRecord::Type::ed25519) {
    Owned<EVP_PKEY> key(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(record.key), record.key.size()));
    ERR_clear_error();
    if (!key) return fail(DkimError::bad_key);
    return PublicKey(std::make_unique<Key>(std::move(key)), Algorithm::ed25519_sha256);
  }
  const unsigned char* p = bytes_of(record.key);
  const auto size = static_cast<long>(record.key.size());
  Owned<EVP_PKEY> key(d2i_PUBKEY(nullptr, &p, size));
  if (!key) {  // some publish the bare key
    p = bytes_of(record.key);
    key.reset(d2i_PublicKey(EVP_PKEY_RSA, nullptr, &p, size));
  }
  ERR_clear_error();
  if (!key || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_RSA) return fail(DkimError::bad_key);
  const int bits = EVP_PKEY_get_bits(key.get());
  if (bits < static_cast<int>(kLeastBits)) return fail(DkimError::weak_key, std::to_string(bits) + " bits");
  if (bits > static_cast<int>(kMostBits)) return fail(DkimError::too_large, std::to_string(bits) + " bits");
  if (!has_small_exponent(key.get())) return fail(DkimError::too_large, "exponent");
  return PublicKey(std::make_unique<Key>(std::move(key)), Algorithm::rsa_sha256);
}

bool PublicKey::verifies(std::string_view covered, std::string_view signature) const {
  return verifies_digest(sha256(covered), signature);
}

bool PublicKey::verifies_digest(std::string_view digest, std::string_view signature) const {
  bool good = false;
  if (algorithm_ == Algorithm::rsa_sha256) {
    const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_from_pkey(nullptr, key_->key.get(), nullptr));
    good = EVP_PKEY_verify_init(context.get()) == 1 &&
           EVP_PKEY_CTX_set_rsa_padding(context.get(), RSA_PKCS1_PADDING) == 1 &&
           EVP_PKEY_CTX_set_signature_md(context.get(), EVP_sha256()) == 1 &&
           EVP_PKEY_verify(context.get(), bytes_of(signature), signature.size(), bytes_of(digest), digest.size()) == 1;
  } else {
    // RFC 8463 section 3: the digest is what is signed.
    const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
    good = EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key_->key.get()) == 1 &&
           EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(digest), digest.size()) == 1;
  }
  ERR_clear_error();
  return good;
}

}  // namespace pen::dkim
