#include "lib/suite/service/standby.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>

#include "lib/base/random.h"
#include "lib/suite/service/listening_names.h"

namespace pen::service {
namespace {

constexpr std::size_t kMost = 2000;
constexpr int kPatience = 2000;  // ms
constexpr int kAtOnce = 16;      // callers: more that come do not hold up the owner's other work
constexpr const char *kLease = "penstock-lease-", *kKeeper = "penstock-keeper-";

/// FNV-1a: the name of a directory may be too long for an address.
std::uint64_t number_of(const std::string& text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

/// What the names of an instance's doors begin with.
std::string prefix_of(const char* kind, const std::string& config_directory) {
  std::error_code error;
  const std::string real = std::filesystem::canonical(config_directory, error).string();
  return kind + std::to_string(number_of(real));
}

socklen_t address_of(const std::string& name, sockaddr_un& address) {
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

/// All doors that may be the instance's. Older versions use the bare prefix.
Result<std::set<std::string>> doors_of(const std::string& prefix) {
  PEN_TRY_ASSIGN(auto names, listening_names(prefix));
  std::erase_if(names, [&](const std::string& name) {
    const bool longer = name.size() > prefix.size() && name[prefix.size()] == '-';
    return name.size() >= sizeof(sockaddr_un::sun_path) || (!longer && name != prefix);
  });
  return names;
}

/// The process behind a door. EAGAIN: too many others are at the door, for now; other errors: it is nobody that counts.
Result<Answering> knock(const std::string& name) {
  sockaddr_un address{};
  const socklen_t size = address_of(name, address);
  // A stranger who takes no connection must not hold up a tool.
  const Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return fail_errno(name);
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return fail_errno(name);
  if (who.uid != 0 && who.uid != ::geteuid()) return fail_errno(name, EPERM);
  auto process = Process::open(who.pid);
  if (!process) return fail_errno(name, ESRCH);
  Answering found{*std::move(process), {}};
  pollfd look{fd.get(), POLLIN, 0};
  if (::poll(&look, 1, kPatience) == 1) {
    found.text.resize(kMost);
    const ssize_t n = ::recv(fd.get(), found.text.data(), found.text.size(), 0);
    found.text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  }
  return found;
}

Result<Fd> open_door(const std::string& prefix) {
  sockaddr_un address{};
  const socklen_t size = address_of(fmt::format("{}-{:016x}", prefix, secure_random_u64()), address);
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno("socket");
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(fd.get(), 16) != 0)
    return fail_errno("the socket for tools that ask");
  return fd;
}

Result<std::optional<Answering>> ask_at_doors(const std::string& prefix) {
  const auto end = std::chrono::steady_clock::now() + milliseconds(kPatience);
  for (;;) {
    bool crowded = false;
    PEN_TRY_ASSIGN(const auto doors, doors_of(prefix));
    for (const std::string& name : doors) {
      auto found = knock(name);
      if (found) return *std::move(found);
      crowded = crowded || found.error().is_errno(EAGAIN);
    }
    if (!crowded || std::chrono::steady_clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(milliseconds(20));  // nothing tells when there is room
  }
}

}  // namespace

Result<Fd> open_standby_door(const std::string& config_directory) {
  return open_door(prefix_of(kLease, config_directory));
}

Result<Fd> open_keeper_door(const std::string& config_directory) {
  return open_door(prefix_of(kKeeper, config_directory));
}

void answer_at_door(int door, const std::string& text) {
  for (int i = 0; i < kAtOnce; ++i) {
    const Fd peer(::accept4(door, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer) return;
    (void)::send(peer.get(), text.data(), std::min(text.size(), kMost), MSG_NOSIGNAL);
  }
}

std::string keeper_answer(const std::string& text, milliseconds due) {
  return fmt::format("{}\n{}", text, std::max(due, milliseconds(0)).count());
}

Result<std::optional<Answering>> running_standby(const std::string& config_directory) {
  return ask_at_doors(prefix_of(kLease, config_directory));
}

Result<std::optional<Keeping>> running_keeper(const std::string& config_directory) {
  PEN_TRY_ASSIGN(auto found, ask_at_doors(prefix_of(kKeeper, config_directory)));
  if (!found) return std::nullopt;
  Keeping keeper{std::move(found->process), std::move(found->text), {}};
  const auto end = keeper.text.find('\n');
  if (end == std::string::npos) return keeper;  // an older one
  milliseconds::rep due = 0;
  const char *const first = keeper.text.data() + end + 1, *const last = keeper.text.data() + keeper.text.size();
  if (std::from_chars(first, last, due).ec == std::errc()) keeper.due = milliseconds(due);
  keeper.text.resize(end);
  return keeper;
}

}  // namespace pen::service
