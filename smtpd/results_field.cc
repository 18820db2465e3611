#include "smtpd/results_field.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::smtpd {
namespace {

// RFC 5322 section 2.1.1
constexpr std::size_t kGoodLine = 78;

bool token_char(char c) { return c > ' ' && c < '\x7f' && !std::string_view("()<>@,;:\\\"/[]?=").contains(c); }

/// A value: a token, an address or a domain as it is, everything else quoted.
std::string value_of(std::string_view text) {
  const std::string shown = printable(text.substr(0, ResultsField::kMaxValue));
  const auto at = shown.rfind('@');
  const auto plain = [](std::string_view part) { return std::ranges::all_of(part, token_char); };
  const bool address = at != std::string::npos && at + 1 < shown.size() &&
                       plain(std::string_view(shown).substr(at + 1)) && plain(std::string_view(shown).substr(0, at));
  if (!shown.empty() && (address || plain(shown))) return shown;
  std::string out = "\"";
  for (const char c : shown) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

constexpr std::string_view kNoBreak = "\xc2\xa0";  // U+00A0

/// Skips all that readers may take for nothing.
void skip_blanks(std::string_view& text) {
  for (;;) {
    if (text.starts_with(kNoBreak))
      text.remove_prefix(kNoBreak.size());
    else if (!text.empty() && (static_cast<unsigned char>(text.front()) <= ' ' || text.front() == '\x7f'))
      text.remove_prefix(1);
    else
      return;
  }
}

/// Skips blanks and comments. False: a comment has no end.
bool skip_comments(std::string_view& text) {
  for (skip_blanks(text); text.starts_with('('); skip_blanks(text)) {
    int depth = 0;
    std::size_t i = 0;
    do {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '(')
        ++depth;
      else if (text[i] == ')')
        --depth;
      ++i;
    } while (depth > 0 && i < text.size());
    if (depth > 0) return false;
    text.remove_prefix(std::min(i, text.size()));
  }
  return true;
}

bool name_char(char c) { return ascii_alnum(c) || c == '-' || c == '_' || static_cast<unsigned char>(c) >= 0x80; }

/// Whether the text begins with this name, and not with a longer one. A final dot is the same name for a question to
/// DNS.
bool begins_with_name(std::string_view text, std::string_view name) {
  if (!istarts_with(text, name)) return false;
  text.remove_prefix(name.size());
  if (text.starts_with('.')) text.remove_prefix(1);
  return text.empty() || text.starts_with(kNoBreak) || !name_char(text.front());
}

/// Whether the name stands anywhere in text of an unknown form.
bool has_name(std::string text, std::string_view name) {
  std::erase(text, '\\');
  const std::string_view all = text;
  bool inside = false;  // of a longer name
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!inside && begins_with_name(all.substr(i), name)) return true;
    inside = (name_char(all[i]) || all[i] == '.') && !all.substr(0, i + 1).ends_with(kNoBreak);
  }
  return false;
}

}  // namespace

ResultsField::ResultsField(std::string_view authserv_id) {
  text_ = std::string(kResultsName) + ": " + value_of(authserv_id);
}

void ResultsField::add(const std::string& word) {
  if (column_ > 0 && column_ + 1 + word.size() > kGoodLine) {
    text_ += "\r\n\t";
    column_ = 8;
  } else if (column_ > 0) {
    text_ += ' ';
    ++column_;
  }
  text_ += word;
  column_ += word.size();
}

void ResultsField::method(std::string_view name, std::string_view result, std::string_view reason) {
  text_ += ";\r\n\t";
  column_ = 8;
  const std::string word = std::string(name) + "=" + std::string(result);
  text_ += word;
  column_ += word.size();
  line_ += (line_.empty() ? "" : " ") + word;
  if (!reason.empty()) property("reason", reason);
}

void ResultsField::property(std::string_view name, std::string_view value) {
  if (value.empty()) return;
  std::string shown = value_of(value);
  if (name == "reason" && !shown.starts_with('"')) shown = '"' + shown + '"';
  const std::string word = std::string(name) + "=" + shown;
  add(word);
  line_ += " " + word;
}

bool names_server(std::string_view value, std::string_view authserv_id) {
  std::string_view text = value;
  if (!skip_comments(text)) return has_name(std::string(value), authserv_id);
  if (!text.starts_with('"')) return begins_with_name(text, authserv_id);
  std::string name;
  std::size_t i = 1;
  for (; i < text.size() && text[i] != '"'; ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    name += text[i];
  }
  if (i >= text.size()) return has_name(std::string(value), authserv_id);
  std::string_view inside = name;
  skip_blanks(inside);
  return begins_with_name(inside, authserv_id);
}

}  // namespace pen::smtpd
