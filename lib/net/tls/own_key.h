#pragma once
/// Private keys of our own, and what is made of them: a certificate that they sign themselves, a request to an
/// authority, what a TLSA record says of them. For penstock tls; TLS itself is set up by context.h.
///
/// Use:     PEN_TRY_ASSIGN(const OwnKey key, OwnKey::make("rsa", 2048));
///          write(key.pem());  write(*key.certificate({"mx.example.org"}, now));
/// Errors:  TlsError::setup, with OpenSSL's reason; unreadable.
/// Thread:  any.
/// Source:  RFC 5280 (certificates), RFC 2986 (requests), RFC 7672 section 3.1.1 (TLSA 3 1 1).
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::tls {

class OwnKey {
 public:
  /// algorithm: "rsa" with 2048 to 8192 bits (0: 2048), "ecdsa" with 256, 384 or 521 (0: 256).
  static Result<OwnKey> make(std::string_view algorithm, int bits);
  /// The first key in a file in PEM.
  static Result<OwnKey> read(const std::string& path);
  OwnKey(OwnKey&&) noexcept;
  OwnKey& operator=(OwnKey&&) noexcept;
  ~OwnKey();

  /// As PKCS #8 in PEM, without a password.
  Result<std::string> pem() const;
  /// A certificate for these hosts, from now on for ten years, in PEM. The first is the common name.
  Result<std::string> certificate(const std::vector<std::string>& hosts, WallTime now) const;
  /// A request for such a certificate, in PEM.
  Result<std::string> request(const std::vector<std::string>& hosts) const;
  /// SHA-256 of the public key (SubjectPublicKeyInfo), in hexadecimal: the data of a TLSA record 3 1 1.
  Result<std::string> digest() const;

 private:
  struct Impl;
  explicit OwnKey(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The hosts that the first certificate in the file is for: the DNS names in it, else the common name.
Result<std::vector<std::string>> certificate_hosts(const std::string& path);

}  // namespace pen::tls
