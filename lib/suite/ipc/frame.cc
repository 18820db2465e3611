#include "lib/suite/ipc/frame.h"

namespace pen::ipc {

std::string_view error_module(IpcError) { return "ipc"; }
std::string_view describe(IpcError e) {
  switch (e) {
    case IpcError::frame_too_large:
      return "frame too large";
    case IpcError::malformed_frame:
      return "malformed frame";
    case IpcError::descriptors_missing:
      return "frame without its descriptors";
    case IpcError::not_a_hello:
      return "the peer does not speak this protocol";
    case IpcError::wrong_version:
      return "the peer speaks another version";
    case IpcError::wrong_conversation:
      return "the peer speaks another conversation";
    case IpcError::not_offered:
      return "conversation not offered";
    case IpcError::out_of_place:
      return "a message out of place";
    case IpcError::no_answer:
      return "no answer";
    case IpcError::peer_not_allowed:
      return "peer not allowed";
    case IpcError::wrong_badge:
      return "a badge that is not the program's";
    case IpcError::no_badge:
      return "no badge, so none of our programs";
    case IpcError::not_for_program:
      return "a conversation that the program may not hold";
  }
  return "unknown";
}

std::size_t max_frame(std::string_view conversation) {
  constexpr std::size_t kWithBodies = 64 * 1024 * 1024;
  constexpr std::size_t kOthers = 1024 * 1024;
  const bool bodies = conversation == "enqueue" || conversation == "delivery" || conversation == "bounce";
  return bodies ? kWithBodies : kOthers;
}

Result<std::size_t> frame_size(std::string_view header, std::size_t max) {
  PEN_CHECK(header.size() >= kFrameHeader);
  const std::size_t size = load_le<std::uint32_t>(as_bytes(header).data());
  if (size > max) {
    return fail(IpcError::frame_too_large, std::to_string(size) + " bytes, " + std::to_string(max) + " permitted");
  }
  if (size < 2) return fail(IpcError::malformed_frame, "empty");
  return size;
}

Result<Frame> parse_frame(std::string_view content) {
  Decoder decoder(content);
  const std::uint64_t fds = decoder.varint();
  if (!decoder.ok() || fds > kMaxFrameFds) {
    return fail(IpcError::malformed_frame, "number of descriptors");
  }
  return Frame{static_cast<std::size_t>(fds), decoder.rest()};
}

std::uint64_t message_index(const Frame& frame) { return Decoder(frame.message).varint(); }

namespace detail {

std::size_t begin_frame(std::string& out, std::size_t fds) {
  PEN_CHECK(fds <= kMaxFrameFds);
  const std::size_t start = out.size();
  out.append(kFrameHeader, '\0');
  Encoder(out).varint(fds);
  return start;
}

bool end_frame(std::string& out, std::size_t start, std::size_t max) {
  const std::size_t size = out.size() - start - kFrameHeader;
  if (size > max) {
    out.resize(start);
    return false;
  }
  store_le(reinterpret_cast<std::byte*>(out.data() + start), static_cast<std::uint32_t>(size));
  return true;
}

}  // namespace detail

Result<void> check_hello(const Hello& hello, std::string_view conversation) {
  if (hello.magic != Hello::kMagic) return fail(IpcError::not_a_hello);
  if (hello.version != kVersion) {
    return fail(IpcError::wrong_version, std::to_string(hello.version) + " instead of " + std::to_string(kVersion));
  }
  if (!conversation.empty() && hello.conversation != conversation) {
    return fail(IpcError::wrong_conversation, hello.conversation);
  }
  return {};
}

}  // namespace pen::ipc
