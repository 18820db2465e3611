// Requests to the holder of keys, from any bytes: no crash; nothing but the sizes that a key has; nothing for a key
// that is not for this use.
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <array>
#include <cstdlib>

#include "lib/trust/keys/vault.h"

using namespace pen;
using ipc::keys::Done;
using ipc::keys::Refusal;
using keys::Use;

namespace {

std::string pem_of(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio, &data);
  std::string out(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  EVP_PKEY_free(key);
  return out;
}

struct World {
  keys::Vault vault;
  std::array<std::string, 2> ids;
  World() {
    ids[0] = vault.put("r", Use::dkim, {.key = pem_of(EVP_RSA_gen(1024)), .certificates = {}}).value();
    ids[1] =
        vault.put("e", Use::dkim, {.key = pem_of(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")), .certificates = {}})
            .value();
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static const World world;
  if (size < 2) return 0;
  const auto use = static_cast<Use>(data[0] % keys::kUses);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  auto request = decode<ipc::keys::ToKeys>(bytes);
  if (!request) return 0;
  // A fuzzer does not guess 32 bytes.
  const std::size_t which = data[1] % 3;
  std::string_view key = which < 2 ? std::string_view(world.ids[which]) : std::string_view();
  if (auto* sign = std::get_if<ipc::keys::Sign>(&*request); sign != nullptr && which < 2) sign->key = key;
  if (auto* decrypt = std::get_if<ipc::keys::Decrypt>(&*request); decrypt != nullptr && which < 2) decrypt->key = key;
  const auto answer = world.vault.answer(use, *request);
  if (const auto* done = std::get_if<Done>(&answer)) {
    if (done->data.empty() == (done->refusal == Refusal::none)) std::abort();
    if (use != Use::dkim && done->refusal == Refusal::none) std::abort();
    if (std::holds_alternative<ipc::keys::Decrypt>(*request) && done->refusal == Refusal::none) std::abort();
    if (done->data.size() > 128) std::abort();
  }
  return 0;
}
