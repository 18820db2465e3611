#include "lib/suite/service/standby.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>

namespace pen::service {
namespace {

constexpr std::size_t kMost = 2000;
constexpr int kPatience = 2000;  // ms

/// FNV-1a: the name of a directory may be too long for an address.
std::uint64_t number_of(const std::string& text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

socklen_t address_of(const std::string& config_directory, sockaddr_un& address) {
  std::error_code error;
  const std::string real = std::filesystem::canonical(config_directory, error).string();
  const std::string name = "penstock-lease-" + std::to_string(number_of(real));
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

}  // namespace

Result<Fd> open_standby_door(const std::string& config_directory) {
  sockaddr_un address{};
  const socklen_t size = address_of(config_directory, address);
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno("socket");
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(fd.get(), 16) != 0)
    return fail_errno("the socket for the state of a standby");
  return fd;
}

void answer_at_door(int door, const std::string& text) {
  for (;;) {
    const Fd peer(::accept4(door, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer) return;
    (void)::send(peer.get(), text.data(), std::min(text.size(), kMost), MSG_NOSIGNAL);
  }
}

std::optional<Standby> running_standby(const std::string& config_directory) {
  sockaddr_un address{};
  const socklen_t size = address_of(config_directory, address);
  const Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return std::nullopt;
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return std::nullopt;
  if (who.uid != 0 && who.uid != ::geteuid()) return std::nullopt;
  auto process = Process::open(who.pid);
  if (!process) return std::nullopt;
  Standby found{*std::move(process), {}};
  pollfd look{fd.get(), POLLIN, 0};
  if (::poll(&look, 1, kPatience) == 1) {
    found.text.resize(kMost);
    const ssize_t n = ::recv(fd.get(), found.text.data(), found.text.size(), 0);
    found.text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  }
  return found;
}

}  // namespace pen::service
