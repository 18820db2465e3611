#pragma once
/// Channel: one conversation of lib/suite/ipc over a Unix stream socket, typed both ways.
///
/// Client:  auto c = co_await connect_channel<enqueue::FromQmgr, enqueue::ToQmgr>(
///              loop, queue_directory + "/public/qmgr", enqueue::kName, until);
///          c->send(enqueue::LeaseSpool{…});
///          co_await c->flush();            // or let the turn end
///          auto r = co_await c->receive(); // r->message: variant; r->fds
/// Server:  auto opening = co_await greet(std::move(accepted.stream), peers, until, {enqueue::kName, queue::kName});
///          if (opening->conversation == enqueue::kName)
///            Channel<enqueue::ToQmgr, enqueue::FromQmgr> c(*std::move(opening));
///          Programs use service/conversations.h, which does this for them.
/// Reading: string_view members of a received message point into the stream's buffer and die at the
///          next receive().
/// Writing: send() never waits; frames of one turn leave in one call. Check congested() and await
///          flush() before sending much more.
/// Errors:  IpcError names what a peer did wrong, within the conversation's name; WaitError and
///          errno as Stream. After an error the channel is closed and every call fails; but a wait that was given up
///          (timed_out, cancelled) can be taken up again, also within a frame that has come in part.
/// Thread:  the loop's. One reader and one writer at a time.
#include <sys/types.h>

#include <deque>

#include "lib/base/async/stream.h"
#include "lib/suite/ipc/frame.h"

namespace pen::ipc {

/// The accounts that may connect.
struct AllowedPeers {
  bool everyone = false;
  /// Besides root and the uid of this process.
  std::optional<uid_t> mail_owner = std::nullopt;
  std::optional<uid_t> queue_owner = std::nullopt;

  /// The queue has an account of its own, which is the queue manager's alone.
  bool own_queue() const { return queue_owner && queue_owner != mail_owner; }
};
/// Checks the account at the other end, as the kernel names it.
Result<async::PeerCredentials> check_peer(int fd, const AllowedPeers& allowed);

/// A connection whose hello has been read and not yet answered.
struct Opening {
  async::Stream stream;
  std::string conversation;
  async::PeerCredentials peer;
  std::uint32_t revision = 0;  // the peer's
  // Which program it is, by its badge or its account; empty: root, the server, a user, or no program has badges.
  std::string program = {};
  // The peer is of mail_owner, and shows no badge where all programs do: it may do what users may.
  bool stranger = false;
};
/// How long a server waits for a client's hello.
inline constexpr seconds kHelloWait{30};
/// Server side: checks the peer's account and reads its hello. offered: what it may ask for; empty: anything.
/// Errors: peer_not_allowed, not_offered; wrong_badge, no_badge, not_for_program (who_may_talk.h); as receive().
async::Task<Result<Opening>> greet(async::Stream stream, AllowedPeers allowed, async::Until until = {},
                                   std::vector<std::string_view> offered = {});

/// The untyped half of Channel.
class ChannelBase {
 public:
  bool is_open() const { return stream_.is_open() && !stream_.broken(); }
  void close() { stream_.close(); }
  std::size_t queued() const { return stream_.queued(); }
  /// More is queued than should be: await flush().
  bool congested() const { return queued() > async::Stream::kHighWater; }
  async::Task<Result<void>> flush(async::Until until = {}) { return stream_.flush(until); }
  const async::PeerCredentials& peer() const { return peer_; }
  const std::string& conversation() const { return conversation_; }
  /// For senders of what peers of an earlier revision do not know.
  std::uint32_t peer_revision() const { return revision_; }
  async::Stream& stream() { return stream_; }

 protected:
  ChannelBase(async::Stream stream, std::string conversation, async::PeerCredentials peer, std::uint32_t revision);
  struct Received {
    Frame frame;
    std::vector<Fd> fds;
  };
  async::Task<Result<Received>> receive_frame(async::Until until);
  Error failed(Error error);
  std::size_t max_frame() const { return max_frame_; }

 private:
  async::Stream stream_;
  std::string conversation_;
  async::PeerCredentials peer_;
  std::uint32_t revision_;
  std::size_t max_frame_;
  std::size_t begun_ = 0;  // bytes to come of a frame whose length was read; no frame is empty
  std::deque<Fd> fds_;     // received, their frame not yet
};

/// In, Out: the variants of the two directions, as this side sees them.
template <class In, class Out>
class Channel : public ChannelBase {
 public:
  struct Received {
    In message;
    std::vector<Fd> fds;
  };

  /// Answers the hello.
  explicit Channel(Opening opening)
      : ChannelBase(std::move(opening.stream), std::move(opening.conversation), opening.peer, opening.revision) {
    (void)encode_frame<HelloMessage>(stream().compose(), own_hello(conversation()), 0, kMaxHello);
  }
  /// After both hellos (connect_channel).
  Channel(async::Stream stream, std::string_view conversation, async::PeerCredentials peer,
          std::uint32_t revision = kRevision)
      : ChannelBase(std::move(stream), std::string(conversation), peer, revision) {}

  /// The next message.
  async::Task<Result<Received>> receive(async::Until until = {}) {
    auto raw = co_await receive_frame(until);
    if (!raw) co_return fail(std::move(raw).error());
    auto message = decode_message<In>(raw->frame, peer_revision() > kRevision);
    if (!message) co_return fail(failed(std::move(message).error()));
    co_return Received{*std::move(message), std::move(raw->fds)};
  }

  /// Queues one message; fds travel with it. frame_too_large: nothing was queued, fds are the caller's, the channel
  /// lives.
  template <class M>
  Result<void> send(const M& message, std::span<Fd> fds = {}) {
    if (fds.empty()) {
      if (encode_frame<Out>(stream().compose(), message, 0, max_frame())) return {};
      return fail(IpcError::frame_too_large, conversation());
    }
    // Descriptors travel with the bytes that follow: not before it is known that there are any.
    std::string frame;
    if (!encode_frame<Out>(frame, message, fds.size(), max_frame()))
      return fail(IpcError::frame_too_large, conversation());
    stream().attach_fds(fds);
    stream().compose() += frame;
    return {};
  }
};

/// Connects, exchanges hellos, and finds out which program serves. Errors: as connect() and receive();
/// not_for_program: nothing was said.
template <class In, class Out>
async::Task<Result<Channel<In, Out>>> connect_channel(async::Loop& loop, std::string path,
                                                      std::string_view conversation, async::Until until = {});

/// The same over a connection that is there: an end of a socketpair. name: for errors.
template <class In, class Out>
async::Task<Result<Channel<In, Out>>> open_channel(async::Stream stream, std::string name,
                                                   std::string_view conversation, async::Until until = {});

/// For a conversation that is another protocol behind the hellos. Errors: as connect_channel().
async::Task<Result<async::Stream>> connect_stream(async::Loop& loop, std::string path, std::string conversation,
                                                  async::Until until = {});
/// The server's half: answers the hello.
async::Stream take_stream(Opening opening);

namespace detail {
struct Connected {
  async::Stream stream;
  async::PeerCredentials peer;
  std::uint32_t revision = 0;
};
async::Task<Result<Connected>> connect_and_greet(async::Loop& loop, std::string path, std::string conversation,
                                                 async::Until until);
async::Task<Result<Connected>> greet_server(async::Stream stream, std::string name, std::string conversation,
                                            async::Until until);
}  // namespace detail

template <class In, class Out>
async::Task<Result<Channel<In, Out>>> connect_channel(async::Loop& loop, std::string path,
                                                      std::string_view conversation, async::Until until) {
  auto connected = co_await detail::connect_and_greet(loop, std::move(path), std::string(conversation), until);
  if (!connected) co_return fail(std::move(connected).error());
  co_return Channel<In, Out>(std::move(connected->stream), conversation, connected->peer, connected->revision);
}

template <class In, class Out>
async::Task<Result<Channel<In, Out>>> open_channel(async::Stream stream, std::string name,
                                                   std::string_view conversation, async::Until until) {
  auto connected = co_await detail::greet_server(std::move(stream), std::move(name), std::string(conversation), until);
  if (!connected) co_return fail(std::move(connected).error());
  co_return Channel<In, Out>(std::move(connected->stream), conversation, connected->peer, connected->revision);
}

}  // namespace pen::ipc
