#pragma once
/// Messages with one descriptor each over a Unix socket that keeps message boundaries (SOCK_SEQPACKET, SOCK_DGRAM).
/// For blocking code: a Stream sends descriptors by other means.
///
/// Use:     send_descriptor_message(socket, bytes, file.get());
///          auto got = receive_descriptor_message(socket, room);      // got->size bytes of room, got->descriptor
#include <span>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::async {

/// Sends one message. descriptor: -1 sends none. flags: flags of sendmsg(); MSG_NOSIGNAL is added. Errors: errno.
Result<void> send_descriptor_message(int socket, std::string_view bytes, int descriptor, int flags = 0);

struct DescriptorMessage {
  std::size_t size = 0;
  Fd descriptor;  // closed on exec; empty when the message brought none, or several
};
/// Receives the next message. Bytes that do not fit into `room` are lost. The end of the connection is a message of 0
/// bytes.
Result<DescriptorMessage> receive_descriptor_message(int socket, std::span<char> room);

}  // namespace pen::async
