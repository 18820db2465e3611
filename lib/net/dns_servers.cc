#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "lib/base/text.h"
#include "lib/net/dns.h"

namespace pen::net {
namespace {

/// The address in normal form, without brackets; nullopt: not numeric.
std::optional<std::string> numeric(std::string_view text) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  const std::string copy(text);
  std::array<unsigned char, 16> bytes{};
  std::array<char, INET6_ADDRSTRLEN> out{};
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, copy.c_str(), bytes.data()) == 1) {
      return std::string(inet_ntop(family, bytes.data(), out.data(), out.size()));
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<async::SocketAddress>> parse_servers(std::string_view text, unsigned short default_port) {
  std::vector<async::SocketAddress> servers;
  for (const std::string_view word : split(text)) {
    std::string_view host = word;
    unsigned short port = default_port;
    const auto bad = [&] { return fail(DnsError::bad_address, printable(word, 100)); };
    if (!numeric(word)) {
      const auto colon = word.rfind(':');
      if (colon == std::string_view::npos) return bad();
      const auto number = parse_unsigned(word.substr(colon + 1));
      if (!number || *number == 0 || *number > 65535) return bad();
      port = static_cast<unsigned short>(*number);
      host = word.substr(0, colon);
    }
    const auto ip = numeric(host);
    if (!ip) return bad();
    servers.push_back(async::SocketAddress::inet(*ip, port));
  }
  return servers;
}

void apply_resolv_conf(std::string_view text, ResolverOptions& options) {
  std::vector<async::SocketAddress> servers;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto words = split(text.substr(0, end), " \t\r");
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (words.size() < 2) continue;
    if (words[0] == "nameserver" && servers.size() < 8) {
      if (const auto ip = numeric(words[1])) servers.push_back(async::SocketAddress::inet(*ip, 53));
    } else if (words[0] == "options") {
      for (const auto word : words) {
        if (word.starts_with("timeout:")) {
          if (const auto n = parse_unsigned(word.substr(8))) {
            options.timeout =
                seconds(std::clamp<long long>(static_cast<long long>(std::min<unsigned long long>(*n, 30)), 1, 30));
          }
        } else if (word.starts_with("attempts:")) {
          if (const auto n = parse_unsigned(word.substr(9))) {
            options.tries = static_cast<unsigned>(std::clamp<unsigned long long>(*n, 1, 5));
          }
        }
      }
    }
  }
  if (!servers.empty()) options.servers = std::move(servers);
}

}  // namespace pen::net
