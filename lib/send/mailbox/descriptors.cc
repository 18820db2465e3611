#include "lib/send/mailbox/descriptors.h"

#include <sys/socket.h>

#include <cerrno>

#include "lib/base/async/descriptor_message.h"

namespace pen::mailbox {

Result<SocketPair> socket_pair(int type) {
  int fds[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) != 0) return fail_errno("socketpair");
  return SocketPair{Fd(fds[0]), Fd(fds[1])};
}

Result<void> send_message(int socket, std::string_view bytes) {
  ssize_t sent = 0;
  do {
    sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return fail_errno("send");
  return {};
}

Result<void> send_descriptor(int socket, std::string_view bytes, int descriptor, Full full) {
  return async::send_descriptor_message(socket, bytes, descriptor, full == Full::fail ? MSG_DONTWAIT : 0);
}

Result<Received> receive_descriptor(int socket) {
  // Ask for the size first: a buffer for the largest message would be touched, and copied by each fork, for nothing.
  ssize_t size = 0;
  do {
    size = ::recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return fail_errno("recv");
  Received out;
  out.bytes.resize(static_cast<std::size_t>(size));
  PEN_TRY_ASSIGN(auto got, async::receive_descriptor_message(socket, out.bytes));
  out.bytes.resize(got.size);
  out.descriptor = std::move(got.descriptor);
  return out;
}

}  // namespace pen::mailbox
