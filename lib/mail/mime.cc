#include "lib/mail/mime.h"

#include <algorithm>
#include <utility>

#include "lib/base/text.h"

namespace pen::mail {
namespace {

bool token_end(char c) { return ascii_space(c) || c == ';' || c == '('; }

/// Past a quoted string or a comment (RFC 5322 section 3.2: comments nest) at the start of the text; without an end it
/// is all of the text.
void skip_enclosed(std::string_view& text) {
  const bool comment = text.front() == '(';
  std::size_t depth = 1, i = 1;
  for (; depth > 0 && i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (comment && text[i] == '(')
      ++depth;
    else if (text[i] == (comment ? ')' : '"'))
      --depth;
  }
  text.remove_prefix(std::min(i, text.size()));
}

void skip_blanks(std::string_view& text) {
  while (!text.empty() && (ascii_space(text.front()) || text.front() == '(')) {
    if (text.front() == '(')
      skip_enclosed(text);
    else
      text.remove_prefix(1);
  }
}

std::string_view take_token(std::string_view& text) {
  const auto token = text.substr(
      0, static_cast<std::size_t>(std::ranges::find_if(text, token_end) - text.begin()));
  text.remove_prefix(token.size());
  return token;
}

/// The value of the quoted string that the text begins with.
std::string take_quoted(std::string_view& text) {
  std::string_view rest = text;
  skip_enclosed(text);
  rest.remove_suffix(text.size());
  std::string value;
  for (std::size_t i = 1; i < rest.size() && rest[i] != '"'; ++i) {
    if (rest[i] == '\\' && i + 1 < rest.size()) ++i;
    value += rest[i];
  }
  return value;
}

/// To behind the next ";" that stands outside of quoted strings and comments.
bool to_parameter(std::string_view& text) {
  while (!text.empty()) {
    const char c = text.front();
    if (c == '"' || c == '(') {
      skip_enclosed(text);
      continue;
    }
    text.remove_prefix(1);
    if (c == ';') return true;
  }
  return false;
}

}  // namespace

std::string mime_word(std::string_view value) {
  std::string word;
  for (;;) {
    skip_blanks(value);
    if (!word.empty() && !word.ends_with('/') && !value.starts_with('/')) break;
    const auto token = take_token(value);
    if (token.empty()) break;
    word += token;
  }
  return to_lower(word);
}

std::vector<std::string> mime_boundaries(std::string_view value) {
  constexpr std::string_view kName = "boundary";
  std::vector<std::string> all;
  while (to_parameter(value)) {
    skip_blanks(value);
    if (!istarts_with(value, kName)) continue;
    value.remove_prefix(kName.size());
    skip_blanks(value);
    if (!value.starts_with('=')) continue;
    value.remove_prefix(1);
    skip_blanks(value);
    std::string boundary =
        value.starts_with('"') ? take_quoted(value) : std::string(take_token(value));
    while (boundary.ends_with(' ')) boundary.pop_back();
    if (!boundary.empty()) all.push_back(std::move(boundary));
  }
  return all;
}

std::string unfold(std::string_view text) {
  std::string value;
  for (const char c : text)
    if (c != '\r' && c != '\n') value += c == '\t' ? ' ' : c;
  return value;
}

}  // namespace pen::mail
