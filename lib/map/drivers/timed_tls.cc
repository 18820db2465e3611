#include "lib/map/drivers/timed_tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cerrno>

#include "lib/map/timed_socket.h"

namespace pen::map::database {
namespace {

struct Free {
  void operator()(SSL_CTX* ctx) const { SSL_CTX_free(ctx); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

/// The first reason in OpenSSL's queue of this thread, which is emptied.
std::string reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* text = code != 0 ? ERR_reason_error_string(code) : nullptr;
  return text != nullptr ? text : "no reason given";
}

std::unexpected<Error> trouble(const std::string& what) { return fail(MapError::unreadable, what + ": " + reason()); }

}  // namespace

struct TimedTls::Impl {
  int fd;
  std::unique_ptr<SSL_CTX, Free> ctx;
  std::unique_ptr<SSL, Free> ssl;

  Result<void> open(const TlsFiles& files) {
    ERR_clear_error();
    ctx.reset(SSL_CTX_new(TLS_client_method()));
    if (!ctx) return trouble("TLS");
    SSL_CTX_set_min_proto_version(ctx.get(), TLS1_2_VERSION);
    SSL_CTX_set_verify(ctx.get(), SSL_VERIFY_PEER, nullptr);
    if (SSL_CTX_load_verify_file(ctx.get(), files.ca_file.c_str()) != 1) return trouble(files.ca_file);
    if (!files.cert_file.empty()) {
      if (SSL_CTX_use_certificate_chain_file(ctx.get(), files.cert_file.c_str()) != 1) return trouble(files.cert_file);
      if (SSL_CTX_use_PrivateKey_file(ctx.get(), files.key_file.c_str(), SSL_FILETYPE_PEM) != 1)
        return trouble(files.key_file);
    }
    ssl.reset(SSL_new(ctx.get()));
    if (!ssl || SSL_set_fd(ssl.get(), fd) != 1) return trouble("TLS");
    SSL_set_hostflags(ssl.get(), X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set1_host(ssl.get(), files.name.c_str()) != 1 ||
        SSL_set_tlsext_host_name(ssl.get(), files.name.c_str()) != 1)
      return trouble(files.name);
    return {};
  }

  /// One step of OpenSSL. Its result; 0: the peer ended the connection, or `wants` says what is to be waited for.
  template <class Step>
  Result<int> once(Step step, const char* what, Wants& wants) {
    wants = Wants::nothing;
    for (;;) {
      ERR_clear_error();
      errno = 0;
      const int n = step();
      if (n > 0) return n;
      switch (SSL_get_error(ssl.get(), n)) {
        case SSL_ERROR_WANT_READ:
          wants = Wants::read;
          return 0;
        case SSL_ERROR_WANT_WRITE:
          wants = Wants::write;
          return 0;
        case SSL_ERROR_ZERO_RETURN:
          return 0;
        case SSL_ERROR_SYSCALL:
          if (errno == 0) return 0;
          if (errno != EINTR) return fail(MapError::unreadable, what, errno);
          break;
        default:
          if (const long bad = SSL_get_verify_result(ssl.get()); bad != X509_V_OK) {
            ERR_clear_error();
            return fail(MapError::unreadable,
                        std::string("the server's certificate: ") + X509_verify_cert_error_string(bad));
          }
          return trouble(what);
      }
    }
  }

  /// Repeats a step until it is done. 0: the peer ended the connection.
  template <class Step>
  Result<int> until_done(Step step, const char* what, SteadyTime deadline) {
    for (;;) {
      Wants wants{};
      PEN_TRY_ASSIGN(const int n, once(step, what, wants));
      if (wants == Wants::nothing) return n;
      PEN_TRY(wants == Wants::read ? wait_readable_before(fd, deadline) : wait_writable_before(fd, deadline));
    }
  }

  // Without partial writes OpenSSL takes all or asks for the same bytes again.
  int write(std::string_view bytes) const {
    std::size_t n = 0;
    return SSL_write_ex(ssl.get(), bytes.data(), bytes.size(), &n);
  }
};

TimedTls::TimedTls(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TimedTls::~TimedTls() = default;

Result<std::unique_ptr<TimedTls>> TimedTls::start(int fd, const TlsFiles& files, SteadyTime deadline) {
  auto impl = std::make_unique<Impl>(Impl{.fd = fd, .ctx = {}, .ssl = {}});
  PEN_TRY(impl->open(files));
  PEN_TRY_ASSIGN(const int done,
                 impl->until_done([&] { return SSL_connect(impl->ssl.get()); }, "TLS handshake", deadline));
  if (done == 0) return fail(MapError::unreadable, "TLS handshake: the server closed the connection");
  return std::unique_ptr<TimedTls>(new TimedTls(std::move(impl)));
}

Result<void> TimedTls::send(std::string_view bytes, SteadyTime deadline) {
  if (bytes.empty()) return {};
  PEN_TRY_ASSIGN(const int sent, impl_->until_done([&] { return impl_->write(bytes); }, "send", deadline));
  if (sent == 0) return fail(MapError::unreadable, "send", EPIPE);
  return {};
}

Result<TimedTls::Wants> TimedTls::send_now(std::string_view bytes) {
  if (bytes.empty()) return Wants::nothing;
  Wants wants{};
  PEN_TRY_ASSIGN(const int sent, impl_->once([&] { return impl_->write(bytes); }, "send", wants));
  if (sent == 0 && wants == Wants::nothing) return fail(MapError::unreadable, "send", EPIPE);
  return wants;
}

Result<TimedTls::Received> TimedTls::receive_now(std::span<char> buffer) {
  Received out;
  PEN_TRY_ASSIGN(const int got,
                 impl_->once([&] { return SSL_read_ex(impl_->ssl.get(), buffer.data(), buffer.size(), &out.size); },
                             "receive", out.wants));
  if (got == 0) out.size = 0;
  return out;
}

Result<std::size_t> TimedTls::receive(std::span<char> buffer, SteadyTime deadline) {
  std::size_t n = 0;
  PEN_TRY_ASSIGN(const int got,
                 impl_->until_done([&] { return SSL_read_ex(impl_->ssl.get(), buffer.data(), buffer.size(), &n); },
                                   "receive", deadline));
  return got == 0 ? 0 : n;
}

}  // namespace pen::map::database
