#pragma once
/// Messages with one descriptor each over SOCK_SEQPACKET sockets, between processes of one program. For blocking code.
#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::mailbox {

/// Both ends of a new socket, closed on exec. type: SOCK_STREAM or SOCK_SEQPACKET.
struct SocketPair {
  Fd ours, theirs;
};
Result<SocketPair> socket_pair(int type);

/// Sends a message without a descriptor.
Result<void> send_message(int socket, std::string_view bytes);

enum class Full : bool { fail, wait };
/// full: what to do when the receiver has too much unread; do not wait for a peer that other users may stop. Errors:
/// errno; EPIPE: the peer is gone; EAGAIN: Full::fail.
Result<void> send_descriptor(int socket, std::string_view bytes, int descriptor, Full full);

/// The next message, of any size. The end of the connection is a message without a descriptor.
struct Received {
  std::string bytes;
  Fd descriptor;
};
Result<Received> receive_descriptor(int socket);

}  // namespace pen::mailbox
