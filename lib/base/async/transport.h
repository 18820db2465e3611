#pragma once
/// The layer that moves a Stream's bytes: plain socket calls by default, TLS after start_transport().
///
/// Rules:   a write() that moves nothing and wants readiness may have taken the bytes into a record of its own. The
///          next call then begins with the same bytes, perhaps with more behind them.
#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "lib/base/bytes.h"

namespace pen::async {

/// Moves bytes between the stream's buffers and a descriptor. Non-blocking.
class Transport {
 public:
  // answer: of somebody else, in a handshake; wake() says when to go on
  enum class Want { nothing, read, write, answer };
  struct Outcome {
    std::size_t bytes = 0;  // moved
    // With 0 bytes: the readiness to wait for. A read with 0 bytes that wants nothing: end of input.
    Want want = Want::nothing;
    int error = 0;  // errno
  };
  virtual ~Transport() = default;
  virtual Outcome read(MutableBytes into) = 0;
  virtual Outcome write(std::span<const Bytes> pieces) = 0;
  /// The exchange before any data moves (Stream::handshake()). Done when it wants nothing and there is no error.
  virtual Outcome handshake() { return {}; }
  /// Set by the stream before a handshake. Called by the transport when it can go on, from anywhere in the loop.
  std::function<void()> wake;
  /// Explains Outcome::error of the last call when errno's own text is not the reason; else empty.
  virtual std::string explain() const { return {}; }
  /// Whether the input ended without the peer's end mark (TLS truncation).
  virtual bool cut_short() const { return false; }
  /// Tells the peer that no more data comes, before the socket is shut down (TLS close_notify).
  virtual Outcome close_write() { return {}; }
};

}  // namespace pen::async
