#include "lib/net/tls/own_key.h"

#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include <cerrno>

#include "lib/net/tls/error.h"
#include "lib/net/tls/openssl.h"

namespace pen::tls {

namespace {

constexpr long kDays = 3650;  // nobody looks at the end of a certificate that nobody trusts

using RequestPtr = std::unique_ptr<X509_REQ, Free<X509_REQ_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<std::size_t>(size));
}

Result<BioPtr> open_pem(const std::string& path) {
  errno = 0;
  BioPtr bio(BIO_new_file(path.c_str(), "r"));
  if (bio) return bio;
  const int error = errno;
  (void)take_openssl_error();
  return fail_errno(path, error != 0 ? error : EIO);
}

/// "DNS:a,DNS:b". Names were checked: a comma in one would begin another.
std::string alternative_names(const std::vector<std::string>& hosts) {
  std::string out;
  for (const std::string& host : hosts) out += (out.empty() ? "DNS:" : ",DNS:") + host;
  return out;
}

bool name(X509_NAME* subject, const std::string& host) {
  // A common name has 64 characters at most; the name is among the others in any case.
  if (host.size() > 64) return true;
  return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(host.c_str()),
                                    -1, -1, 0) == 1;
}

/// What the certificate is for, besides its name.
std::vector<std::pair<int, std::string>> extensions(const std::vector<std::string>& hosts) {
  return {{NID_subject_alt_name, alternative_names(hosts)}, {NID_ext_key_usage, "serverAuth,clientAuth"}};
}

}  // namespace

struct OwnKey::Impl {
  KeyPtr key;
};

OwnKey::OwnKey(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OwnKey::OwnKey(OwnKey&&) noexcept = default;
OwnKey& OwnKey::operator=(OwnKey&&) noexcept = default;
OwnKey::~OwnKey() = default;

Result<OwnKey> OwnKey::make(std::string_view algorithm, int bits) {
  auto impl = std::make_unique<Impl>();
  if (algorithm == "rsa") {
    if (bits == 0) bits = 2048;
    if (bits < 2048 || bits > 8192) return fail(TlsError::setup, "rsa: 2048 to 8192 bits");
    impl->key.reset(EVP_RSA_gen(static_cast<unsigned>(bits)));
  } else if (algorithm == "ecdsa") {
    const char* curve = bits == 0 || bits == 256 ? "P-256" : bits == 384 ? "P-384" : bits == 521 ? "P-521" : nullptr;
    if (curve == nullptr) return fail(TlsError::setup, "ecdsa: 256, 384 or 521 bits");
    impl->key.reset(EVP_EC_gen(curve));
  } else {
    return fail(TlsError::setup, "the algorithm of a key: rsa or ecdsa");
  }
  if (!impl->key) return setup_failure("a new key");
  return OwnKey(std::move(impl));
}

Result<OwnKey> OwnKey::read(const std::string& path) {
  PEN_TRY_ASSIGN(const BioPtr bio, open_pem(path));
  auto impl = std::make_unique<Impl>();
  // No password is asked for: the programs could not give one.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  impl->key.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  if (!impl->key) return setup_failure(path + ": its private key");
  return OwnKey(std::move(impl));
}

Result<std::string> OwnKey::pem() const {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_PKCS8PrivateKey(bio.get(), impl_->key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return setup_failure("the key in PEM");
  return text_of(bio.get());
}

Result<std::string> OwnKey::certificate(const std::vector<std::string>& hosts, WallTime now) const {
  if (hosts.empty()) return fail(TlsError::setup, "a certificate without a host");
  const X509Ptr c(X509_new());
  unsigned char serial[16];
  if (!c || RAND_bytes(serial, sizeof serial) != 1) return setup_failure("a certificate");
  serial[0] &= 0x7FU;  // positive
  serial[0] |= 0x40U;  // and of full length
  const std::unique_ptr<BIGNUM, Free<BN_free>> number(BN_bin2bn(serial, sizeof serial, nullptr));
  X509_NAME* const subject = X509_get_subject_name(c.get());
  time_t begins = static_cast<time_t>(unix_seconds(now));
  bool ok = number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(c.get())) != nullptr &&
            X509_set_version(c.get(), X509_VERSION_3) == 1 &&
            X509_time_adj_ex(X509_getm_notBefore(c.get()), 0, 0, &begins) != nullptr &&
            X509_time_adj_ex(X509_getm_notAfter(c.get()), kDays, 0, &begins) != nullptr &&
            name(subject, hosts.front()) && X509_set_issuer_name(c.get(), subject) == 1 &&
            X509_set_pubkey(c.get(), impl_->key.get()) == 1;
  X509V3_CTX context;
  X509V3_set_ctx(&context, c.get(), c.get(), nullptr, nullptr, 0);
  auto all = extensions(hosts);
  all.emplace_back(NID_basic_constraints, "critical,CA:FALSE");
  all.emplace_back(NID_subject_key_identifier, "hash");
  for (const auto& [nid, value] : all) {
    const ExtensionPtr extension(ok ? X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()) : nullptr);
    ok = extension && X509_add_ext(c.get(), extension.get(), -1) == 1;
  }
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!ok || X509_sign(c.get(), impl_->key.get(), EVP_sha256()) == 0 || !bio ||
      PEM_write_bio_X509(bio.get(), c.get()) != 1)
    return setup_failure("a certificate for " + hosts.front());
  return text_of(bio.get());
}

Result<std::string> OwnKey::request(const std::vector<std::string>& hosts) const {
  if (hosts.empty()) return fail(TlsError::setup, "a request without a host");
  const RequestPtr r(X509_REQ_new());
  bool ok = r && X509_REQ_set_version(r.get(), X509_REQ_VERSION_1) == 1 &&
            name(X509_REQ_get_subject_name(r.get()), hosts.front()) &&
            X509_REQ_set_pubkey(r.get(), impl_->key.get()) == 1;
  const std::unique_ptr<STACK_OF(X509_EXTENSION), Free<[](STACK_OF(X509_EXTENSION) * list) {
                          sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
                        }>>
      list(sk_X509_EXTENSION_new_null());
  X509V3_CTX context;
  X509V3_set_ctx(&context, nullptr, nullptr, r.get(), nullptr, 0);
  for (const auto& [nid, value] : extensions(hosts)) {
    ExtensionPtr extension(ok && list ? X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()) : nullptr);
    ok = extension && sk_X509_EXTENSION_push(list.get(), extension.get()) > 0;
    if (ok) (void)extension.release();  // the list's
  }
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!ok || X509_REQ_add_extensions(r.get(), list.get()) != 1 ||
      X509_REQ_sign(r.get(), impl_->key.get(), EVP_sha256()) == 0 || !bio ||
      PEM_write_bio_X509_REQ(bio.get(), r.get()) != 1)
    return setup_failure("a request for " + hosts.front());
  return text_of(bio.get());
}

Result<std::string> OwnKey::digest() const {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(impl_->key.get(), &der);
  if (size <= 0) return setup_failure("the public key");
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  const bool ok = EVP_Digest(der, static_cast<std::size_t>(size), hash, &length, EVP_sha256(), nullptr) == 1;
  OPENSSL_free(der);
  if (!ok) return setup_failure("the digest of the public key");
  std::string out;
  for (unsigned i = 0; i < length; ++i) out += fmt::format("{:02x}", hash[i]);
  return out;
}

Result<std::vector<std::string>> certificate_hosts(const std::string& path) {
  PEN_TRY_ASSIGN(const BioPtr bio, open_pem(path));
  const X509Ptr c(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!c) return setup_failure(path + ": its certificate");
  std::vector<std::string> hosts;
  const std::unique_ptr<GENERAL_NAMES, Free<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(c.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* one = sk_GENERAL_NAME_value(names.get(), i);
    if (one->type != GEN_DNS) continue;
    const auto* text = reinterpret_cast<const char*>(ASN1_STRING_get0_data(one->d.dNSName));
    hosts.emplace_back(text, static_cast<std::size_t>(ASN1_STRING_length(one->d.dNSName)));
  }
  if (!hosts.empty()) return hosts;
  char text[256];
  if (X509_NAME_get_text_by_NID(X509_get_subject_name(c.get()), NID_commonName, text, sizeof text) > 0)
    hosts.emplace_back(text);
  return hosts;
}

}  // namespace pen::tls
