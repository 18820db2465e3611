#include "lib/base/hidden.h"

#include <algorithm>
#include <array>

#include "lib/base/text.h"

namespace pen {

std::string without_user(std::string_view text) {
  std::string out;
  for (;;) {
    const auto at = text.find("://");
    if (at == std::string_view::npos) break;
    const auto begin = at + 3;
    out += text.substr(0, begin);
    text.remove_prefix(begin);
    // A password may hold what should have been encoded: all up to the last "@" before the end is hidden.
    const auto end = std::min(text.find_first_of(" \t\r\n,;\"'<>()[]{}"), text.size());
    const auto slash = std::min(text.find_first_of("/?#"), end);
    auto user = text.substr(0, slash).rfind('@');
    const auto colon = text.substr(0, slash).find(':');
    const bool port =
        colon == std::string_view::npos || text.front() == '[' ||
        text.substr(colon + 1, slash - colon - 1).find_first_not_of("0123456789") == std::string_view::npos;
    if (user == std::string_view::npos && !port) user = text.substr(0, end).rfind('@');
    if (user != std::string_view::npos) text.remove_prefix(user + 1);
  }
  out += text;
  return out;
}

bool named_secret(std::string_view name) {
  const std::string lower = to_lower(name);
  static constexpr auto kWords =
      std::to_array<std::string_view>({"password", "passwd", "secret", "token", "credential"});
  static constexpr auto kEnds =
      std::to_array<std::string_view>({"_pw", "pass", "passphrase", "_pwd", "_key", "apikey"});
  return std::ranges::any_of(kWords, [&](std::string_view word) { return lower.contains(word); }) ||
         std::ranges::any_of(kEnds, [&](std::string_view end) { return lower.ends_with(end); });
}

}  // namespace pen
