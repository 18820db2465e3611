#pragma once
/// Owners for OpenSSL's objects, and its error queue as text. Internal to lib/net/tls: no other folder includes
/// OpenSSL's headers.
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "lib/net/tls/context.h"

namespace pen::tls {

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* p) const {
    kFree(p);
  }
};
using SslPtr = std::unique_ptr<SSL, Free<SSL_free>>;
using SslCtxPtr = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using SessionPtr = std::unique_ptr<SSL_SESSION, Free<SSL_SESSION_free>>;
using X509Ptr = std::unique_ptr<X509, Free<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Free<BIO_free_all>>;

/// The first reason in OpenSSL's error queue, with its detail. Empties the queue.
std::string take_openssl_error();
/// TlsError::setup with `what` and OpenSSL's reason.
std::unexpected<Error> setup_failure(std::string what);

/// A key, its certificate and the chain to the issuer.
struct Chain {
  KeyPtr key;
  X509Ptr certificate;
  std::vector<X509Ptr> issuers;
};
/// Reads PEM in the form of chain_files: key, certificate, chain, once or several times. A file may end anywhere: what
/// comes next goes on where it ended. Other blocks, as parameters, are passed over.
class ChainReader {
 public:
  /// `name`: of the file, for errors.
  Result<void> feed(std::string_view pem, const std::string& name);
  /// `name`: of all of them.
  Result<std::vector<Chain>> finish(const std::string& name);

 private:
  std::vector<Chain> chains_;
  std::string key_in_;  // the file with the last key
};
/// The same of one text.
Result<std::vector<Chain>> parse_chains(std::string_view pem, const std::string& name);
/// The same of certificates alone: another program holds the key.
Result<Chain> remote_chain(const RemoteCertificate& from, const std::string& name);
struct Context::Impl {
  ContextOptions options;
  SslCtxPtr ctx;
  std::vector<std::string> warnings;

  Result<void> open();
  Result<void> load_certificates();
  Result<void> load_authorities();
  Result<void> set_server();
  Result<void> use_dh_parameters();
  void set_client();
};

/// Restricts a whole context or one session to these versions.
void apply(const Protocols& protocols, SSL_CTX* ctx);
void apply(const Protocols& protocols, SSL* ssl);

/// server.cc: installs the callbacks for tickets and server names.
void install_server_callbacks(Context::Impl& impl);
/// transport.cc: OpenSSL's callback for a client's new session.
int keep_new_session(SSL* ssl, SSL_SESSION* session);

}  // namespace pen::tls
