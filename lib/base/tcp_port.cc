#include "lib/base/tcp_port.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/base/text.h"

namespace pen {
namespace {

constexpr std::size_t kMaxName = 32;  // of a service; longer ones are no ports

std::optional<std::uint16_t> number(std::string_view text) {
  const auto n = parse_unsigned(text);
  if (!n || *n == 0 || *n > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(*n);
}

std::optional<std::uint16_t> of_services(const std::string& name) {
  servent entry{};
  servent* found = nullptr;
  std::array<char, 4096> buffer{};
  if (::getservbyname_r(name.c_str(), "tcp", &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return ntohs(static_cast<std::uint16_t>(found->s_port));
}

std::mutex mutex;
std::shared_ptr<const TcpPorts>& of_process() {
  static std::shared_ptr<const TcpPorts> ports = std::make_shared<const TcpPorts>(
      TcpPorts{{"lmtp", 24}, {"smtp", 25}, {"smtps", 465}, {"submissions", 465}, {"submission", 587}});
  return ports;
}

}  // namespace

std::expected<TcpPorts, std::string> parse_tcp_ports(std::string_view text) {
  TcpPorts out;
  for (std::string_view item : split(text, ",")) {
    item = trim(item);
    if (item.empty()) continue;
    const std::string whole(item);
    std::vector<std::string_view> names;
    for (auto equals = item.find('='); equals != std::string_view::npos; equals = item.find('=')) {
      names.push_back(trim(item.substr(0, equals)));
      item.remove_prefix(equals + 1);
    }
    const auto port = number(trim(item));
    if (names.empty() || !port) return std::unexpected(whole);
    for (const std::string_view name : names) {
      if (name.empty() || name.size() > kMaxName || name.find_first_of(" \t\r\n") != std::string_view::npos ||
          parse_unsigned(name))
        return std::unexpected(whole);
      out.insert_or_assign(to_lower(name), *port);
    }
  }
  return out;
}

std::optional<std::uint16_t> tcp_port(std::string_view text, const TcpPorts& known) {
  if (parse_unsigned(text)) return number(text);
  if (text.empty() || text.size() > kMaxName) return std::nullopt;
  if (const auto found = known.find(to_lower(text)); found != known.end()) return found->second;
  return of_services(std::string(text));
}

void know_tcp_ports(TcpPorts known) {
  auto ports = std::make_shared<const TcpPorts>(std::move(known));
  const std::lock_guard lock(mutex);
  of_process().swap(ports);
}

std::optional<std::uint16_t> tcp_port(std::string_view text) {
  std::shared_ptr<const TcpPorts> known;
  {
    const std::lock_guard lock(mutex);
    known = of_process();
  }
  return tcp_port(text, *known);
}

}  // namespace pen
