#include "lib/net/tls/transport.h"

#include <openssl/async.h>
#include <openssl/err.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "lib/net/tls/remote_key.h"

namespace pen::tls {
namespace {

constexpr std::size_t kRecord = 16 * 1024;  // RFC 8446 section 5.1

// Handshakes that may rest at the same time: each has a stack of 32 KiB, which OpenSSL keeps for the next one.
constexpr std::size_t kMostResting = 1000;
// Those that wait until another one has ended.
thread_local std::deque<std::weak_ptr<const std::function<void()>>> without_room;

TlsTransport& transport_of(const SSL* ssl) { return *static_cast<TlsTransport*>(SSL_get_app_data(ssl)); }

}  // namespace

TlsTransport::TlsTransport(std::shared_ptr<const Context> context, SslPtr ssl)
    : context_(std::move(context)), ssl_(std::move(ssl)) {
  SSL_set_app_data(ssl_.get(), this);
  SSL_set_info_callback(ssl_.get(), noticed);
}

TlsTransport::~TlsTransport() {
  if (waker_) {
    drop_resting(ssl_.get());
    share_rooms(1);
  }
  // A session can be resumed however its connection ended.
  SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

Result<std::unique_ptr<TlsTransport>> TlsTransport::make(std::shared_ptr<const Context> context, int fd) {
  ERR_clear_error();
  SslPtr ssl(SSL_new(context->impl().ctx.get()));
  if (!ssl || SSL_set_fd(ssl.get(), fd) != 1) return setup_failure("OpenSSL");
  if (context->options().role == Role::server)
    SSL_set_accept_state(ssl.get());
  else
    SSL_set_connect_state(ssl.get());
  const bool asks = context->options().keys_elsewhere;
  std::unique_ptr<TlsTransport> made(new TlsTransport(std::move(context), std::move(ssl)));
  if (asks) {
    static thread_local const int prepared = ASYNC_init_thread(kMostResting, 0);
    if (prepared != 1) return setup_failure("OpenSSL: handshakes cannot rest");
    SSL_set_mode(made->ssl(), SSL_MODE_ASYNC);
    made->waker_ = std::make_shared<const std::function<void()>>([self = made.get()] {
      if (self->wake) self->wake();
    });
  }
  return made;
}

void TlsTransport::noticed(const SSL* ssl, int where, int value) {
  if ((where & SSL_CB_READ_ALERT) == SSL_CB_READ_ALERT && (value & 0xff) == SSL3_AD_CLOSE_NOTIFY)
    transport_of(ssl).close_notify_ = true;
}

async::Transport::Outcome TlsTransport::fruitless(int result, const char* doing) {
  const int sys = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {.want = Want::read};
    case SSL_ERROR_WANT_WRITE:
      return {.want = Want::write};
    case SSL_ERROR_WANT_ASYNC:
    case SSL_ERROR_WANT_ASYNC_JOB:
      return {.want = Want::answer};
    case SSL_ERROR_ZERO_RETURN:
      ended_ = true;
      return {};
    case SSL_ERROR_SYSCALL:
      ERR_clear_error();
      why_.clear();
      ended_ = true;
      return {.error = sys != 0 ? sys : ECONNRESET};
    default:
      why_ = std::string(doing) + ": " + take_openssl_error();
      ended_ = true;
      return {.error = EPROTO};
  }
}

async::Transport::Outcome TlsTransport::handshake() {
  ERR_clear_error();
  errno = 0;
  int result = 0;
  {
    const Rests rests(waker_);
    result = SSL_do_handshake(ssl_.get());
  }
  const int sys = errno;
  if (waker_) share_rooms(result);
  if (result == 1) {
    greeted_ = true;
    if (waker_) {  // nothing is signed behind it
      SSL_clear_mode(ssl_.get(), SSL_MODE_ASYNC);
      waker_.reset();
    }
    return {};
  }
  errno = sys;
  Outcome out = fruitless(result, "handshake");
  // Here the end of input is an error.
  if (out.error == 0 && out.want == Want::nothing) out.error = ECONNRESET;
  return out;
}

void TlsTransport::share_rooms(int result) {
  const int why = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), result);
  if (why == SSL_ERROR_WANT_ASYNC) return;
  if (why == SSL_ERROR_WANT_ASYNC_JOB) return without_room.push_back(waker_);
  while (!without_room.empty()) {
    const auto next = without_room.front().lock();
    without_room.pop_front();
    if (!next) continue;
    (*next)();
    break;
  }
}

async::Transport::Outcome TlsTransport::read(MutableBytes into) {
  std::size_t done = 0;
  // More than one record may have arrived already.
  do {
    std::size_t got = 0;
    ERR_clear_error();
    errno = 0;
    const int result = SSL_read_ex(ssl_.get(), into.data() + done, into.size() - done, &got);
    if (result != 1) {
      // The next call returns this result again.
      if (done != 0) break;
      return fruitless(result, "read");
    }
    done += got;
  } while (into.size() - done >= kRecord && SSL_has_pending(ssl_.get()) == 1);
  return {.bytes = done};
}

async::Transport::Outcome TlsTransport::write(std::span<const Bytes> pieces) {
  while (!pieces.empty() && pieces.front().empty()) pieces = pieces.subspan(1);
  if (pieces.empty()) return {};
  std::array<std::byte, kRecord> gathered;
  Bytes next = pieces.front();
  if (next.size() < kRecord && pieces.size() > 1) {
    std::size_t size = 0;
    for (const Bytes piece : pieces) {
      const Bytes part = piece.first(std::min(piece.size(), gathered.size() - size));
      if (!part.empty()) std::memcpy(gathered.data() + size, part.data(), part.size());
      size += part.size();
      if (size == gathered.size()) break;
    }
    next = Bytes(gathered).first(size);
  }
  std::size_t put = 0;
  ERR_clear_error();
  errno = 0;
  const int result = SSL_write_ex(ssl_.get(), next.data(), next.size(), &put);
  if (result == 1) return {.bytes = put};
  Outcome out = fruitless(result, "write");
  if (out.error == 0 && out.want == Want::nothing) out.error = EPIPE;
  return out;
}

// We do not wait for the peer's close_notify: the connection ends here (RFC 8446 section 6.1). If the socket takes no
// more data, the peer sees the end of the connection without ours.
async::Transport::Outcome TlsTransport::close_write() {
  if (!greeted_) return {};
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
  return {};
}

int keep_new_session(SSL* ssl, SSL_SESSION* session) {
  const TlsTransport& transport = transport_of(ssl);
  const auto& cache = transport.context().options().sessions;
  if (!cache || transport.session_key.empty() || SSL_SESSION_is_resumable(session) != 1) return 0;
  const int size = i2d_SSL_SESSION(session, nullptr);
  if (size <= 0) return 0;
  std::string bytes(static_cast<std::size_t>(size), '\0');
  auto* out = reinterpret_cast<unsigned char*>(bytes.data());
  i2d_SSL_SESSION(session, &out);
  cache->put(transport.session_key, std::move(bytes));
  return 0;  // OpenSSL keeps its reference
}

}  // namespace pen::tls
