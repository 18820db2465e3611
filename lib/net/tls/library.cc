#include "lib/net/tls/library.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/opensslv.h>

#include "lib/net/tls/openssl.h"

namespace pen::tls {

std::string_view compiled_version() { return OPENSSL_VERSION_TEXT; }
std::string running_version() { return OpenSSL_version(OPENSSL_VERSION); }

std::vector<std::string_view> public_key_algorithms() {
  // What signs: the name for people, and the library's own.
  constexpr std::pair<std::string_view, const char*> kAll[] = {
      {"dsa", "DSA"}, {"ecdsa", "EC"}, {"ed25519", "ED25519"}, {"ed448", "ED448"}, {"rsa", "RSA"}};
  std::vector<std::string_view> out;
  for (const auto& [name, own] : kAll) {
    const std::unique_ptr<EVP_PKEY_CTX, Free<EVP_PKEY_CTX_free>> context(
        EVP_PKEY_CTX_new_from_name(nullptr, own, nullptr));
    if (context && EVP_PKEY_keygen_init(context.get()) == 1) out.push_back(name);
  }
  (void)take_openssl_error();  // of those that it does not have
  return out;
}

}  // namespace pen::tls
