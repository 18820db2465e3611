#pragma once
/// OpenSSL's objects with owners, and its error queue as text. Internal to lib/net/tls: no other folder includes
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

/// What OpenSSL has to say since the queue was last empty: the first reason, with its detail; the queue is empty then.
std::string take_openssl_error();
/// "TlsError::setup" with `what` and what OpenSSL says.
std::unexpected<Error> setup_failure(std::string what);

/// A key, its certificate and what leads to the issuer.
struct Chain {
  KeyPtr key;
  X509Ptr certificate;
  std::vector<X509Ptr> issuers;
};
/// PEM as chain_files has it: one or more of key, certificate, chain. `name`: for the error.
Result<std::vector<Chain>> parse_chains(std::string_view pem, const std::string& name);
struct Context::Impl {
  ContextOptions options;
  SslCtxPtr ctx;
  std::vector<std::string> warnings;

  Result<void> open();
  Result<void> load_certificates();
  Result<void> load_authorities();
  Result<void> set_server();
  void set_client();
};

/// Permits the versions on a whole context or one session.
void apply(const Protocols& protocols, SSL_CTX* ctx);
void apply(const Protocols& protocols, SSL* ssl);

/// server.cc: callbacks for tickets and server names.
void install_server_callbacks(Context::Impl& impl);
/// transport.cc: what a client does with a new session.
int keep_new_session(SSL* ssl, SSL_SESSION* session);

}  // namespace pen::tls
