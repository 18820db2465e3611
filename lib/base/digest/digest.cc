#include "lib/base/digest/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace pen::digest {
namespace {

const EVP_MD* type_of(Digest digest) {
  switch (digest) {
    case Digest::md5:
      return EVP_md5();
    case Digest::sha1:
      return EVP_sha1();
    case Digest::sha256:
      break;
  }
  return EVP_sha256();
}

const unsigned char* bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

}  // namespace

std::string hash(Digest digest, std::string_view data) {
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  if (EVP_Digest(data.data(), data.size(), bytes(out), &size, type_of(digest), nullptr) != 1) size = 0;
  out.resize(size);
  return out;
}

std::string hmac(Digest digest, std::string_view key, std::string_view data) {
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  if (HMAC(type_of(digest), key.data(), static_cast<int>(key.size()), bytes(data), data.size(), bytes(out), &size) ==
      nullptr)
    size = 0;
  out.resize(size);
  return out;
}

std::string pbkdf2(Digest digest, std::string_view password, std::string_view salt, unsigned iterations) {
  const EVP_MD* type = type_of(digest);
  std::string out(static_cast<std::size_t>(EVP_MD_get_size(type)), '\0');
  if (PKCS5_PBKDF2_HMAC(password.data(), static_cast<int>(password.size()), bytes(salt), static_cast<int>(salt.size()),
                        static_cast<int>(iterations), type, static_cast<int>(out.size()), bytes(out)) != 1)
    out.clear();
  return out;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace pen::digest
