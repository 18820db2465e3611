#pragma once
/// Stream: one connection (TCP or Unix socket), read by lines or by bytes, written through a bounded buffer.
///
/// Use:     auto line = co_await stream.read_line(2048, until);   // the line without its end
///          stream.write("250 ok\r\n");                            // queued; goes out at the end of this turn,
///          co_await stream.flush(until);                          //   or when the reader next has to wait
/// Reading: the returned views point into the stream's buffer and die at the next read call or poll_input(). A
///          reader is resumed only when what it waits for holds. Idle streams hold no buffers.
/// Writing: write() never waits; when more than kHighWater bytes are queued the writer must await flush()
///          before it goes on (write_all() does both). Everything written in one turn, or until the reader
///          next has to wait, leaves in one system call.
/// TLS:     a Transport below the buffers moves the bytes; the socket transport is the default. TLS (lib/net/tls) is
///          another that start_transport() puts in its place; no plaintext may be buffered then (STARTTLS injection).
/// Errors:  WaitError (timed_out, cancelled, closed, line_too_long), or the errno of the socket call.
/// Thread:  the loop's. One reader and one writer at a time. The stream outlives every wait on it.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/async/loop.h"
#include "lib/async/socket.h"
#include "lib/async/transport.h"
#include "lib/base/bytes.h"
#include "lib/base/fd.h"

namespace pen::async {

class Stream {
 public:
  // queued output beyond which a writer has to wait
  static constexpr std::size_t kHighWater = 256 * 1024;

  /// Takes a connected, non-blocking socket.
  Stream(Loop& loop, Fd fd);
  ~Stream();
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  /// The next line without its CRLF or bare LF. `raw` forms: read_raw_line keeps the line end as it came.
  /// max counts what comes before the LF, a CR included.
  /// line_too_long: more than max bytes without LF (they stay buffered; skip with discard_line()).
  /// closed: end of input (a last part without LF is dropped).
  Task<Result<std::string_view>> read_line(std::size_t max, Until until = {});
  Task<Result<std::string_view>> read_raw_line(std::size_t max, Until until = {});
  /// Drops input up to and including the next LF.
  Task<Result<void>> discard_line(Until until = {});
  /// At least one byte, at most max: whatever is there. Zero-copy view; consumed.
  Task<Result<std::string_view>> read_some(std::size_t max, Until until = {});
  /// Exactly size bytes (size bounded by the caller); consumed. closed: end of input came first.
  Task<Result<std::string_view>> read_exact(std::size_t size, Until until = {});

  /// What has arrived and was not read yet, without waiting.
  std::string_view buffered() const;
  bool line_buffered() const;
  void consume(std::size_t size);
  /// Gives back what of the input buffer nothing is in, as every read does that waits. For a wait that is not the
  /// stream's.
  void shrink_input();
  /// From now on one read takes about *most bytes from the socket (a line or read_exact() that needs more gets it),
  /// 0: what fits into the buffer. Looked up when something has come, so that many streams that wait can share a
  /// limit that changes; it must outlive the stream or the next call. nullptr: no limit.
  void limit_reads(const std::uint32_t* most);
  /// Asks the socket once, without waiting, for more input (early-talker tests). True when something is buffered then.
  bool poll_input();

  /// Queues text. Dropped when the stream is closed or broken (the next flush says so).
  void write(std::string_view text);
  std::size_t queued() const;
  /// Waits until everything written has been taken by the kernel. Any number may wait.
  Task<Result<void>> flush(Until until = {});
  /// Large data without a copy: writes the pieces (after what is queued) and waits until the kernel has them.
  Task<Result<void>> write_all(std::span<const Bytes> pieces, Until until = {});

  /// No more writes; the peer sees end of input after what is queued.
  Task<Result<void>> shutdown(Until until = {});
  /// At once, dropping what is queued. Waits on the stream end with closed.
  void close();
  bool is_open() const;
  /// Whether a background write has failed: the next flush says how. After EPIPE or ECONNRESET of a socket without a
  /// transport what the peer had sent before it hung up can still be read, and then comes this error; any other, and
  /// any with a transport, ends reads too: only what a transport has brought into the buffer before is still given.
  bool broken() const;

  /// Puts a transport below. Nothing may be buffered in either direction (PEN_CHECKed): what came in clear text must
  /// not be read as if it had come by the transport.
  void start_transport(std::unique_ptr<Transport> transport);
  /// Waits until the transport has greeted the peer; the first thing to do with a new one. The error's context says
  /// what the transport says about it.
  Task<Result<void>> handshake(Until until = {});
  /// The input ended, but the transport misses the peer's word that it did. False without a transport.
  bool cut_short() const;
  int fd() const;
  Loop& loop() const;

  /// For encoders: what appends to the returned string is queued like write(). Good until the next
  /// call on this stream; text added to it later is lost.
  std::string& compose();

  /// For lib/ipc: descriptors that travel with the bytes (Unix sockets), sent with the first byte of the text.
  void write_with_fds(std::string_view text, std::span<Fd> fds);
  /// The same for the byte that is queued next; something must be written in the same turn.
  void attach_fds(std::span<Fd> fds);
  /// Descriptors received so far and not taken, in order. More than kMaxFds waiting ones close the stream.
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
