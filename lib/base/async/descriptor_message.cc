#include "lib/base/async/descriptor_message.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace pen::async {
namespace {

/// The arguments of sendmsg() and recvmsg(): some bytes, and room for one descriptor.
struct Message {
  Message(char* bytes, std::size_t size) : part{bytes, size} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  iovec part;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};

template <class Call>
ssize_t until_done(Call call) {
  ssize_t n = 0;
  do {
    n = call();
  } while (n < 0 && errno == EINTR);
  return n;
}

}  // namespace

Result<void> send_descriptor_message(int socket, std::string_view bytes, int descriptor, int flags) {
  Message message(const_cast<char*>(bytes.data()), bytes.size());
  if (descriptor < 0) {
    message.header.msg_controllen = 0;
  } else {
    cmsghdr* header = CMSG_FIRSTHDR(&message.header);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  const ssize_t sent = until_done([&] { return ::sendmsg(socket, &message.header, MSG_NOSIGNAL | flags); });
  if (sent < 0) return fail_errno("sendmsg");
  return {};
}

Result<DescriptorMessage> receive_descriptor_message(int socket, std::span<char> room) {
  Message message(room.data(), room.size());
  const ssize_t got = until_done([&] { return ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC); });
  if (got < 0) return fail_errno("recvmsg");
  DescriptorMessage out;
  out.size = static_cast<std::size_t>(got);
  const cmsghdr* header = CMSG_FIRSTHDR(&message.header);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return out;
  // Alignment leaves room for a second descriptor, which must not stay open.
  const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count; ++i) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof descriptor, sizeof descriptor);
    Fd fd(descriptor);
    if (count == 1) out.descriptor = std::move(fd);
  }
  return out;
}

}  // namespace pen::async
