#include "lib/net/tls/certificate_file.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <ctime>

#include "lib/net/tls/openssl.h"

namespace pen::tls {
namespace {

using File = std::unique_ptr<FILE, Free<std::fclose>>;

File open(const std::string& path) { return File(std::fopen(path.c_str(), "re")); }
int no_password(char*, int, int, void*) { return 0; }

X509Ptr certificate_of(const std::string& path) {
  const File file = open(path);
  return X509Ptr(file ? PEM_read_X509(file.get(), nullptr, no_password, nullptr) : nullptr);
}
KeyPtr key_of(const std::string& path) {
  const File file = open(path);
  return KeyPtr(file ? PEM_read_PrivateKey(file.get(), nullptr, no_password, nullptr) : nullptr);
}

std::optional<WallTime> time_of(const ASN1_TIME* time) {
  std::tm tm{};
  if (ASN1_TIME_to_tm(time, &tm) != 1) return std::nullopt;
  return WallTime(seconds(::timegm(&tm)));
}

}  // namespace

std::optional<CertificateDates> look_at_certificate(const std::string& path) {
  const X509Ptr x = certificate_of(path);
  if (!x) return std::nullopt;
  const auto begins = time_of(X509_get0_notBefore(x.get())), ends = time_of(X509_get0_notAfter(x.get()));
  if (!begins || !ends) return std::nullopt;
  return CertificateDates{*begins, *ends};
}

bool holds_private_key(const std::string& path) { return key_of(path) != nullptr; }

std::optional<bool> key_fits(const std::string& key_file, const std::string& certificate_file) {
  const KeyPtr key = key_of(key_file);
  const X509Ptr x = certificate_of(certificate_file);
  if (!key || !x) return std::nullopt;
  const bool fits = X509_check_private_key(x.get(), key.get()) == 1;
  (void)take_openssl_error();  // a misfit leaves one
  return fits;
}

std::string fault_of_chains(const std::string& pem, const std::string& name) {
  const auto chains = parse_chains(pem, name);
  return chains ? std::string() : chains.error().context();
}

std::optional<bool> certificate_names(const std::string& path, const std::string& host) {
  const X509Ptr x = certificate_of(path);
  if (!x) return std::nullopt;
  return X509_check_host(x.get(), host.data(), host.size(), 0, nullptr) == 1;
}

std::optional<bool> certificate_fits(const std::string& path, const Tlsa& record) {
  const File file = open(path);
  std::optional<bool> fits;
  const bool authority = record.usage == 0 || record.usage == 2;
  while (file) {
    const X509Ptr x(PEM_read_X509(file.get(), nullptr, no_password, nullptr));
    if (!x) break;
    unsigned char* der = nullptr;
    const int size =
        record.selector == 1 ? i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x.get()), &der) : i2d_X509(x.get(), &der);
    std::string data;
    if (size > 0) data.assign(reinterpret_cast<const char*>(der), static_cast<std::size_t>(size));
    OPENSSL_free(der);
    if (record.matching != 0) {
      unsigned char digest[EVP_MAX_MD_SIZE];
      unsigned length = 0;
      const EVP_MD* kind = record.matching == 1 ? EVP_sha256() : EVP_sha512();
      if (EVP_Digest(data.data(), data.size(), digest, &length, kind, nullptr) != 1) break;
      data.assign(reinterpret_cast<const char*>(digest), length);
    }
    fits = fits.value_or(false) || data == record.data;
    if (!authority) break;
  }
  (void)take_openssl_error();  // the end of the file leaves one
  return fits;
}

}  // namespace pen::tls
