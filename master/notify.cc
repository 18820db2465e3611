#include "master/notify.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "lib/base/text.h"

namespace pen::master {
namespace {

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
  return {std::move(address), std::chrono::microseconds(ours ? patience : 0)};
}

Notifier::Notifier(std::string address, std::chrono::microseconds patience)
    : address_(std::move(address)), patience_(address_.empty() ? std::chrono::microseconds(0) : patience) {}

Result<void> Notifier::send(std::string_view assignments) {
  if (address_.empty()) return {};
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if ((address_[0] != '/' && address_[0] != '@') || address_.size() >= sizeof to.sun_path)
    return fail_errno("NOTIFY_SOCKET=" + address_, EINVAL);
  std::memcpy(to.sun_path, address_.data(), address_.size());
  if (to.sun_path[0] == '@') to.sun_path[0] = '\0';  // an abstract socket
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  if (!socket_) {
    socket_ = Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket_) return fail_errno("notification socket");
  }
  // Without waiting: a service manager whose socket is full gets the next message.
  const auto sent = ::sendto(socket_.get(), assignments.data(), assignments.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                             reinterpret_cast<const sockaddr*>(&to), size);
  if (sent < 0) return fail_errno("NOTIFY_SOCKET=" + address_);
  return {};
}

Result<void> Notifier::ready(std::string_view status) {
  return send(fmt::format("READY=1\nSTATUS={}\nMAINPID={}", one_line(status), ::getpid()));
}

Result<void> Notifier::reloading(SteadyTime now) {
  const auto since_boot = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  return send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reloading", since_boot.count()));
}

Result<void> Notifier::stopping() { return send("STOPPING=1\nSTATUS=letting what is in hand finish"); }

Result<void> Notifier::status(std::string_view text) { return send("STATUS=" + one_line(text)); }

Result<void> Notifier::alive() { return send("WATCHDOG=1"); }

}  // namespace pen::master
