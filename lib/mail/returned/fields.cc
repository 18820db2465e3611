#include "lib/mail/returned/fields.h"

#include "lib/base/text.h"
#include "lib/mail/header.h"
#include "lib/mail/reply.h"
#include "lib/mail/returned/report.h"

namespace pen::returned {
namespace {

bool blank(char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7F; }

}  // namespace

std::string_view take_line(std::string_view& text) {
  const auto end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::optional<Field> FieldLines::next() {
  while (!rest_.empty()) {
    const std::string_view line = take_line(rest_);
    if (line.empty()) return Field{};
    const std::size_t name = mail::field_name_length(line);
    if (name == 0) continue;
    std::string value(line.substr(line.find(':', name) + 1));
    while (rest_.starts_with(' ') || rest_.starts_with('\t')) value.append(1, ' ').append(take_line(rest_));
    return Field{line.substr(0, name), clean(value, std::string::npos)};
  }
  return std::nullopt;
}

std::string clean(std::string_view text, std::size_t most) {
  std::string out;
  for (const char c : text) {
    if (out.size() >= most) break;
    if (!blank(c))
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

std::string untyped(std::string_view value) {
  const auto semicolon = value.find(';');
  // A type is a word; without one the value is all text.
  if (semicolon == std::string_view::npos || trim(value.substr(0, semicolon)).find(' ') != std::string_view::npos)
    return clean(value, kMaxText);
  return clean(value.substr(semicolon + 1), kMaxText);
}

std::string address_of(std::string_view value) {
  std::string text = untyped(value);
  const auto open = text.find('<'), close = text.rfind('>');
  if (open != std::string::npos && close != std::string::npos && open < close)
    return clean(std::string_view(text).substr(open + 1, close - open - 1), kMaxText);
  // A comment behind it is not a part of the address.
  if (const auto comment = text.find(" ("); comment != std::string::npos) text.resize(comment);
  return text;
}

std::string status_of(std::string_view value) {
  value = trim(value);
  value = value.substr(0, value.find_first_of(" ()[],;:"));
  while (value.ends_with('.')) value.remove_suffix(1);
  const auto code = mail::enhanced_code(value);
  return code ? std::string(*code) : std::string();
}

std::string status_within(std::string_view text) {
  bool start = true;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (start && ascii_digit(text[at]))
      if (auto code = status_of(text.substr(at, 32)); !code.empty()) return code;
    start = blank(text[at]) || text[at] == '#' || text[at] == '(' || text[at] == '[' || text[at] == '-';
  }
  return {};
}

}  // namespace pen::returned
