#pragma once
/// The Transport that runs TLS over the stream's descriptor. Internal to lib/net/tls.
///
/// Memory:  one SSL object; record buffers only while they hold a record (SSL_MODE_RELEASE_BUFFERS).
/// Writes:  small pieces are gathered into one record, large ones are encrypted in place.
#include "lib/base/async/transport.h"
#include "lib/net/tls/openssl.h"

namespace pen::tls {

class TlsTransport final : public async::Transport {
 public:
  /// fd: the stream's descriptor, which must outlive this object.
  static Result<std::unique_ptr<TlsTransport>> make(std::shared_ptr<const Context> context, int fd);
  ~TlsTransport() override;

  Outcome read(MutableBytes into) override;
  Outcome write(std::span<const Bytes> pieces) override;
  Outcome handshake() override;
  Outcome close_write() override;
  std::string explain() const override { return why_; }
  bool cut_short() const override { return ended_ && !close_notify_; }

  SSL* ssl() const { return ssl_.get(); }
  const Context& context() const { return *context_; }
  /// The key under which this connection's sessions are kept (client).
  std::string session_key;

 private:
  TlsTransport(std::shared_ptr<const Context> context, SslPtr ssl);
  Outcome fruitless(int result, const char* doing);
  /// After a step that may have left room for another handshake, or wants some.
  void share_rooms(int result);
  static void noticed(const SSL* ssl, int where, int value);

  std::shared_ptr<const Context> context_;
  SslPtr ssl_;
  std::shared_ptr<const std::function<void()>> waker_;  // where keys are elsewhere, until the handshake is done
  std::string why_;
  bool greeted_ = false;
  bool ended_ = false;         // no more input
  bool close_notify_ = false;  // the peer ended it by close_notify
};

}  // namespace pen::tls
