#pragma once
/// For tests: certificates made at run time, so that none in the tree expires.
///
/// Use:     Authority ca("Test CA");  Issued mx = ca.issue({.common_name = "mx.example", .names = {"mx.example"}});
///          write mx.certificate + ca.certificate() and mx.key to files
#include <string>
#include <vector>

namespace pen::tls::testing {

struct Request {
  std::string common_name = {};
  std::vector<std::string> names = {};
  unsigned rsa = 0;      // bits; 0: P-256
  int days_left = 2;     // negative: expired
  std::string use = {};  // extended key usage: "serverAuth", "clientAuth"; empty: any
};
struct Issued {
  std::string certificate, key;  // PEM
};

class Authority {
 public:
  explicit Authority(const std::string& common_name);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;
  Issued issue(const Request& request);
  const std::string& certificate() const;
  /// A PEM certificate's public key: TLSA data "x 1 0".
  static std::string key_der(const std::string& certificate);
  /// A digest of the public key: TLSA data "x 1 1", with SHA512 "x 1 2".
  static std::string key_hash(const std::string& certificate, const char* digest = "SHA256");
  /// A PEM key in the older form of its kind, PKCS #1 or SEC 1, in place of PKCS #8.
  static std::string traditional_key(const std::string& key);

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace pen::tls::testing
