#include "master/notify.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "lib/base/text.h"

namespace pen::master {
namespace {

constexpr timeval kStorePatience{.tv_sec = 1, .tv_usec = 0};
constexpr const char* kKeeper = "PENSTOCK_KEEPER";

std::string take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

/// 0: not a number.
long long number(const std::string& text) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? value : 0;
}

/// A status must not hold further assignments.
std::string one_line(std::string_view text) { return printable(text, 500); }

}  // namespace

Notifier Notifier::from_environment() {
  std::string address = take_variable("NOTIFY_SOCKET");
  const long long patience = number(take_variable("WATCHDOG_USEC"));
  const std::string meant = take_variable("WATCHDOG_PID");
  const bool ours = meant.empty() || number(meant) == ::getpid();
  Notifier notifier(std::move(address), std::chrono::microseconds(ours ? patience : 0));
  const auto keeper = static_cast<pid_t>(number(take_variable(kKeeper)));
  if (notifier.connected()) notifier.keeper_ = keeper;
  return notifier;
}

Notifier::Notifier(std::string address, std::chrono::microseconds patience)
    : address_(std::move(address)), patience_(address_.empty() ? std::chrono::microseconds(0) : patience) {}

Result<void> Notifier::send(std::string_view assignments, int fd, bool wait) {
  if (address_.empty()) return {};
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if ((address_[0] != '/' && address_[0] != '@') || address_.size() >= sizeof to.sun_path)
    return fail_errno("NOTIFY_SOCKET=" + address_, EINVAL);
  std::memcpy(to.sun_path, address_.data(), address_.size());
  if (to.sun_path[0] == '@') to.sun_path[0] = '\0';  // an abstract socket
  if (!socket_) {
    socket_ = Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket_) return fail_errno("notification socket");
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kStorePatience, sizeof kStorePatience);
  }
  iovec text{const_cast<char*>(assignments.data()), assignments.size()};
  msghdr message{};
  message.msg_name = &to;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  // Most words do not wait: a service manager with a full socket gets the next ones. A descriptor is sent once, as is
  // that master is ready or stops, and the end of a program, which is a signal, is no reason not to.
  const auto end = std::chrono::steady_clock::now() + seconds(kStorePatience.tv_sec);
  while (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) < 0) {
    if (errno != EINTR || std::chrono::steady_clock::now() >= end) return fail_errno("NOTIFY_SOCKET=" + address_);
  }
  return {};
}

Result<void> Notifier::ready(std::string_view status) {
  return send(fmt::format("READY=1\nSTATUS={}\nMAINPID={}", one_line(status), ::getpid()), -1, true);
}

Result<void> Notifier::reloading(SteadyTime now) {
  const auto since_boot = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  return send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reloading", since_boot.count()));
}

Result<void> Notifier::stopping() { return send("STOPPING=1\nSTATUS=letting what is in hand finish", -1, true); }

Result<void> Notifier::status(std::string_view text) { return send("STATUS=" + one_line(text)); }

Result<void> Notifier::alive() { return send("WATCHDOG=1"); }

Result<void> Notifier::keep(const std::string& name, int fd) { return send("FDSTORE=1\nFDNAME=" + name, fd, true); }

Result<void> Notifier::forget(const std::string& name) { return send("FDSTOREREMOVE=1\nFDNAME=" + name, -1, true); }

std::vector<std::string> Notifier::environment() const {
  if (address_.empty()) return {};
  std::vector<std::string> out = {"NOTIFY_SOCKET=" + address_};
  if (keeper_ != 0) out.push_back(fmt::format("{}={}", kKeeper, keeper_));
  if (patience_.count() != 0)
    out.push_back(
        fmt::format("WATCHDOG_USEC={}", std::chrono::duration_cast<std::chrono::microseconds>(patience_).count()));
  return out;
}

Descriptors take_kept_descriptors() {
  constexpr int kFirst = 3;
  constexpr long long kMost = 4096;
  const long long count = number(take_variable("LISTEN_FDS"));
  const bool ours = number(take_variable("LISTEN_PID")) == ::getpid();
  const std::string names = take_variable("LISTEN_FDNAMES");
  Descriptors kept;
  if (!ours || count > kMost) return kept;
  std::size_t at = 0;
  for (int fd = kFirst; fd < kFirst + count; ++fd) {
    const std::size_t end = std::min(names.find(':', at), names.size());
    std::string name = at <= names.size() ? names.substr(at, end - at) : "";
    at = end + 1;
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) continue;
    Fd owned(fd);
    if (!name.empty()) kept.emplace(std::move(name), std::move(owned));
  }
  return kept;
}

}  // namespace pen::master
