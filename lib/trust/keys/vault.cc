#include "lib/trust/keys/vault.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/digest/owned.h"

namespace pen::keys {
namespace {

using namespace ipc::keys;

constexpr int kLeastRsa = 1024, kMostRsa = 8192;
constexpr std::size_t kMostPem = std::size_t{64} << 10;
constexpr std::size_t kListedBytes = std::size_t{512} << 10;  // in one answer, below the longest frame
constexpr std::size_t kPremaster = 48;
constexpr std::size_t kDkimDigest = 32;
// What TLS signs is longer than this (RFC 8446 section 4.4.3: 64 blanks come first; RFC 5246 section 7.4.3: two random
// numbers of 32 bytes), and DKIM's digest is shorter: neither can be passed off as the other.
constexpr std::size_t kLeastTlsText = 65;

using digest::bytes_of;
using digest::no_passphrase;
using digest::Owned;

Owned<BIO> memory(std::string_view text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string public_part(EVP_PKEY* key) {
  const int size = i2d_PUBKEY(key, nullptr);
  if (size <= 0) return {};
  std::string out(static_cast<std::size_t>(size), '\0');
  unsigned char* at = bytes_of(out);
  PEN_CHECK(i2d_PUBKEY(key, &at) == size, "a public key changed its size");
  return out;
}

std::string id_of(std::string_view public_key) {
  std::string out(32, '\0');
  PEN_CHECK(EVP_Digest(public_key.data(), public_key.size(), bytes_of(out), nullptr, EVP_sha256(), nullptr) == 1,
            "no SHA-256");
  return out;
}

/// What a scheme is, for OpenSSL.
struct Form {
  int type;
  const EVP_MD* digest;  // nullptr: none
  int padding;           // of RSA
};
std::optional<Form> form_of(Scheme scheme) {
  switch (scheme) {
    case Scheme::rsa_pkcs1_sha256:
      return Form{EVP_PKEY_RSA, EVP_sha256(), RSA_PKCS1_PADDING};
    case Scheme::rsa_pkcs1_sha384:
      return Form{EVP_PKEY_RSA, EVP_sha384(), RSA_PKCS1_PADDING};
    case Scheme::rsa_pkcs1_sha512:
      return Form{EVP_PKEY_RSA, EVP_sha512(), RSA_PKCS1_PADDING};
    case Scheme::rsa_pss_sha256:
      return Form{EVP_PKEY_RSA, EVP_sha256(), RSA_PKCS1_PSS_PADDING};
    case Scheme::rsa_pss_sha384:
      return Form{EVP_PKEY_RSA, EVP_sha384(), RSA_PKCS1_PSS_PADDING};
    case Scheme::rsa_pss_sha512:
      return Form{EVP_PKEY_RSA, EVP_sha512(), RSA_PKCS1_PSS_PADDING};
    case Scheme::ecdsa_sha256:
      return Form{EVP_PKEY_EC, EVP_sha256(), 0};
    case Scheme::ecdsa_sha384:
      return Form{EVP_PKEY_EC, EVP_sha384(), 0};
    case Scheme::ecdsa_sha512:
      return Form{EVP_PKEY_EC, EVP_sha512(), 0};
    case Scheme::ed25519:
      return Form{EVP_PKEY_ED25519, nullptr, 0};
  }
  return std::nullopt;  // from outside
}

/// RFC 6376 and RFC 8463 have these two.
bool for_dkim(Scheme scheme) { return scheme == Scheme::rsa_pkcs1_sha256 || scheme == Scheme::ed25519; }

bool right_size(Use use, const Form& form, std::size_t size) {
  if (form.digest != nullptr) return size == static_cast<std::size_t>(EVP_MD_get_size(form.digest));
  return use == Use::dkim ? size == kDkimDigest : size >= kLeastTlsText && size <= kMostText;
}

std::optional<std::string> sign_text(EVP_PKEY* key, std::string_view text) {
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  std::string out(static_cast<std::size_t>(EVP_PKEY_get_size(key)), '\0');
  std::size_t size = out.size();
  if (EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key) != 1 ||
      EVP_DigestSign(context.get(), bytes_of(out), &size, bytes_of(text), text.size()) != 1)
    return std::nullopt;
  out.resize(size);
  return out;
}

/// nullptr: OpenSSL does not do that with this key.
Owned<EVP_PKEY_CTX> context_for(EVP_PKEY* key, const Form& form) {
  Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new(key, nullptr));
  bool good = EVP_PKEY_sign_init(context.get()) == 1 && EVP_PKEY_CTX_set_signature_md(context.get(), form.digest) == 1;
  if (good && form.type == EVP_PKEY_RSA) good = EVP_PKEY_CTX_set_rsa_padding(context.get(), form.padding) == 1;
  if (good && form.padding == RSA_PKCS1_PSS_PADDING)
    good = EVP_PKEY_CTX_set_rsa_mgf1_md(context.get(), form.digest) == 1 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(context.get(), RSA_PSS_SALTLEN_DIGEST) == 1;
  if (!good) context.reset();
  return context;
}

std::optional<std::string> sign_digest(EVP_PKEY* key, EVP_PKEY_CTX* context, std::string_view digest) {
  std::string out(static_cast<std::size_t>(EVP_PKEY_get_size(key)), '\0');
  std::size_t size = out.size();
  // Fails where an RSA key is too short for the digest.
  if (context == nullptr || EVP_PKEY_sign(context, bytes_of(out), &size, bytes_of(digest), digest.size()) != 1)
    return std::nullopt;
  out.resize(size);
  return out;
}

std::optional<std::string> premaster(EVP_PKEY* key, unsigned version, std::string_view ciphertext) {
  const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new(key, nullptr));
  if (EVP_PKEY_decrypt_init(context.get()) != 1 ||
      EVP_PKEY_CTX_set_rsa_padding(context.get(), RSA_PKCS1_WITH_TLS_PADDING) != 1)
    return std::nullopt;
  OSSL_PARAM params[] = {OSSL_PARAM_construct_uint(OSSL_ASYM_CIPHER_PARAM_TLS_CLIENT_VERSION, &version),
                         OSSL_PARAM_construct_end()};
  if (EVP_PKEY_CTX_set_params(context.get(), params) != 1) return std::nullopt;
  // OpenSSL wants room for a whole block while it works.
  std::string out(static_cast<std::size_t>(EVP_PKEY_get_size(key)), '\0');
  std::size_t size = out.size();
  if (EVP_PKEY_decrypt(context.get(), bytes_of(out), &size, bytes_of(ciphertext), ciphertext.size()) != 1 ||
      size != kPremaster)
    return std::nullopt;
  out.resize(size);
  return out;
}

Done done(std::uint64_t request, std::optional<std::string> data) {
  ERR_clear_error();
  if (!data) return {.request = request, .refusal = Refusal::failed, .data = {}};
  return {.request = request, .refusal = Refusal::none, .data = *std::move(data)};
}
FromKeys refuse(std::uint64_t request, Refusal why) { return Done{.request = request, .refusal = why, .data = {}}; }

}  // namespace

std::string_view error_module(KeyError) { return "keys"; }
std::string_view describe(KeyError e) {
  switch (e) {
    case KeyError::no_key:
      return "no private key that can be read without a passphrase";
    case KeyError::no_certificate:
      return "no certificate that can be read";
    case KeyError::mismatch:
      return "the private key is of another certificate";
    case KeyError::weak:
      return "an RSA key of fewer than 1024 bits";
    case KeyError::unsupported:
      return "a key that is neither RSA of at most 8192 bits, nor ECDSA, nor Ed25519";
    case KeyError::too_many:
      return "more than 10000 keys";
  }
  return "unknown";
}

struct Operation::Key {
  Owned<EVP_PKEY> key;
  int type = 0;
  std::string public_key, id, certificates;

  /// What OpenSSL sets up for the key and a scheme takes half as long as a signature by ECDSA, and serves one thread at
  /// a time: it is kept for the next operation. nullptr: OpenSSL does not do that with this key.
  Owned<EVP_PKEY_CTX> take_context(Scheme scheme, const Form& form) const {
    {
      const std::lock_guard lock(mutex);
      auto& kept = idle[static_cast<std::size_t>(scheme)];
      if (!kept.empty()) {
        auto out = std::move(kept.back());
        kept.pop_back();
        return out;
      }
    }
    return context_for(key.get(), form);
  }
  void keep_context(Scheme scheme, Owned<EVP_PKEY_CTX> context) const {
    if (!context) return;
    const std::lock_guard lock(mutex);
    idle[static_cast<std::size_t>(scheme)].push_back(std::move(context));  // as many as threads at most
  }

 private:
  mutable std::mutex mutex;
  mutable std::array<std::vector<Owned<EVP_PKEY_CTX>>, static_cast<std::size_t>(kLastScheme) + 1> idle;
};

bool Operation::slow() const { return key_->type == EVP_PKEY_RSA; }

Done Operation::run() const {
  EVP_PKEY* with = key_->key.get();
  if (decrypted_version_) return done(request_, premaster(with, *decrypted_version_, data_));
  const auto form = form_of(scheme_);
  PEN_CHECK(form.has_value(), "a scheme that was looked at is unknown");
  if (form->digest == nullptr) return done(request_, sign_text(with, data_));
  auto context = key_->take_context(scheme_, *form);
  auto signature = sign_digest(with, context.get(), data_);
  key_->keep_context(scheme_, std::move(context));
  return done(request_, std::move(signature));
}

Vault::Vault() = default;
Vault::~Vault() = default;
Vault::Vault(Vault&&) noexcept = default;
Vault& Vault::operator=(Vault&&) noexcept = default;

Result<std::string> Vault::put(const std::string& name, Use use, const Pair& pair) {
  auto& keys = keys_[static_cast<std::size_t>(use)];
  if (!keys.by_name.contains(name) && keys.by_name.size() >= kMostNames) return fail(KeyError::too_many, name);
  if (pair.key.size() > kMostPem) return fail(KeyError::no_key, name);
  auto made = std::make_shared<Key>();
  made->key.reset(PEM_read_bio_PrivateKey(memory(pair.key).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (!made->key) return fail(KeyError::no_key, name);
  EVP_PKEY* key = made->key.get();
  made->type = EVP_PKEY_get_base_id(key);
  const int bits = EVP_PKEY_get_bits(key);
  if (made->type == EVP_PKEY_RSA) {
    if (bits < kLeastRsa) return fail(KeyError::weak, name);
    if (bits > kMostRsa) return fail(KeyError::unsupported, name);
  } else if (made->type != EVP_PKEY_ED25519 && (made->type != EVP_PKEY_EC || use == Use::dkim)) {
    return fail(KeyError::unsupported, name);
  }
  if (use != Use::dkim) {
    if (pair.certificates.size() > kMostPem) return fail(KeyError::no_certificate, name);
    const Owned<X509> own(PEM_read_bio_X509(memory(pair.certificates).get(), nullptr, no_passphrase, nullptr));
    ERR_clear_error();
    if (!own) return fail(KeyError::no_certificate, name);
    const bool fits = X509_check_private_key(own.get(), key) == 1;
    ERR_clear_error();
    if (!fits) return fail(KeyError::mismatch, name);
    // Certificates alone: the text may be a file that holds the key as well.
    const Owned<BIO> in = memory(pair.certificates), out(BIO_new(BIO_s_mem()));
    while (const Owned<X509> one{PEM_read_bio_X509(in.get(), nullptr, no_passphrase, nullptr)})
      PEN_CHECK(PEM_write_bio_X509(out.get(), one.get()) == 1, "PEM");
    ERR_clear_error();
    char* data = nullptr;
    const auto size = BIO_get_mem_data(out.get(), &data);
    made->certificates.assign(data, static_cast<std::size_t>(size));
  }
  made->public_key = public_part(key);
  if (made->public_key.empty()) return fail(KeyError::unsupported, name);
  made->id = id_of(made->public_key);
  std::string id = made->id;
  Named& named = keys.by_name[name];
  // The same key again, with the same or a renewed certificate: what came before it is still asked for.
  const bool replaces = named.current != nullptr;
  if (replaces && named.current->id != id) named.before = std::move(named.current);
  named.current = std::move(made);
  if (replaces) index(keys);
  keys.by_id[id] = named.current;
  return id;
}

void Vault::forget(const std::string& name, Use use) {
  auto& keys = keys_[static_cast<std::size_t>(use)];
  keys.by_name.erase(name);
  index(keys);
}

std::size_t Vault::names(Use use) const { return keys_[static_cast<std::size_t>(use)].by_name.size(); }

void Vault::index(Keys& keys) {
  keys.by_id.clear();
  for (const auto& [name, named] : keys.by_name) {
    keys.by_id[named.current->id] = named.current;
    if (named.before) keys.by_id.try_emplace(named.before->id, named.before);
  }
}

std::shared_ptr<const Vault::Key> Vault::find(Use use, std::string_view id) const {
  const auto& keys = keys_[static_cast<std::size_t>(use)];
  const auto at = keys.by_id.find(id);
  return at == keys.by_id.end() ? nullptr : at->second.lock();
}

std::variant<FromKeys, Operation> Vault::begin(Use use, const ToKeys& request) const {
  if (const auto* wanted = std::get_if<Sign>(&request)) return sign(use, *wanted);
  if (const auto* wanted = std::get_if<Decrypt>(&request)) return decrypt(use, *wanted);
  if (const auto* wanted = std::get_if<Find>(&request)) return FromKeys(Listed{.request = wanted->request, .keys = {}});
  return list(use, std::get<List>(request));
}

FromKeys Vault::answer(Use use, const ToKeys& request) const {
  auto begun = begin(use, request);
  if (const auto* operation = std::get_if<Operation>(&begun)) return operation->run();
  return std::get<FromKeys>(std::move(begun));
}

Held Vault::held(const std::string& name, const Key& key) {
  return {.name = name, .id = key.id, .public_key = key.public_key, .certificates = key.certificates, .error = {}};
}

std::optional<Held> Vault::look_up(Use use, const std::string& name) const {
  const auto& names = keys_[static_cast<std::size_t>(use)].by_name;
  const auto at = names.find(name);
  if (at == names.end()) return std::nullopt;
  return held(name, *at->second.current);
}

FromKeys Vault::list(Use use, const List& wanted) const {
  Listed out{.request = wanted.request, .keys = {}, .more = false};
  const auto& names = keys_[static_cast<std::size_t>(use)].by_name;
  std::size_t bytes = 0;
  for (auto at = names.upper_bound(std::string(wanted.after)); at != names.end(); ++at) {
    const auto& [name, named] = *at;
    const Key& key = *named.current;
    bytes += name.size() + key.public_key.size() + key.certificates.size() + 64;
    if (bytes > kListedBytes && !out.keys.empty()) {
      out.more = true;
      break;
    }
    out.keys.push_back(held(name, key));
  }
  return out;
}

std::variant<FromKeys, Operation> Vault::sign(Use use, const Sign& wanted) const {
  auto key = find(use, wanted.key);
  if (!key) return refuse(wanted.request, Refusal::unknown_key);
  const auto form = form_of(wanted.scheme);
  if (!form || form->type != key->type || (use == Use::dkim && !for_dkim(wanted.scheme)))
    return refuse(wanted.request, Refusal::scheme);
  if (!right_size(use, *form, wanted.data.size())) return refuse(wanted.request, Refusal::size);
  Operation out;
  out.key_ = std::move(key);
  out.request_ = wanted.request;
  out.scheme_ = wanted.scheme;
  out.data_ = wanted.data;
  return out;
}

std::variant<FromKeys, Operation> Vault::decrypt(Use use, const Decrypt& wanted) const {
  auto key = find(use, wanted.key);
  if (!key) return refuse(wanted.request, Refusal::unknown_key);
  if (use != Use::server || key->type != EVP_PKEY_RSA) return refuse(wanted.request, Refusal::scheme);
  // Each is one block.
  if (wanted.data.size() > kMostCiphertext ||
      wanted.data.size() != static_cast<std::size_t>(EVP_PKEY_get_size(key->key.get())))
    return refuse(wanted.request, Refusal::size);
  Operation out;
  out.key_ = std::move(key);
  out.request_ = wanted.request;
  out.decrypted_version_ = wanted.version;
  out.data_ = wanted.data;
  return out;
}

}  // namespace pen::keys
