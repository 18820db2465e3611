#include "lib/mail/mime.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "lib/base/text.h"

namespace pen::mail {
namespace {

bool token_end(char c) { return ascii_space(c) || c == ';' || c == '('; }

/// Skips a quoted string or a comment (RFC 5322 section 3.2: comments nest) at the start of the text. One without an
/// end takes all of the text.
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
  const auto token = text.substr(0, static_cast<std::size_t>(std::ranges::find_if(text, token_end) - text.begin()));
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

/// Moves behind the next ";" outside of quoted strings and comments.
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

// More than any program writes: a boundary has at most 70 characters.
constexpr unsigned long long kMaxSections = 100;

/// The end of a parameter's name in the forms of RFC 2231: "*", "*2", "*2*".
struct Section {
  unsigned long long number = 0;
  bool encoded = false;
};
using Sections = std::map<unsigned long long, std::pair<bool, std::string>>;  // encoded, value

/// nullopt: there is no section, and nothing is taken.
std::optional<Section> take_section(std::string_view& text) {
  if (!text.starts_with('*')) return std::nullopt;
  text.remove_prefix(1);
  const auto digits = text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
  text.remove_prefix(digits.size());
  Section section{.number = 0, .encoded = digits.empty()};
  if (!digits.empty()) section.number = parse_unsigned(digits).value_or(kMaxSections);
  if (!digits.empty() && text.starts_with('*')) {
    section.encoded = true;
    text.remove_prefix(1);
  }
  return section;
}

/// Decodes %XX; everything else stays.
std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) -> int {
    const auto at = std::string_view("0123456789abcdef").find(ascii_lower(c));
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool whole = text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    out += whole ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    if (whole) i += 2;
  }
  return out;
}

/// Joins the sections' values, as long as their numbers follow each other from 0.
std::string join_sections(const Sections& sections) {
  std::string all;
  unsigned long long next = 0;
  for (const auto& [number, section] : sections) {
    if (number != next++) break;
    std::string_view text = section.second;
    if (section.first && number == 0) {  // charset'language'
      for (int quote = 0; quote < 2; ++quote)
        if (const auto at = text.find('\''); at != std::string_view::npos) text.remove_prefix(at + 1);
    }
    all += section.first ? percent_decoded(text) : std::string(text);
  }
  while (all.ends_with(' ')) all.pop_back();
  return all;
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
  Sections sections;
  while (to_parameter(value)) {
    skip_blanks(value);
    if (!istarts_with(value, kName)) continue;
    value.remove_prefix(kName.size());
    const auto section = take_section(value);
    skip_blanks(value);
    if (!value.starts_with('=')) continue;
    value.remove_prefix(1);
    skip_blanks(value);
    std::string boundary = value.starts_with('"') ? take_quoted(value) : std::string(take_token(value));
    if (section) {
      if (section->number < kMaxSections) sections.try_emplace(section->number, section->encoded, std::move(boundary));
      continue;
    }
    while (boundary.ends_with(' ')) boundary.pop_back();
    if (!boundary.empty()) all.push_back(std::move(boundary));
  }
  if (std::string joined = join_sections(sections); !joined.empty()) all.push_back(std::move(joined));
  return all;
}

std::string unfold(std::string_view text) {
  std::string value;
  for (const char c : text)
    if (c != '\r' && c != '\n') value += c == '\t' ? ' ' : c;
  return value;
}

}  // namespace pen::mail
