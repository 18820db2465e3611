#pragma once
/// Messages with one descriptor over a Unix socket that keeps them apart (SOCK_SEQPACKET, SOCK_DGRAM). Blocking
/// code's: a Stream has its own way.
///
/// Use:     send_descriptor_message(socket, bytes, file.get());
///          auto got = receive_descriptor_message(socket, room);      // got->size bytes of room, got->descriptor
#include <span>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::async {

/// descriptor: -1 for a message without one. flags: those of sendmsg(), beside MSG_NOSIGNAL. Errors: errno.
Result<void> send_descriptor_message(int socket, std::string_view bytes, int descriptor, int flags = 0);

struct DescriptorMessage {
  std::size_t size = 0;
  Fd descriptor;  // closed on exec; none when there came none, or several
};
/// The next message; what does not go into `room` is lost. An end of the connection is a message of no bytes.
Result<DescriptorMessage> receive_descriptor_message(int socket, std::span<char> room);

}  // namespace pen::async
