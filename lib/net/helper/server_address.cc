#include "lib/net/helper/server_address.h"

#include <sys/un.h>

#include <algorithm>

#include "lib/base/network.h"
#include "lib/base/tcp_port.h"
#include "lib/base/text.h"

namespace pen::helper {
namespace {

constexpr std::size_t kMostPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::size_t kMostHost = 255;

using Parsed = std::expected<ServerAddress, std::string>;
std::unexpected<std::string> wrong(const char* why) { return std::unexpected(std::string(why)); }

bool stands_in_name(char c) { return ascii_alnum(c) || c == '.' || c == '-' || c == '_'; }

Parsed parse_path(std::string_view path, const ServerAddress::Form& form) {
  if (path.empty()) return wrong("no path");
  ServerAddress out;
  if (path.starts_with('/')) {
    out.path = path;
  } else {
    if (form.directory.empty()) return wrong("the path of a socket begins with /");
    out.path = std::string(form.directory) + "/" + std::string(path);
  }
  if (out.path.size() > kMostPath) return wrong("longer than a socket's path can be");
  return out;
}

Parsed parse_host(std::string_view text, const ServerAddress::Form& form) {
  std::string_view host = text, port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return wrong("a ] is missing");
    host = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return wrong("only :port may follow ]");
    has_port = !rest.empty();
    port = has_port ? rest.substr(1) : rest;
  } else if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    if (form.default_port != 0 && text.find(':') != colon)
      return wrong("an IPv6 address must be in brackets: inet:[address]:port");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    has_port = true;
  } else if (!form.default_host.empty()) {
    host = {};
    port = text;
    has_port = true;
  }
  if (host.empty()) host = form.default_host;
  ServerAddress out;
  out.host = host;
  const bool name = !host.empty() && std::ranges::all_of(host, stands_in_name);
  if (host.empty() || host.size() > kMostHost || (!name && !parse_ip(host)))
    return wrong("the host is neither a name nor an address");
  if (!has_port && form.default_port == 0) return wrong("no port; the form is inet:host:port");
  out.port = form.default_port;
  if (has_port) {
    const auto number = tcp_port(port);
    if (!number) return wrong("no such port");
    out.port = *number;
  }
  return out;
}

}  // namespace

std::expected<ServerAddress, std::string> ServerAddress::parse(std::string_view text, const Form& form) {
  text = trim(text);
  if (text.starts_with("unix:")) return parse_path(text.substr(5), form);
  if (form.local && text.starts_with("local:")) return parse_path(text.substr(6), form);
  if (text.starts_with("inet:")) return parse_host(text.substr(5), form);
  switch (form.bare) {
    case Bare::host:
      return text.starts_with('/') ? parse_path(text, form) : parse_host(text, form);
    case Bare::path:
      return parse_path(text, form);
    case Bare::refused:
      break;
  }
  return wrong("neither inet:host:port nor unix:path");
}

bool ServerAddress::has_name() const { return path.empty() && !iequals(host, "localhost") && !parse_ip(host); }

std::vector<async::SocketAddress> ServerAddress::ways() const {
  if (!path.empty()) return {async::SocketAddress::unix(path)};
  if (iequals(host, "localhost"))
    return {async::SocketAddress::inet("127.0.0.1", port), async::SocketAddress::inet("::1", port)};
  if (has_name()) return {};
  return {async::SocketAddress::inet(host, port)};
}

std::string ServerAddress::text() const {
  if (!path.empty()) return "unix:" + path;
  return "inet:" + (host.contains(':') ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace pen::helper
