#pragma once
/// Messages with one descriptor over SOCK_SEQPACKET sockets, between processes of one program. Blocking code's.
#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::mailbox {

/// Two ends of a new socket, closed on exec. type: SOCK_STREAM or SOCK_SEQPACKET.
struct SocketPair {
  Fd ours, theirs;
};
Result<SocketPair> socket_pair(int type);

/// The same without a descriptor.
Result<void> send_message(int socket, std::string_view bytes);

enum class Full : bool { fail, wait };
/// full: what to do while too much is unread; a peer that may be stopped by others is not waited for.
/// Errors: errno; EPIPE: nobody reads any more; EAGAIN: Full::fail.
Result<void> send_descriptor(int socket, std::string_view bytes, int descriptor, Full full);

/// The next message, whatever its size. An end of the connection is a message without a descriptor.
struct Received {
  std::string bytes;
  Fd descriptor;
};
Result<Received> receive_descriptor(int socket);

}  // namespace pen::mailbox
