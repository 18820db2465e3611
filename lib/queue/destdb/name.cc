#include "lib/queue/destdb/name.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::destdb {
namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) {
  const auto n = parse_unsigned(text);
  if (!n || *n == 0 || *n > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(*n);
}

std::string bare(std::string_view host) {
  std::string out = to_lower(host);
  if (out.size() > 1 && out.ends_with('.')) out.pop_back();
  return out;
}

/// Adds ".b.c", ".c" for "a.b.c"; nothing for an address or a path.
void add_domains_above(std::vector<std::string>& out, std::string_view host) {
  const bool numeric =
      host.find_first_not_of("0123456789.") == std::string_view::npos || host.find(':') != std::string_view::npos;
  if (numeric || host.find('/') != std::string_view::npos) return;
  for (auto dot = host.find('.', 1); dot != std::string_view::npos; dot = host.find('.', dot + 1))
    if (dot + 1 < host.size()) out.emplace_back(host.substr(dot));
}

std::string with_port(std::string_view host, std::uint16_t port) {
  return "[" + bare(host) + "]:" + std::to_string(port);
}

}  // namespace

std::optional<std::string> destination_name(std::string_view text) {
  text = trim(text);
  if (text.empty() || text.size() > kMaxName) return std::nullopt;
  const bool odd = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == 127 || c == '@' || c == ',' || c == '*';
  });
  if (odd) return std::nullopt;
  if (text.starts_with(kSourceName)) {
    const auto name = text.substr(kSourceName.size());
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return ascii_alnum(c) || c == '.' || c == '_' || c == '-';
    });
    // "source:25" is a host with a port.
    if (plain && !parse_port(name)) return std::string(text);
  }
  if (text.front() == '[') {
    const auto end = text.find(']');
    if (end == std::string_view::npos || end == 1) return std::nullopt;
    const auto host = text.substr(1, end - 1);
    const auto rest = text.substr(end + 1);
    if (rest.empty()) return bare(host);
    const auto port = rest.front() == ':' ? parse_port(rest.substr(1)) : std::nullopt;
    if (!port) return std::nullopt;
    return with_port(host, *port);
  }
  if (text.find_first_of("[]") != std::string_view::npos) {
    // "host[address]:port", as it is shown: the address with its port is the one destination.
    const Shown shown = parse_shown(text);
    const bool whole = !shown.host.empty() && !shown.address.empty() && shown.port != 0 &&
                       shown.address.find('/') == std::string::npos && shown.host.find(']') == std::string::npos &&
                       shown.address.find('[') == std::string::npos;
    if (!whole) return std::nullopt;
    return with_port(shown.address, shown.port);
  }
  // One colon: host:port. More: an IPv6 address. A path keeps its colons and its case.
  if (text.front() == '/' || text.starts_with("unix:")) return std::string(text);
  const bool network =
      text.find('/') != std::string_view::npos && text.find_first_not_of("0123456789abcdefABCDEF.:/") == text.npos;
  if (network || text == ".") return std::nullopt;
  if (std::count(text.begin(), text.end(), ':') == 1) {
    const auto colon = text.find(':');
    const auto port = parse_port(text.substr(colon + 1));
    if (!port || colon == 0) return std::nullopt;
    return with_port(text.substr(0, colon), *port);
  }
  return bare(text);
}

std::vector<std::string> names_of(std::string_view host, std::string_view address, std::uint16_t port) {
  std::vector<std::string> out;
  for (const std::string_view name : {host, address}) {
    if (name.empty()) continue;
    const std::string one = bare(name);
    out.push_back(one);
    if (port != 0) out.push_back(with_port(name, port));
    add_domains_above(out, one);
  }
  return out;
}

std::vector<std::string> names_of_nexthop(std::string_view nexthop) {
  std::vector<std::string> out;
  auto name = destination_name(nexthop);
  if (!name) return out;
  const bool ported = name->starts_with('[');
  const std::string host = ported ? name->substr(1, name->find(']') - 1) : *name;
  out.push_back(host);
  if (ported) out.push_back(*std::move(name));
  add_domains_above(out, host);
  return out;
}

Shown parse_shown(std::string_view shown) {
  Shown out;
  const auto open = shown.find('[');
  const auto close = shown.rfind(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    out.host = shown;
    return out;
  }
  out.host = shown.substr(0, open);
  out.address = shown.substr(open + 1, close - open - 1);
  if (shown.substr(close + 1).starts_with(':')) out.port = parse_port(shown.substr(close + 2)).value_or(0);
  return out;
}

}  // namespace pen::destdb
