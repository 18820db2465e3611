#include "lib/send/egress/socks5.h"

#include <utility>

namespace pen::egress {
namespace {

constexpr char kVersion = 5, kLoginVersion = 1;
constexpr std::uint8_t kNoLogin = 0, kUserPassword = 2, kNoMethod = 0xff;
constexpr std::uint8_t kConnect = 1, kBind = 2;
constexpr std::uint8_t kIpv4 = 1, kName = 3, kIpv6 = 4;

std::uint8_t byte_at(std::string_view s, std::size_t i) { return static_cast<std::uint8_t>(s[i]); }
char as_char(std::size_t n) { return static_cast<char>(static_cast<std::uint8_t>(n)); }

}  // namespace

Socks5::Socks5(const Proxy& proxy, const IpAddress& source, const IpAddress& target, std::uint16_t port)
    : proxy_(proxy), source_(source), target_(target), port_(port) {
  // With a password nothing else is offered: a proxy that lets everybody in would choose another source.
  output_ = {kVersion, 1, as_char(proxy_.user.empty() ? kNoLogin : kUserPassword)};
}

void Socks5::fail(Fault fault, std::string why) {
  state_ = State::failed;
  fault_ = fault;
  why_ = std::move(why);
}

std::size_t Socks5::reply_size(std::string_view input) {
  if (input.empty()) return 0;
  if (byte_at(input, 0) != (awaits_ == Awaits::login ? kLoginVersion : kVersion)) {
    fail(Fault::proxy, "the proxy does not speak SOCKS5");
    return 0;
  }
  if (awaits_ == Awaits::method || awaits_ == Awaits::login) return 2;
  if (input.size() >= 2 && byte_at(input, 1) != 0) {  // that is enough, and some hang up behind it
    take(input);
    return 0;
  }
  if (input.size() < 5) return 0;
  switch (byte_at(input, 3)) {
    case kIpv4:
      return 10;
    case kIpv6:
      return 22;
    case kName:
      return 7U + byte_at(input, 4);
    default:
      fail(Fault::proxy, "the proxy's reply has an unknown kind of address");
      return 0;
  }
}

std::size_t Socks5::feed(std::string_view input) {
  std::size_t consumed = 0;
  while (state_ == State::talking) {
    const auto rest = input.substr(consumed);
    const std::size_t size = reply_size(rest);
    if (size == 0 || rest.size() < size) break;
    consumed += size;
    take(rest.substr(0, size));
  }
  return consumed;
}

void Socks5::take(std::string_view reply) {
  const std::uint8_t code = byte_at(reply, 1);
  switch (awaits_) {
    case Awaits::method:
      if (code == kNoMethod)
        return fail(Fault::proxy, proxy_.user.empty() ? "the proxy wants a user and password"
                                                      : "the proxy takes no user and password");
      if (code != (proxy_.user.empty() ? kNoLogin : kUserPassword))
        return fail(Fault::proxy, "the proxy chose a method that was not offered");
      return proxy_.user.empty() ? after_login() : log_in();
    case Awaits::login:
      if (code != 0) return fail(Fault::proxy, "the proxy refuses user and password");
      return after_login();
    case Awaits::bound:
      if (code != 0)
        return fail(Fault::proxy,
                    "the proxy does not take the address " + source_.text() + " (code " + std::to_string(code) + ")");
      awaits_ = Awaits::connected;
      return command(kConnect, target_, port_);
    case Awaits::connected:
      return take_result(code);
  }
}

void Socks5::take_result(std::uint8_t code) {
  switch (code) {
    case 0:
      state_ = State::done;
      return;
    case 2:
      return fail(Fault::proxy, "the proxy's rules do not allow the connection");
    case 3:
      return fail(Fault::unreachable, "Network is unreachable (said the proxy)");
    case 4:
      return fail(Fault::unreachable, "No route to host (said the proxy)");
    case 5:
      return fail(Fault::refused, "Connection refused (said the proxy)");
    case 6:
      return fail(Fault::timed_out, "Connection timed out (said the proxy)");
    default:
      return fail(Fault::proxy, "the proxy failed (code " + std::to_string(code) + ")");
  }
}

void Socks5::log_in() {
  awaits_ = Awaits::login;
  output_ += kLoginVersion;
  output_ += as_char(proxy_.user.size());
  output_ += proxy_.user;
  output_ += as_char(proxy_.password.size());
  output_ += proxy_.password;
}

void Socks5::after_login() {
  if (proxy_.kind == Proxy::Kind::socks5_bind) {
    awaits_ = Awaits::bound;
    return command(kBind, source_, 0);
  }
  awaits_ = Awaits::connected;
  command(kConnect, target_, port_);
}

void Socks5::command(std::uint8_t which, const IpAddress& address, std::uint16_t port) {
  output_ += {kVersion, as_char(which), 0, as_char(address.size == 4 ? kIpv4 : kIpv6)};
  output_.append(reinterpret_cast<const char*>(address.bytes.data()), address.size);
  output_ += as_char(port >> 8U);
  output_ += as_char(port & 0xffU);
}

}  // namespace pen::egress
