#pragma once
/// Keys and digests of signatures, by OpenSSL.
///
/// Use:     auto key = PrivateKey::parse(pem);   std::string signature = key->sign(text);
///          auto record = KeyRecord::parse(txt);  auto key = PublicKey::of(*record);  key->verifies(text, signature)
/// Forms:   a private key is PEM (PKCS #1, PKCS #8), or base 64 of the same without its lines, or base 64 of the 32
///          bytes of an Ed25519 seed.
/// Errors:  bad_key; unsupported (other types than RSA and Ed25519, keys with a passphrase).
/// Thread:  any; a key may sign in several threads at once.
/// Source:  RFC 6376 section 3.3, RFC 8463 (Ed25519 signs the digest), RFC 8301 (sizes).
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/trust/dkim/error.h"
#include "lib/trust/dkim/key_record.h"

namespace pen::dkim {

enum class Algorithm : std::uint8_t { rsa_sha256, ed25519_sha256 };
/// "rsa-sha256"
std::string_view algorithm_name(Algorithm algorithm);

// RFC 8301 section 3.2: verifiers must not accept fewer; larger ones cost verifiers more than they protect.
inline constexpr unsigned kLeastBits = 1024, kMostBits = 8192, kUsualBits = 2048;
// Everybody has 65537, of 17 bits. With an exponent as long as the key a check takes a hundred times as long: 6.6 ms
// for 3072 bits.
inline constexpr unsigned kMostExponentBits = 64;

class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();
  void update(std::string_view data);
  /// 32 raw bytes; nothing more may be added.
  std::string finish();
  /// Another one that goes on from here.
  Sha256 copy() const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// What a signature must know of its key before there is one. The key itself may be elsewhere.
class SigningKey {
 public:
  virtual ~SigningKey() = default;
  SigningKey(const SigningKey&) = delete;
  SigningKey& operator=(const SigningKey&) = delete;
  Algorithm algorithm() const { return algorithm_; }
  /// Of each signature, in bytes.
  std::size_t signature_size() const { return signature_size_; }
  /// What p= of the key record is, before base 64.
  virtual std::string public_bytes() const = 0;

 protected:
  SigningKey(Algorithm algorithm, std::size_t signature_size)
      : algorithm_(algorithm), signature_size_(signature_size) {}

 private:
  Algorithm algorithm_;
  std::size_t signature_size_;
};
/// Those facts of a public key (SubjectPublicKeyInfo, DER).
struct KeyShape {
  Algorithm algorithm = Algorithm::rsa_sha256;
  std::size_t signature_size = 0;
};
Result<KeyShape> shape_of(std::string_view public_key);

class PrivateKey : public SigningKey {
 public:
  static Result<std::shared_ptr<const PrivateKey>> parse(std::string_view text);
  static std::shared_ptr<const PrivateKey> generate(Algorithm algorithm, unsigned bits = kUsualBits);
  ~PrivateKey() override;

  unsigned bits() const;
  /// Signs what a signature covers. Raw bytes, signature_size() of them.
  std::string sign(std::string_view covered) const;
  /// The same with the SHA-256 of what is covered.
  std::string sign_digest(std::string_view digest) const;
  /// PKCS #8.
  std::string pem() const;
  std::string public_bytes() const override;

 private:
  struct Key;
  explicit PrivateKey(std::unique_ptr<Key> key, Algorithm algorithm);
  std::unique_ptr<Key> key_;
};

class PublicKey {
 public:
  /// Errors: bad_key; weak_key: RSA of fewer than kLeastBits; too_large: of more than kMostBits, or with an exponent of
  /// more than kMostExponentBits.
  static Result<PublicKey> of(const KeyRecord& record);
  PublicKey(PublicKey&&) noexcept;
  ~PublicKey();
  bool verifies(std::string_view covered, std::string_view signature) const;
  /// The same with the SHA-256 of what is covered.
  bool verifies_digest(std::string_view digest, std::string_view signature) const;

 private:
  struct Key;
  PublicKey(std::unique_ptr<Key> key, Algorithm algorithm);
  std::unique_ptr<Key> key_;
  Algorithm algorithm_;
};

}  // namespace pen::dkim
