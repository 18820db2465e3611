#pragma once
/// Stream: one connection (TCP or Unix socket), read by lines or by bytes, written through a bounded buffer.
///
/// Use:     auto line = co_await stream.read_line(2048, until);   // the line without its end
///          stream.write("250 ok\r\n");                            // queued; goes out at the end of this turn,
///          co_await stream.flush(until);                          //   or when the reader next has to wait
/// Reading: the returned views point into the stream's buffer and end with the next read call or poll_input(). A
///          reader is resumed only when its condition holds (a whole line, not a packet). Idle streams hold no
///          buffers.
/// Writing: write() never waits. When more than kHighWater bytes are queued, the writer must await flush() before it
///          writes more (write_all() does both). Everything written in one turn, or until the reader next waits,
///          leaves in one system call.
/// TLS:     a Transport below the buffers moves the bytes; by default plain socket calls. start_transport() replaces
///          it by TLS (lib/net/tls); no plaintext may be buffered at that moment (STARTTLS injection).
/// Errors:  WaitError (timed_out, cancelled, closed, line_too_long), or the errno of the socket call.
/// Thread:  the loop's. One reader and one writer at a time. The stream outlives every wait on it.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/async/loop.h"
#include "lib/base/async/socket.h"
#include "lib/base/async/transport.h"
#include "lib/base/bytes.h"
#include "lib/base/fd.h"

namespace pen::async {

class Stream {
 public:
  // A writer must wait when more than this is queued.
  static constexpr std::size_t kHighWater = 256 * 1024;

  /// Takes a connected, non-blocking socket.
  Stream(Loop& loop, Fd fd);
  ~Stream();
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  /// Reads the next line without its CRLF or bare LF; read_raw_line() keeps the line end as it came. max counts the
  /// bytes before the LF, a CR included.
  /// line_too_long: more than max bytes without LF (they stay buffered; discard_line() skips them).
  /// closed: end of input (a last part without LF is dropped).
  Task<Result<std::string_view>> read_line(std::size_t max, Until until = {});
  Task<Result<std::string_view>> read_raw_line(std::size_t max, Until until = {});
  /// Drops input up to and including the next LF.
  Task<Result<void>> discard_line(Until until = {});
  /// Reads what is there: at least one byte, at most max. The view is not a copy; its bytes are consumed.
  Task<Result<std::string_view>> read_some(std::size_t max, Until until = {});
  /// Reads exactly size bytes (the caller bounds size) and consumes them. closed: the input ended first.
  Task<Result<std::string_view>> read_exact(std::size_t size, Until until = {});

  /// Input that has arrived and was not read yet; does not wait.
  std::string_view buffered() const;
  bool line_buffered() const;
  void consume(std::size_t size);
  /// Releases unused memory of the input buffer. Reads do this before they wait; call it before waiting on anything
  /// else.
  void shrink_input();
  /// Limits each read from the socket to about *most bytes (0: what fits into the buffer; nullptr: no limit). A line
  /// or a read_exact() that needs more still gets it. *most is looked up when input arrives, so that many streams can
  /// share one changing limit; it must outlive the stream or stay valid until the next call.
  void limit_reads(const std::uint32_t* most);
  /// Asks the socket once, without waiting, for more input (to detect early talkers). True when something is buffered
  /// afterwards.
  bool poll_input();

  /// Queues text. On a closed or broken stream the text is dropped, and the next flush() reports it.
  void write(std::string_view text);
  std::size_t queued() const;
  /// Waits until the kernel has taken everything written. Any number of callers may wait.
  Task<Result<void>> flush(Until until = {});
  /// Writes large data without a copy: sends the pieces (after what is queued) and waits until the kernel has them.
  Task<Result<void>> write_all(std::span<const Bytes> pieces, Until until = {});

  /// Ends the output: the peer sees end of input after what is queued.
  Task<Result<void>> shutdown(Until until = {});
  /// Closes at once and drops what is queued. Waits on the stream end with closed.
  void close();
  bool is_open() const;
  /// Whether a background write has failed; the next flush() returns the error. After EPIPE or ECONNRESET on a plain
  /// socket, input that the peer had sent earlier can still be read, and then reads fail with this error. Any other
  /// error, and any error with a transport, ends reads too, after what is already in the buffer.
  bool broken() const;

  /// Puts a transport below the buffers. Nothing may be buffered in either direction (PEN_CHECKed): cleartext input
  /// must not be read as if it had come through the transport.
  void start_transport(std::unique_ptr<Transport> transport);
  /// Waits until the transport has done its handshake; must be the first call on a new transport. The error's context
  /// is the transport's explanation.
  Task<Result<void>> handshake(Until until = {});
  /// Whether the input ended without the end mark that the transport requires of the peer. False without a transport.
  bool cut_short() const;
  int fd() const;
  Loop& loop() const;

  /// For encoders: text appended to the returned string is queued as if by write(). Valid until the next call on this
  /// stream; text added later is lost.
  std::string& compose();

  /// For lib/suite/ipc: passes descriptors over a Unix socket, together with the first byte of the text.
  void write_with_fds(std::string_view text, std::span<Fd> fds);
  /// Passes descriptors with the next queued byte; the caller must write something in the same turn.
  void attach_fds(std::span<Fd> fds);
  /// Takes the descriptors received so far, in order. A stream with more than kMaxFds untaken descriptors is closed.
  static constexpr std::size_t kMaxFds = 64;
  std::vector<Fd> take_fds();

  struct Impl;

 private:
  friend struct StreamAccess;
  std::unique_ptr<Impl> impl_;
};

/// Connects; `source` (may be empty) binds the local address first. Errors: timed_out, cancelled, errno of connect.
Task<Result<Stream>> connect(Loop& loop, SocketAddress to, Until until = {}, std::string source = {});

}  // namespace pen::async
