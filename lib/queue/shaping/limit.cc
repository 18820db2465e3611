#include "lib/queue/shaping/limit.h"

#include <fmt/format.h>

#include <optional>

#include "lib/base/text.h"

namespace pen::shaping {

std::expected<Limit, std::string> parse_limit(std::string_view text) {
  constexpr std::uint64_t kMostConnections = 100'000;
  Limit out;
  std::optional<std::string> rates;
  bool in_rates = false;  // what follows without a name of its own is one more of them
  for (const auto word : split(text)) {
    if (word.starts_with("rate=") && !rates) {
      rates = word.substr(5);
      in_rates = true;
    } else if (word.starts_with("connections=") && out.connections == 0) {
      const auto n = parse_unsigned(word.substr(12));
      if (!n || *n == 0 || *n > kMostConnections)
        return std::unexpected(fmt::format("has no number of connections from 1 to {}", kMostConnections));
      out.connections = static_cast<std::uint32_t>(*n);
      in_rates = false;
    } else if (in_rates && !word.contains('=')) {
      *rates += "," + std::string(word);
    } else {
      return std::unexpected("is not rate=N/s, N/m, N/h or N/d, or several of these with commas, connections=N");
    }
  }
  if (rates) {
    auto parsed = parse_rates(*rates);
    if (!parsed) return std::unexpected(parsed.error());
    out.rates = *std::move(parsed);
  } else if (out.connections == 0) {
    return std::unexpected("names no limit");
  }
  return out;
}

}  // namespace pen::shaping
