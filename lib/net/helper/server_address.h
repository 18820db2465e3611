#pragma once
/// Where a server is that helps the mail system, as main.cf and tables write it: a policy service, a filter, a server
/// of tables, redis, an authentication service.
///
/// Use:     auto at = helper::ServerAddress::parse("inet:rspamd:11332", {.directory = queue_directory});
///          if (!at) … at.error() …                              // "no port; the form is inet:host:port"
///          auto stream = co_await helper::reach(loop, ways, until);       // reach.h
/// Forms:   "inet:host:port" and "unix:path"; Form says what else is taken. An IPv6 address may stand in [ ]. A port
///          may be a name (tcp_port()).
/// Errors:  why the text is no address: a part of a sentence for the log.
/// Thread:  any; pure but for the names of ports.
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/async/socket.h"

namespace pen::helper {

struct ServerAddress {
  std::string path;  // of a Unix socket; empty:
  std::string host;  // a name, or a numeric address without brackets
  std::uint16_t port = 0;

  /// What stands for an address where its type is left out.
  enum class Bare : std::uint8_t { refused, host, path };
  struct Form {
    std::string_view directory = {};     // relative paths lie below it; empty: a path begins with /
    std::uint16_t default_port = 0;      // of "inet:host"; 0: the port is needed
    std::string_view default_host = {};  // of "inet:port" and "inet::port"; empty: the host is needed
    Bare bare = Bare::refused;           // host: "/path" is one all the same
    bool local = false;                  // "local:path" as well, as for filters
  };
  static std::expected<ServerAddress, std::string> parse(std::string_view text, const Form& form);

  /// Whether the host must be looked up. "localhost" need not be.
  bool has_name() const;
  /// The addresses to connect to, in order; none if has_name(). localhost is 127.0.0.1, then ::1.
  std::vector<async::SocketAddress> ways() const;
  /// "unix:/path", "inet:host:port" or "inet:[::1]:port".
  std::string text() const;
  bool operator==(const ServerAddress&) const = default;
};

}  // namespace pen::helper
