#pragma once
/// What a Stream has below its buffers: plain socket calls by default, TLS where start_transport() puts it.
///
/// Rules:   write() that moves nothing and wants something may have taken the bytes into a record of its own: the same
///          bytes come again at the next call, perhaps with more behind them, and nothing else before them.
#include <cstddef>
#include <span>
#include <string>

#include "lib/base/bytes.h"

namespace pen::async {

/// Moves bytes between the stream's buffers and a descriptor. Non-blocking.
class Transport {
 public:
  enum class Want { nothing, read, write };
  struct Outcome {
    std::size_t bytes = 0;  // moved
    // bytes == 0: what readiness to wait for; nothing with 0 bytes on read: end of input
    Want want = Want::nothing;
    int error = 0;  // errno
  };
  virtual ~Transport() = default;
  virtual Outcome read(MutableBytes into) = 0;
  virtual Outcome write(std::span<const Bytes> pieces) = 0;
  /// What has to be said before any byte moves (Stream::handshake()). want nothing and no error: done.
  virtual Outcome handshake() { return {}; }
  /// What Outcome::error of the last call stands for, when errno's own text is not the reason; else empty.
  virtual std::string explain() const { return {}; }
  /// The input ended, and not by the peer's word (TLS truncation).
  virtual bool cut_short() const { return false; }
  /// Tells the peer that no more will be written, before the socket is shut down (TLS close_notify).
  virtual Outcome close_write() { return {}; }
};

}  // namespace pen::async
