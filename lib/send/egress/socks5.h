#pragma once
/// The client's side of SOCKS5: logs in, has the proxy take an address, and connect.
///
/// Use:     Socks5 s(proxy, source_address, target, port);
///          write(s.take_output());
///          while (s.state() == Socks5::State::talking) { read; consume(s.feed(read)); write(s.take_output()); }
///          state() done: what is not consumed is the target's. failed: fault() says whose it is.
/// Rules:   no more is consumed than a reply has. With Proxy::Kind::socks5_bind the command BIND with the address and
///          port 0 comes before CONNECT, answered once: proxies that have many addresses take the one for CONNECT from
///          it.
/// Bounds:  a reply has 262 bytes at most.
/// Source:  RFC 1928, RFC 1929. No I/O.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/network.h"
#include "lib/send/egress/file.h"

namespace pen::egress {

class Socks5 {
 public:
  enum class State : std::uint8_t { talking, done, failed };
  /// Whose fault it is that there is no connection.
  enum class Fault : std::uint8_t { proxy, refused, unreachable, timed_out };

  /// source: for socks5_bind. target: numeric.
  Socks5(const Proxy& proxy, const IpAddress& source, const IpAddress& target, std::uint16_t port);
  /// What is to be written; empty: nothing.
  std::string take_output() { return std::exchange(output_, {}); }
  /// Bytes of the proxy, beginning behind those consumed. Returns how many it consumes.
  std::size_t feed(std::string_view input);

  State state() const { return state_; }
  Fault fault() const { return fault_; }
  /// For people: "the proxy refuses user and password".
  const std::string& why() const { return why_; }

 private:
  enum class Awaits : std::uint8_t { method, login, bound, connected };
  /// How many bytes the reply at the begin of the input has; 0: not known yet.
  std::size_t reply_size(std::string_view input);
  void take(std::string_view reply);
  void take_result(std::uint8_t code);
  void log_in();
  void command(std::uint8_t which, const IpAddress& address, std::uint16_t port);
  void after_login();
  void fail(Fault fault, std::string why);

  Proxy proxy_;
  IpAddress source_, target_;
  std::uint16_t port_;
  Awaits awaits_ = Awaits::method;
  State state_ = State::talking;
  Fault fault_ = Fault::proxy;
  std::string output_, why_;
};

}  // namespace pen::egress
