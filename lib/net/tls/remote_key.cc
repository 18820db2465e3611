#include "lib/net/tls/remote_key.h"

#include <openssl/async.h>
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/base/check.h"

namespace pen::tls {
namespace {

constexpr const char* kSigner = "pen-signer";  // the address of a std::shared_ptr<RemoteSigner>
using Function = void (*)();

struct RemoteKey {
  explicit RemoteKey(const char* t) : type(t) {}
  const char* type;
  KeyPtr inner;                          // the public part, as OpenSSL has it
  std::shared_ptr<RemoteSigner> signer;  // nullptr: a public key alone, to be compared with
};
RemoteKey& key_of(void* p) { return *static_cast<RemoteKey*>(p); }
const RemoteKey& key_of(const void* p) { return *static_cast<const RemoteKey*>(p); }

template <const char* const& kType>
void* new_key(void* /*provider*/) {
  return new RemoteKey(kType);
}
void free_key(void* key) { delete &key_of(key); }

int has(const void* key, int selection) {
  const RemoteKey& k = key_of(key);
  if (!k.inner) return 0;
  return (selection & OSSL_KEYMGMT_SELECT_PRIVATE_KEY) == 0 || k.signer ? 1 : 0;
}

int match(const void* one, const void* other, int /*selection*/) {
  return EVP_PKEY_eq(key_of(one).inner.get(), key_of(other).inner.get()) == 1 ? 1 : 0;
}

int import(void* key, int /*selection*/, const OSSL_PARAM params[]) {
  RemoteKey& k = key_of(key);
  const std::unique_ptr<EVP_PKEY_CTX, Free<EVP_PKEY_CTX_free>> context(
      EVP_PKEY_CTX_new_from_name(nullptr, k.type, nullptr));
  EVP_PKEY* made = nullptr;
  if (!context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_PUBLIC_KEY, const_cast<OSSL_PARAM*>(params)) != 1)
    return 0;
  k.inner.reset(made);
  if (const OSSL_PARAM* signer = OSSL_PARAM_locate_const(params, kSigner)) {
    const void* at = nullptr;
    std::size_t size = 0;
    if (OSSL_PARAM_get_octet_string_ptr(signer, &at, &size) != 1 || size != sizeof(void*)) return 0;
    const std::shared_ptr<RemoteSigner>* shared = nullptr;
    std::memcpy(&shared, at, sizeof(shared));
    k.signer = *shared;
  }
  return 1;
}

int export_public(void* key, int selection, OSSL_CALLBACK* take, void* argument) {
  const RemoteKey& k = key_of(key);
  // OpenSSL asks for all, to sign by itself: it cannot.
  if (k.signer && (selection & OSSL_KEYMGMT_SELECT_PRIVATE_KEY) != 0) return 0;
  OSSL_PARAM* params = nullptr;
  if (EVP_PKEY_todata(k.inner.get(), EVP_PKEY_PUBLIC_KEY, &params) != 1) return 0;
  const int taken = take(params, argument);
  OSSL_PARAM_free(params);
  return taken;
}

const OSSL_PARAM* no_types(int /*selection*/) {
  static const OSSL_PARAM kNone[] = {OSSL_PARAM_octet_string(kSigner, nullptr, 0), OSSL_PARAM_END};
  return kNone;
}

int get_params(void* key, OSSL_PARAM params[]) { return EVP_PKEY_get_params(key_of(key).inner.get(), params); }
const OSSL_PARAM* gettable(void* /*provider*/) {
  static const OSSL_PARAM kAll[] = {OSSL_PARAM_int(OSSL_PKEY_PARAM_BITS, nullptr),
                                    OSSL_PARAM_int(OSSL_PKEY_PARAM_SECURITY_BITS, nullptr),
                                    OSSL_PARAM_int(OSSL_PKEY_PARAM_MAX_SIZE, nullptr),
                                    OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, nullptr, 0), OSSL_PARAM_END};
  return kAll;
}
const char* ecdsa(int /*operation*/) { return "ECDSA"; }

struct Signing {
  const RemoteKey* key = nullptr;
  std::string digest;  // its name; empty: none
  bool pss = false;
};
Signing& signing_of(void* p) { return *static_cast<Signing*>(p); }

void* new_signing(void* /*provider*/, const char* /*properties*/) { return new Signing(); }
void free_signing(void* p) { delete &signing_of(p); }

int set_params(void* p, const OSSL_PARAM params[]) {
  Signing& s = signing_of(p);
  if (params == nullptr) return 1;
  if (const OSSL_PARAM* padding = OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_PAD_MODE)) {
    int mode = 0;
    if (OSSL_PARAM_get_int(padding, &mode) != 1) return 0;
    if (mode != RSA_PKCS1_PADDING && mode != RSA_PKCS1_PSS_PADDING) return 0;
    s.pss = mode == RSA_PKCS1_PSS_PADDING;
  }
  if (const OSSL_PARAM* salt = OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_PSS_SALTLEN)) {
    // OpenSSL hands on its own constants as words.
    const char* word = nullptr;
    int length = 0;
    const bool fits = OSSL_PARAM_get_utf8_string_ptr(salt, &word) == 1
                          ? std::string_view(word) == OSSL_PKEY_RSA_PSS_SALT_LEN_DIGEST
                          : OSSL_PARAM_get_int(salt, &length) == 1 && length == RSA_PSS_SALTLEN_DIGEST;
    if (!fits) return 0;
  }
  return 1;
}
const OSSL_PARAM* settable(void* /*signing*/, void* /*provider*/) {
  static const OSSL_PARAM kAll[] = {OSSL_PARAM_int(OSSL_SIGNATURE_PARAM_PAD_MODE, nullptr),
                                    OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PSS_SALTLEN, nullptr, 0),
                                    OSSL_PARAM_END};
  return kAll;
}

int sign_init(void* p, const char* digest, void* key, const OSSL_PARAM params[]) {
  Signing& s = signing_of(p);
  if (key == nullptr || !key_of(key).signer) return 0;
  s.key = &key_of(key);
  s.digest = digest == nullptr ? "" : digest;
  return set_params(p, params);
}

// Set while drop_resting() lets a handshake fail.
thread_local bool dropping = false;
// Of the handshake that does a step now.
thread_local std::weak_ptr<const std::function<void()>> waker;

std::optional<SignatureForm> form_of(const Signing& s) {
  using Kind = SignatureForm::Kind;
  if (std::string_view(s.key->type) == "ED25519")
    return s.digest.empty() ? std::optional(SignatureForm{.kind = Kind::text, .digest_bits = 0}) : std::nullopt;
  const int bits = EVP_MD_get_size(EVP_get_digestbyname(s.digest.c_str())) * 8;
  if (bits != 256 && bits != 384 && bits != 512) return std::nullopt;
  if (std::string_view(s.key->type) == "EC") return SignatureForm{.kind = Kind::ecdsa, .digest_bits = bits};
  return SignatureForm{.kind = s.pss ? Kind::pss : Kind::pkcs1, .digest_bits = bits};
}

int sign(void* p, unsigned char* out, std::size_t* size, std::size_t room, const unsigned char* text,
         std::size_t text_size) {
  const Signing& s = signing_of(p);
  const auto most = static_cast<std::size_t>(EVP_PKEY_get_size(s.key->inner.get()));
  if (out == nullptr) {
    *size = most;
    return 1;
  }
  const auto form = form_of(s);
  if (!form) return 0;
  std::string data(reinterpret_cast<const char*>(text), text_size);
  if (form->kind != SignatureForm::Kind::text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned length = 0;
    if (EVP_Digest(text, text_size, digest.data(), &length, EVP_get_digestbyname(s.digest.c_str()), nullptr) != 1)
      return 0;
    data.assign(reinterpret_cast<const char*>(digest.data()), length);
  }
  const auto pending = s.key->signer->ask(*form, std::move(data));
  if (!rest_until(*pending)) return 0;
  if (!pending->signature || pending->signature->size() > std::min(most, room)) return 0;
  std::memcpy(out, pending->signature->data(), pending->signature->size());
  *size = pending->signature->size();
  return 1;
}

Function erased(auto* function) { return reinterpret_cast<Function>(function); }

constexpr const char* kRsa = "RSA";
constexpr const char* kEc = "EC";
constexpr const char* kEd25519 = "ED25519";

template <const char* const& kType>
const OSSL_DISPATCH* keys() {
  static const OSSL_DISPATCH kTable[] = {
      {OSSL_FUNC_KEYMGMT_NEW, erased(new_key<kType>)},
      {OSSL_FUNC_KEYMGMT_FREE, erased(free_key)},
      {OSSL_FUNC_KEYMGMT_HAS, erased(has)},
      {OSSL_FUNC_KEYMGMT_MATCH, erased(match)},
      {OSSL_FUNC_KEYMGMT_IMPORT, erased(import)},
      {OSSL_FUNC_KEYMGMT_IMPORT_TYPES, erased(no_types)},
      {OSSL_FUNC_KEYMGMT_EXPORT, erased(export_public)},
      {OSSL_FUNC_KEYMGMT_EXPORT_TYPES, erased(no_types)},
      {OSSL_FUNC_KEYMGMT_GET_PARAMS, erased(get_params)},
      {OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS, erased(gettable)},
      {std::string_view(kType) == "EC" ? OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME : 0, erased(ecdsa)},
      {0, nullptr}};
  return kTable;
}

const OSSL_ALGORITHM* algorithms(void* /*provider*/, int operation, int* no_cache) {
  static const OSSL_DISPATCH kSigns[] = {{OSSL_FUNC_SIGNATURE_NEWCTX, erased(new_signing)},
                                         {OSSL_FUNC_SIGNATURE_FREECTX, erased(free_signing)},
                                         {OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT, erased(sign_init)},
                                         {OSSL_FUNC_SIGNATURE_DIGEST_SIGN, erased(sign)},
                                         {OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS, erased(set_params)},
                                         {OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS, erased(settable)},
                                         {0, nullptr}};
  static const OSSL_ALGORITHM kKeys[] = {{"RSA", "provider=pen", keys<kRsa>(), nullptr},
                                         {"EC", "provider=pen", keys<kEc>(), nullptr},
                                         {"ED25519", "provider=pen", keys<kEd25519>(), nullptr},
                                         {nullptr, nullptr, nullptr, nullptr}};
  static const OSSL_ALGORITHM kSignatures[] = {{"RSA", "provider=pen", kSigns, nullptr},
                                               {"ECDSA", "provider=pen", kSigns, nullptr},
                                               {"ED25519", "provider=pen", kSigns, nullptr},
                                               {nullptr, nullptr, nullptr, nullptr}};
  *no_cache = 0;
  if (operation == OSSL_OP_KEYMGMT) return kKeys;
  return operation == OSSL_OP_SIGNATURE ? kSignatures : nullptr;
}

int open_provider(const OSSL_CORE_HANDLE* /*core*/, const OSSL_DISPATCH* /*in*/, const OSSL_DISPATCH** out,
                  void** provider) {
  static const OSSL_DISPATCH kTable[] = {{OSSL_FUNC_PROVIDER_QUERY_OPERATION, erased(algorithms)}, {0, nullptr}};
  *out = kTable;
  static int one;
  *provider = &one;
  return 1;
}

/// A library context of its own: what is fetched elsewhere by name never finds this provider.
OSSL_LIB_CTX* library() {
  static OSSL_LIB_CTX* const made = [] {
    OSSL_LIB_CTX* context = OSSL_LIB_CTX_new();
    PEN_CHECK(context != nullptr && OSSL_PROVIDER_add_builtin(context, "pen", open_provider) == 1 &&
                  OSSL_PROVIDER_load(context, "pen") != nullptr,
              "OpenSSL takes no provider");
    return context;
  }();
  return made;
}

}  // namespace

KeyPtr remote_key(EVP_PKEY* public_key, std::shared_ptr<RemoteSigner> signer) {
  const char* type = EVP_PKEY_is_a(public_key, kRsa) == 1       ? kRsa
                     : EVP_PKEY_is_a(public_key, kEc) == 1      ? kEc
                     : EVP_PKEY_is_a(public_key, kEd25519) == 1 ? kEd25519
                                                                : nullptr;
  if (type == nullptr) return nullptr;
  OSSL_PARAM* params = nullptr;
  if (EVP_PKEY_todata(public_key, EVP_PKEY_PUBLIC_KEY, &params) != 1) return nullptr;
  const auto* address = &signer;
  OSSL_PARAM more[] = {OSSL_PARAM_construct_octet_string(kSigner, &address, sizeof(address)),
                       OSSL_PARAM_construct_end()};
  OSSL_PARAM* all = OSSL_PARAM_merge(params, more);
  const std::unique_ptr<EVP_PKEY_CTX, Free<EVP_PKEY_CTX_free>> context(
      EVP_PKEY_CTX_new_from_name(library(), type, nullptr));
  EVP_PKEY* made = nullptr;
  if (context && all != nullptr && EVP_PKEY_fromdata_init(context.get()) == 1)
    EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_KEYPAIR, all);
  OSSL_PARAM_free(all);
  OSSL_PARAM_free(params);
  return KeyPtr(made);
}

bool rest_until(PendingAnswer& pending) {
  pending.wake = waker;
  while (!pending.answered)
    if (dropping || ASYNC_get_current_job() == nullptr || ASYNC_pause_job() != 1) return false;
  return true;
}

Rests::Rests(std::weak_ptr<const std::function<void()>> wake) { waker = std::move(wake); }
Rests::~Rests() { waker.reset(); }

void drop_resting(SSL* ssl) {
  if (SSL_waiting_for_async(ssl) != 1) return;
  dropping = true;
  SSL_do_handshake(ssl);
  dropping = false;
  ERR_clear_error();
}

}  // namespace pen::tls
