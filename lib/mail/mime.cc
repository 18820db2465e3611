#include "lib/mail/mime.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::mail {
namespace {

bool token_end(char c) { return ascii_space(c) || c == ';' || c == '(' || c == '\n'; }

}  // namespace

std::string mime_word(std::string_view value) {
  const auto text = trim(value);
  const auto end = std::ranges::find_if(text, token_end);
  return to_lower(text.substr(0, static_cast<std::size_t>(end - text.begin())));
}

std::string mime_boundary(std::string_view value) {
  std::size_t at = 0;
  while ((at = value.find(';', at)) != std::string_view::npos) {
    std::string_view rest = value.substr(++at);
    while (!rest.empty() && ascii_space(rest.front())) rest.remove_prefix(1);
    if (!istarts_with(rest, "boundary")) continue;
    rest = trim(rest.substr(8));
    if (!rest.starts_with('=')) continue;
    rest = trim(rest.substr(1));
    if (!rest.starts_with('"'))
      return std::string(rest.begin(), std::ranges::find_if(rest, token_end));
    std::string boundary;
    for (std::size_t i = 1; i < rest.size() && rest[i] != '"'; ++i) {
      if (rest[i] == '\\' && i + 1 < rest.size()) ++i;
      boundary += rest[i];
    }
    while (boundary.ends_with(' ')) boundary.pop_back();
    return boundary;
  }
  return {};
}

std::string unfold(std::string_view text) {
  std::string value;
  for (const char c : text)
    if (c != '\r' && c != '\n') value += c == '\t' ? ' ' : c;
  return value;
}

}  // namespace pen::mail
