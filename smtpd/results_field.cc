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

void skip_blanks(std::string_view& text) {
  while (!text.empty() && ascii_space(text.front())) text.remove_prefix(1);
}

/// Skips blanks and comments.
void skip_comments(std::string_view& text) {
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
    text.remove_prefix(std::min(i, text.size()));
  }
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
  skip_comments(value);
  std::string name;
  if (value.starts_with('"')) {
    for (std::size_t i = 1; i < value.size() && value[i] != '"'; ++i) {
      if (value[i] == '\\' && i + 1 < value.size()) ++i;
      name += value[i];
    }
  } else {
    name = value.substr(0, value.find_first_of("; \t\r\n(\""));
  }
  // A final dot is the same name for whoever asks DNS.
  if (name.ends_with('.')) name.pop_back();
  return iequals(name, authserv_id);
}

}  // namespace pen::smtpd
