#include "lib/map/socketmap_reply.h"

#include "lib/base/text.h"

namespace pen::map {

std::string netstring(std::string_view content) {
  return std::to_string(content.size()) + ":" + std::string(content) + ",";
}

std::size_t whole_netstring(std::string_view bytes, std::size_t most) {
  constexpr std::size_t kMostDigits = 8;
  const auto colon = bytes.find(':');
  if (colon == std::string_view::npos) return bytes.size() <= kMostDigits ? 0 : std::string::npos;
  const auto size = parse_unsigned(bytes.substr(0, colon));
  if (colon > kMostDigits || !size || *size > most) return std::string::npos;
  const std::size_t end = colon + 1 + static_cast<std::size_t>(*size);
  if (bytes.size() <= end) return 0;
  return bytes[end] == ',' ? end + 1 : std::string::npos;
}

std::string_view netstring_content(std::string_view whole) {
  const auto colon = whole.find(':');
  return whole.substr(colon + 1, whole.size() - colon - 2);
}

Value socketmap_meaning(std::string_view content, std::string_view name) {
  const auto word = content.substr(0, content.find(' '));
  const auto rest = content.size() > word.size() ? content.substr(word.size() + 1) : "";
  if (word == "OK") return std::string(rest);
  if (word == "NOTFOUND") return std::nullopt;
  return fail(MapError::unreadable, std::string(name) + ": " + printable(content, 200));
}

}  // namespace pen::map
