#include "lib/suite/ipc/channel.h"

#include <unistd.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/suite/ipc/badges.h"
#include "lib/suite/ipc/who_may_talk.h"

namespace pen::ipc {

using async::Stream;
using async::Task;
using async::Until;

Result<async::PeerCredentials> check_peer(int fd, const AllowedPeers& allowed) {
  PEN_TRY_ASSIGN(const async::PeerCredentials peer, async::peer_credentials(fd));
  const bool ours =
      peer.uid == 0 || peer.uid == ::geteuid() || peer.uid == allowed.mail_owner || peer.uid == allowed.queue_owner;
  if (!ours && !allowed.everyone) {
    return fail(IpcError::peer_not_allowed, "pid " + std::to_string(peer.pid) + " uid " + std::to_string(peer.uid));
  }
  return peer;
}

namespace {

Task<Result<Hello>> read_hello(Stream& stream, Until until) {
  PEN_CO_TRY_ASSIGN(const std::string_view header, co_await stream.read_exact(kFrameHeader, until));
  const auto size = frame_size(header, kMaxHello);
  if (!size) co_return fail(IpcError::not_a_hello);
  PEN_CO_TRY_ASSIGN(const std::string_view content, co_await stream.read_exact(*size, until));
  const auto frame = parse_frame(content);
  if (!frame || frame->fds != 0) co_return fail(IpcError::not_a_hello);
  // Longer than this program knows, it is a later one's: its version says whether they understand each other.
  auto message = decode_message<HelloMessage>(*frame, true);
  if (!message) co_return fail(IpcError::not_a_hello);
  co_return std::get<Hello>(*std::move(message));
}

std::string words_of(const async::PeerCredentials& peer, const Hello& hello) {
  return "pid " + std::to_string(peer.pid) + " uid " + std::to_string(peer.uid) +
         (hello.program.empty() ? "" : " as " + printable(hello.program, 50)) + ", conversation \"" +
         printable(hello.conversation, 50) + "\"";
}

/// Finds out which program the client is, and checks that it may hold the conversation.
Result<void> look_at_badge(const Hello& hello, const AllowedPeers& allowed, Opening& opening) {
  const Badges& mine = badges();
  const uid_t uid = opening.peer.uid;
  // A server with an account of its own has that account for itself.
  if (uid == 0 || (uid == ::geteuid() && allowed.own_queue() && uid != allowed.mail_owner)) return {};
  if (allowed.own_queue() && uid == *allowed.queue_owner) {
    opening.program = "qmgr";
  } else if (!hello.badge.empty() && !mine.known.empty()) {
    if (!mine.shows(hello.program, hello.badge)) return fail(IpcError::wrong_badge, words_of(opening.peer, hello));
    opening.program = hello.program;
  }
  if (!opening.program.empty()) {
    if (may_hold(opening.program, hello.conversation)) return {};
    return fail(IpcError::not_for_program, words_of(opening.peer, hello));
  }
  if (!mine.demanded) return {};
  if (!open_to_users(hello.conversation)) return fail(IpcError::no_badge, words_of(opening.peer, hello));
  opening.stranger = uid == allowed.mail_owner || uid == ::geteuid();
  return {};
}

}  // namespace

Task<Result<Opening>> greet(Stream stream, AllowedPeers allowed, Until until, std::vector<std::string_view> offered) {
  PEN_CO_TRY_ASSIGN(const async::PeerCredentials peer, check_peer(stream.fd(), allowed));
  PEN_CO_TRY_ASSIGN(Hello hello, co_await read_hello(stream, until));
  PEN_CO_TRY(check_hello(hello, {}));
  if (!offered.empty() && std::ranges::find(offered, hello.conversation) == offered.end())
    co_return fail(IpcError::not_offered, "\"" + printable(hello.conversation, 50) + "\"");
  Opening opening{
      .stream = std::move(stream), .conversation = hello.conversation, .peer = peer, .revision = hello.revision};
  PEN_CO_TRY(look_at_badge(hello, allowed, opening));
  co_return opening;
}

ChannelBase::ChannelBase(Stream stream, std::string conversation, async::PeerCredentials peer, std::uint32_t revision)
    : stream_(std::move(stream)),
      conversation_(std::move(conversation)),
      peer_(peer),
      revision_(revision),
      max_frame_(ipc::max_frame(conversation_)) {}

Error ChannelBase::failed(Error error) {
  stream_.close();
  return std::move(error).within(conversation_);
}

Task<Result<ChannelBase::Received>> ChannelBase::receive_frame(Until until) {
  if (begun_ == 0) {
    auto header = co_await stream_.read_exact(kFrameHeader, until);
    if (!header) co_return fail(std::move(header).error());
    const auto size = frame_size(*header, max_frame_);
    if (!size) co_return fail(failed(size.error()));
    begun_ = *size;
  }
  auto content = co_await stream_.read_exact(begun_, until);
  if (!content) {
    const Error& why = content.error();
    if (why.is(async::WaitError::cancelled) || why.is(async::WaitError::timed_out))
      co_return fail(std::move(content).error());
    co_return fail(failed(std::move(content).error()));
  }
  begun_ = 0;
  const auto frame = parse_frame(*content);
  if (!frame) co_return fail(failed(frame.error()));
  Received received{*frame, {}};
  if (frame->fds != 0) {
    for (Fd& fd : stream_.take_fds()) fds_.push_back(std::move(fd));
    if (fds_.size() < frame->fds) {
      co_return fail(failed(Error(IpcError::descriptors_missing)));
    }
    for (std::size_t i = 0; i < frame->fds; ++i) {
      received.fds.push_back(std::move(fds_.front()));
      fds_.pop_front();
    }
  }
  co_return received;
}

namespace detail {

Task<Result<Connected>> connect_and_greet(async::Loop& loop, std::string path, std::string conversation, Until until) {
  if (const Badges& mine = badges(); !mine.program.empty() && !may_hold(mine.program, conversation))
    co_return fail(IpcError::not_for_program, mine.program + ", \"" + conversation + "\"");
  PEN_CO_TRY_ASSIGN(Stream stream, co_await async::connect(loop, async::SocketAddress::unix(path), until));
  co_return co_await greet_server(std::move(stream), std::move(path), std::move(conversation), until);
}

Task<Result<Connected>> greet_server(Stream stream, std::string name, std::string conversation, Until until) {
  // Only a program that could create the socket listens below queue_directory: the permissions there guard it.
  PEN_CO_TRY_ASSIGN(const async::PeerCredentials peer, async::peer_credentials(stream.fd()));
  Hello own = own_hello(conversation);
  if (const auto badge = badges().for_socket(name); !badge.empty()) {
    own.program = badges().program;
    own.badge = badge;
  }
  (void)encode_frame<HelloMessage>(stream.compose(), own, 0, kMaxHello);
  PEN_CO_TRY_ASSIGN(const Hello hello, co_await read_hello(stream, until));
  if (auto ok = check_hello(hello, conversation); !ok) {
    co_return fail(std::move(ok).error().within(name));
  }
  co_return Connected{std::move(stream), peer, hello.revision};
}

}  // namespace detail

Task<Result<Stream>> connect_stream(async::Loop& loop, std::string path, std::string conversation, Until until) {
  auto connected = co_await detail::connect_and_greet(loop, std::move(path), std::move(conversation), until);
  if (!connected) co_return fail(std::move(connected).error());
  co_return std::move(connected->stream);
}

Stream take_stream(Opening opening) {
  (void)encode_frame<HelloMessage>(opening.stream.compose(), own_hello(opening.conversation), 0, kMaxHello);
  return std::move(opening.stream);
}

}  // namespace pen::ipc
