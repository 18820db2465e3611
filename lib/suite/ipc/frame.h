#pragma once
/// Frames: the bytes of a conversation between two programs, without I/O.
///
/// Format:  docs/ipc.md. u32 length (little-endian) of what follows; varint number of descriptors;
///          varint index into the direction's variant; the struct's fields (lib/base/codec.h).
/// Use:     if (!encode_frame<Out>(out, message, fds, max)) …       // nothing appended: it is too large
///          auto size = frame_size(first_four_bytes, max);  auto f = parse_frame(the_next_size_bytes);
///          auto message = decode_message<In>(*f);          // string_views point into the bytes
/// Bounds:  a frame longer than max (see max_frame()) or with more than kMaxFrameFds descriptors is an error.
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "lib/base/check.h"
#include "lib/base/codec.h"
#include "lib/base/result.h"
#include "lib/suite/ipc/topology.h"

namespace pen::ipc {

enum class IpcError {
  frame_too_large = 1,
  malformed_frame,
  descriptors_missing,
  not_a_hello,
  wrong_version,
  wrong_conversation,
  not_offered,
  out_of_place,
  no_answer,
  peer_not_allowed,
  wrong_badge,
  no_badge,
  not_for_program
};
std::string_view error_module(IpcError);
std::string_view describe(IpcError);

inline constexpr std::size_t kFrameHeader = 4;
inline constexpr std::size_t kMaxFrameFds = 16;

/// The largest frame of a conversation, in bytes: messages with bodies travel in enqueue and
/// delivery (queue_inline_limit bounds the body, recipients the envelope), nothing large elsewhere.
std::size_t max_frame(std::string_view conversation);

struct Frame {
  std::size_t fds = 0;
  std::string_view message;  // index and fields
};

/// The size of the frame's content, from its four bytes of header.
Result<std::size_t> frame_size(std::string_view header, std::size_t max);
/// The content of a frame taken apart.
Result<Frame> parse_frame(std::string_view content);

/// Which alternative the frame claims to be, for error texts.
std::uint64_t message_index(const Frame& frame);

/// of_later: the peer is of a later revision, and what it says may be longer than this program knows.
template <class In>
Result<In> decode_message(const Frame& frame, bool of_later = false) {
  Decoder decoder(frame.message);
  In message{};
  decoder.get(message);
  if (decoder.ok() && (of_later || decoder.rest().empty())) return message;
  return fail(IpcError::malformed_frame, "message type " + std::to_string(message_index(frame)));
}

namespace detail {
template <class M, class... T>
constexpr std::size_t index_of(const std::variant<T...>*) {
  std::size_t at = 0;
  (void)((std::is_same_v<M, T> || ++at == 0) || ...);
  return at;
}
/// Starts a frame at the end of out; returns where it starts.
std::size_t begin_frame(std::string& out, std::size_t fds);
/// Writes its length. False when the frame is longer than max; out is then as before.
bool end_frame(std::string& out, std::size_t start, std::size_t max);
}  // namespace detail

/// Appends one frame. False, and nothing is appended, when it would be longer than max.
template <class Out, class M>
[[nodiscard]] bool encode_frame(std::string& out, const M& message, std::size_t fds, std::size_t max) {
  constexpr std::size_t kIndex = detail::index_of<M>(static_cast<const Out*>(nullptr));
  static_assert(kIndex < std::variant_size_v<Out>, "not a message of this direction");
  const std::size_t start = detail::begin_frame(out, fds);
  Encoder encoder(out);
  encoder.varint(kIndex);
  encoder.put(message);
  return detail::end_frame(out, start, max);
}

/// First frame each way.
struct Hello {
  static constexpr std::uint32_t kMagic = 0x4e455021;
  std::uint32_t magic = kMagic;
  std::string conversation;
  std::uint32_t version = kVersion;
  std::uint32_t revision = 0;            // what a peer has that does not name it
  std::string program = {}, badge = {};  // the client's (badges.h); empty: it does not say. A server says nothing
  PEN_FIELDS(magic, conversation, version, revision, program, badge)
};
using HelloMessage = std::variant<Hello>;
inline Hello own_hello(std::string_view conversation) {
  return {.conversation = std::string(conversation), .revision = kRevision};
}
inline constexpr std::size_t kMaxHello = 256;

/// Whether a hello is one of ours; conversation empty: any.
Result<void> check_hello(const Hello& hello, std::string_view conversation);

}  // namespace pen::ipc
