#include "lib/net/tls/testing/test_certificates.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "lib/base/check.h"
#include "lib/net/tls/openssl.h"

namespace pen::tls::testing {
namespace {

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<std::size_t>(size));
}
std::string pem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return text_of(bio.get());
}
std::string pem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return text_of(bio.get());
}

void add_extension(X509* to, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  PEN_CHECK(extension != nullptr);
  X509_add_ext(to, extension, -1);
  X509_EXTENSION_free(extension);
}

KeyPtr new_key(unsigned rsa) { return KeyPtr(rsa != 0 ? EVP_RSA_gen(rsa) : EVP_EC_gen("P-256")); }

X509Ptr new_certificate(EVP_PKEY* key, const std::string& common_name, int days_left, long serial) {
  X509Ptr c(X509_new());
  X509_set_version(c.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(c.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(c.get()), -86400L * 10);
  X509_gmtime_adj(X509_getm_notAfter(c.get()), 86400L * days_left);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(c.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0);
  X509_set_pubkey(c.get(), key);
  return c;
}

}  // namespace

struct Authority::Impl {
  KeyPtr key;
  X509Ptr certificate;
  std::string text;
  long serial = 1;
};

Authority::Authority(const std::string& common_name) : impl_(new Impl) {
  impl_->key = new_key(0);
  impl_->certificate = new_certificate(impl_->key.get(), common_name, 2, impl_->serial++);
  X509* c = impl_->certificate.get();
  X509_set_issuer_name(c, X509_get_subject_name(c));
  add_extension(c, c, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(c, c, NID_subject_key_identifier, "hash");
  PEN_CHECK(X509_sign(c, impl_->key.get(), EVP_sha256()) > 0);
  impl_->text = pem(c);
}
Authority::~Authority() { delete impl_; }
const std::string& Authority::certificate() const { return impl_->text; }

Issued Authority::issue(const Request& request) {
  const KeyPtr key = new_key(request.rsa);
  const X509Ptr c = new_certificate(key.get(), request.common_name, request.days_left, impl_->serial++);
  X509* issuer = impl_->certificate.get();
  X509_set_issuer_name(c.get(), X509_get_subject_name(issuer));
  std::string names;
  for (const auto& name : request.names) names += (names.empty() ? "DNS:" : ",DNS:") + name;
  if (!names.empty()) add_extension(c.get(), issuer, NID_subject_alt_name, names);
  if (!request.use.empty()) add_extension(c.get(), issuer, NID_ext_key_usage, request.use);
  PEN_CHECK(X509_sign(c.get(), impl_->key.get(), EVP_sha256()) > 0);
  return {pem(c.get()), pem(key.get())};
}

std::string Authority::key_der(const std::string& certificate) {
  const BioPtr bio(BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())));
  const X509Ptr c(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  unsigned char* der = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(c.get()), &der);
  PEN_CHECK(size > 0);
  std::string out(reinterpret_cast<const char*>(der), static_cast<std::size_t>(size));
  OPENSSL_free(der);
  return out;
}

std::string Authority::traditional_key(const std::string& key) {
  const BioPtr in(BIO_new_mem_buf(key.data(), static_cast<int>(key.size()))), out(BIO_new(BIO_s_mem()));
  const KeyPtr read(PEM_read_bio_PrivateKey(in.get(), nullptr, nullptr, nullptr));
  PEN_CHECK(read && PEM_write_bio_PrivateKey_traditional(out.get(), read.get(), nullptr, nullptr, 0, nullptr, nullptr));
  char* data = nullptr;
  const auto size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string Authority::key_hash(const std::string& certificate, const char* digest) {
  const std::string der = key_der(certificate);
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  PEN_CHECK(EVP_Digest(der.data(), der.size(), hash, &length, EVP_get_digestbyname(digest), nullptr) == 1);
  return std::string(reinterpret_cast<const char*>(hash), length);
}

}  // namespace pen::tls::testing
