#include "lib/mailbox/descriptors.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace pen::mailbox {

Result<SocketPair> socket_pair(int type) {
  int fds[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) != 0) return fail_errno("socketpair");
  return SocketPair{async::Fd(fds[0]), async::Fd(fds[1])};
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
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | (full == Full::fail ? MSG_DONTWAIT : 0));
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return fail_errno("sendmsg");
  return {};
}

Result<Received> receive_descriptor(int socket) {
  // Its size first: a buffer for the largest would be touched, and copied by each fork, for nothing.
  ssize_t size = 0;
  do {
    size = ::recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return fail_errno("recv");
  Received out;
  out.bytes.resize(static_cast<std::size_t>(size));
  iovec part{out.bytes.data(), out.bytes.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return fail_errno("recvmsg");
  out.bytes.resize(static_cast<std::size_t>(got));
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    out.descriptor = async::Fd(descriptor);
  }
  return out;
}

}  // namespace pen::mailbox
