#pragma once
/// The inside of Stream: buffers, readiness, background output. Internal to lib/base/async.
#include <deque>

#include "lib/base/async/buffers.h"
#include "lib/base/async/poll.h"
#include "lib/base/async/stream.h"

namespace pen::async {

struct Stream::Impl final : detail::PollClient, detail::EndOfTurn {
  Impl(Loop& l, Fd f);
  ~Impl();

  /// What a reader waits for; valid only while the reader list has a waiter.
  enum class Need : unsigned char { met, some, size, line, discard, handshake };
  enum class Family : unsigned char { unknown, unix, other };

  /// Data of write_all(), in the frame of that coroutine.
  struct Direct {
    Impl* impl;
    std::span<const Bytes> pieces;
    std::size_t piece = 0, offset = 0;
    bool begun = false;  // at least one byte has been sent
    std::string late;    // text that write() queued meanwhile: sent after the pieces
    ~Direct();
    bool done() const { return piece == pieces.size(); }
  };
  /// The next step of a handshake, in the frame of the coroutine that waits for the handshake.
  struct Step : detail::EndOfTurn {
    Impl* impl = nullptr;
    detail::Waiter* waiter = nullptr;
    ~Step();
  };
  struct Fds {
    struct Batch {
      std::uint64_t position;  // counted from the first byte ever sent
      std::vector<Fd> fds;
    };
    std::deque<Batch> outgoing;
    std::vector<Fd> incoming;
  };

  // Input.
  void set_need(Need n, std::size_t size);
  bool satisfied();
  /// Whether the reader can resume (its need is met, end of input, error). Reads from the socket at most a few times.
  bool pump_input();
  /// One read; false when nothing came.
  bool fill(std::size_t min_room);
  bool receive_fds(std::span<std::byte> into, Transport::Outcome& outcome);
  Result<void> input_outcome();
  bool over_budget();

  /// Does one step of the handshake for the waiter of its Step.
  void step_handshake();
  void ready_for_step(bool readable, bool writable);

  // Output.
  std::size_t queued() const { return out.size() - out_sent; }
  bool output_pending() const { return !hung_up && (queued() != 0 || (direct && !direct->done())); }
  /// Sends until the queue is empty or the kernel takes no more; wakes the writer when nothing is left.
  void pump_output();
  Transport::Outcome send(std::span<const Bytes> pieces);
  Transport::Outcome send_with_fds(Bytes text);
  void sent(std::size_t bytes);

  /// The peer takes no more output. What it sent before can still be read, up to its end.
  void fail_output(const Transport::Outcome& outcome);
  void drop_output();
  void fail_with(Error e);
  void fail_with_errno(int value, const char* what);
  /// The same, with the transport's explanation if there is one.
  void fail_with_outcome(const Transport::Outcome& outcome, const char* what);
  /// Makes the loop report when input can continue.
  void watch_input();
  void close();

  void on_ready(bool readable, bool writable) override;
  bool waiting() const override { return reader.linked() || writer.linked() || (open && output_pending()); }

  Loop& loop;
  Fd fd;
  detail::Poll poll;
  std::unique_ptr<Transport> transport;
  detail::InputBuffer in;
  std::string out;
  std::size_t out_sent = 0;
  std::uint64_t total_sent = 0;
  Link reader, writer;
  std::size_t need_size = 0;
  std::size_t scanned = 0;         // bytes of input known to hold no LF
  std::unique_ptr<Error> error;    // of both directions
  std::unique_ptr<Error> hung_up;  // of output alone
  std::unique_ptr<Fds> fds;
  Direct* direct = nullptr;
  Step* step = nullptr;
  std::uint64_t budget_turn = 0;
  unsigned budget_used = 0;
  const std::uint32_t* read_limit = nullptr;  // see limit_reads()
  Need need = Need::some;
  Family family = Family::unknown;
  bool open = true;
  bool eof = false;
  bool drained = false;  // the last read took all there was
  bool connecting = false;
  bool write_armed = false;
  bool read_wants_write = false;  // a transport's read waits for the socket to take bytes
  bool write_wants_read = false;
  bool wants_answer = false;  // a transport's handshake waits for something else than the socket
};

/// Waits until the need given to set_need() is met.
struct InputAwaiter {
  Stream::Impl& s;
  Until until;
  detail::Waiter waiter;

  bool deferred = false;

  bool await_ready();
  void await_suspend(std::coroutine_handle<> h);
  Result<void> await_resume();
};

/// Waits until the transport has done its handshake. Each step queues up with those of other streams.
struct HandshakeAwaiter {
  Stream::Impl& s;
  Until until;
  detail::Waiter waiter;
  Stream::Impl::Step step = {};

  bool await_ready() const { return !s.open || s.error; }
  void await_suspend(std::coroutine_handle<> h);
  Result<void> await_resume();
};

/// Waits until all output is sent, or (connecting) the connection is established.
struct OutputAwaiter {
  Stream::Impl& s;
  Until until;
  detail::Waiter waiter;

  bool await_ready() const { return !s.open || s.error || (!s.connecting && !s.output_pending()); }
  void await_suspend(std::coroutine_handle<> h);
  Result<void> await_resume();
};

struct StreamAccess {
  static Stream::Impl& impl(Stream& s) { return *s.impl_; }
};

}  // namespace pen::async
