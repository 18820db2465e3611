#pragma once
/// TLS for the load generator and the sink: the same send and recv, with or without a TlsSession.
///
/// Use:     TlsContext tls = TlsContext::client();   or ::server(cert, key)
///          std::unique_ptr<TlsSession> s = tls.open(fd);      after STARTTLS; null: clear text
///          tls_send(fd, s.get(), …), tls_recv(fd, s.get(), …)      as send(2) and recv(2): -1 and EAGAIN, 0 at the end
/// The handshake runs inside the first sends and receives. A send that waits for the peer's part of it sets
/// wants_read(): repeat it when the socket is readable, not when it is writable. The client verifies nothing, because
/// it only measures.
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstring>
#include <memory>

#include "bench/bench_util.h"

namespace pen::bench {

class TlsSession {
 public:
  TlsSession(SSL_CTX* context, int fd, bool server) : ssl_(SSL_new(context)) {
    if (ssl_ == nullptr || SSL_set_fd(ssl_, fd) != 1) die("TLS: out of memory");
    server ? SSL_set_accept_state(ssl_) : SSL_set_connect_state(ssl_);
  }
  ~TlsSession() { SSL_free(ssl_); }
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  ssize_t send(const void* at, std::size_t size) {
    std::size_t done = 0;
    ERR_clear_error();
    const int rc = SSL_write_ex(ssl_, at, size, &done);
    wants_read_ = rc != 1 && SSL_get_error(ssl_, rc) == SSL_ERROR_WANT_READ;
    return outcome(rc, done);
  }
  ssize_t recv(void* at, std::size_t size) {
    std::size_t done = 0;
    ERR_clear_error();
    const int rc = SSL_read_ex(ssl_, at, size, &done);
    return outcome(rc, done);
  }
  bool wants_read() const { return wants_read_; }

 private:
  ssize_t outcome(int rc, std::size_t done) {
    if (rc == 1) return static_cast<ssize_t>(done);
    switch (SSL_get_error(ssl_, rc)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      case SSL_ERROR_SYSCALL:
        if (errno == 0) errno = ECONNRESET;
        return -1;
      default:
        errno = EPROTO;
        return -1;
    }
  }
  SSL* ssl_;
  bool wants_read_ = false;
};

class TlsContext {
 public:
  static TlsContext client() { return TlsContext(TLS_client_method(), false); }
  static TlsContext server(const std::string& certificate, const std::string& key) {
    TlsContext c(TLS_server_method(), true);
    if (SSL_CTX_use_certificate_chain_file(c.context_.get(), certificate.c_str()) != 1 ||
        SSL_CTX_use_PrivateKey_file(c.context_.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)
      die("TLS: no certificate and key in " + certificate + ", " + key);
    return c;
  }
  std::unique_ptr<TlsSession> open(int fd) const { return std::make_unique<TlsSession>(context_.get(), fd, server_); }

 private:
  TlsContext(const SSL_METHOD* method, bool server) : context_(SSL_CTX_new(method), SSL_CTX_free), server_(server) {
    if (!context_) die("TLS: no context");
    SSL_CTX_set_mode(context_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  }
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  bool server_;
};

inline ssize_t tls_send(int fd, TlsSession* tls, const void* at, std::size_t size, int flags) {
  return tls != nullptr ? tls->send(at, size) : ::send(fd, at, size, flags);
}
inline ssize_t tls_recv(int fd, TlsSession* tls, void* at, std::size_t size) {
  return tls != nullptr ? tls->recv(at, size) : ::recv(fd, at, size, 0);
}

}  // namespace pen::bench
