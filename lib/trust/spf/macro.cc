#include "lib/trust/spf/macro.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "lib/base/text.h"

namespace pen::spf {
namespace {

constexpr std::size_t kMaxDomain = 253;
constexpr std::string_view kDelimiters = ".-+,/_=";

struct Macro {
  char letter = 0;        // lower case; '%', '_' and '-' for what stands for itself
  bool escape = false;    // the letter was a capital
  std::size_t parts = 0;  // 0: all
  bool reverse = false;
  std::string_view delimiters;  // empty: a dot
};

/// Reads the macro behind a '%' and takes it from the text.
std::optional<Macro> take_macro(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  Macro out;
  const char first = text.front();
  text.remove_prefix(1);
  if (first == '%' || first == '_' || first == '-') {
    out.letter = first;
    return out;
  }
  const auto end = text.find('}');
  if (first != '{' || end == text.npos || end == 0) return std::nullopt;
  std::string_view inside = text.substr(0, end);
  text.remove_prefix(end + 1);
  out.letter = ascii_lower(inside.front());
  out.escape = out.letter != inside.front();
  if (!std::string_view("slodiphcrtv").contains(out.letter)) return std::nullopt;
  inside.remove_prefix(1);
  bool digits = false;
  for (; !inside.empty() && ascii_digit(inside.front()); inside.remove_prefix(1), digits = true)
    out.parts = std::min<std::size_t>(out.parts * 10 + static_cast<std::size_t>(inside.front() - '0'), 1000);
  if (digits && out.parts == 0) return std::nullopt;
  if (!inside.empty() && ascii_lower(inside.front()) == 'r') {
    out.reverse = true;
    inside.remove_prefix(1);
  }
  if (inside.find_first_not_of(kDelimiters) != inside.npos) return std::nullopt;
  out.delimiters = inside;
  return out;
}

/// Calls `macro` and `literal` for the parts of the text. False: it is no macro string.
template <class OnMacro, class OnLiteral>
bool walk(std::string_view text, OnMacro macro, OnLiteral literal) {
  while (!text.empty()) {
    const auto at = std::min(text.find('%'), text.size());
    if (at > 0) literal(text.substr(0, at));
    text.remove_prefix(at);
    if (text.empty()) return true;
    text.remove_prefix(1);
    const auto found = take_macro(text);
    if (!found) return false;
    macro(*found);
  }
  return true;
}

bool is_top_label(std::string_view label) {
  return !label.empty() && label.front() != '-' && label.back() != '-' &&
         std::ranges::all_of(label, [](char c) { return ascii_alnum(c) || c == '-'; }) &&
         !std::ranges::all_of(label, ascii_digit);
}

std::string nibbles(const IpAddress& address) {
  std::string out;
  for (const auto byte : address.bytes) out += fmt::format("{}{:x}.{:x}", out.empty() ? "" : ".", byte >> 4, byte & 15);
  return out;
}

std::string value_of(char letter, const MacroValues& v) {
  const auto at = v.sender.rfind('@');
  switch (letter) {
    case 's':
      return v.sender;
    case 'l':
      return v.sender.substr(0, at);
    case 'o':
      return at == std::string::npos ? std::string() : v.sender.substr(at + 1);
    case 'd':
      return v.domain;
    case 'i':
      return v.client.size == 16 ? nibbles(v.client) : v.client.text();
    case 'c':
      return v.client.text();
    case 'p':
      return v.validated;
    case 'v':
      return v.client.size == 16 ? "ip6" : "in-addr";
    case 'h':
      return v.helo;
    case 'r':
      return v.receiver;
    default:  // t
      return std::to_string(unix_seconds(v.now));
  }
}

std::string transformed(const Macro& macro, const std::string& value) {
  const std::string_view delimiters = macro.delimiters.empty() ? std::string_view(".") : macro.delimiters;
  std::vector<std::string_view> parts;
  for (std::string_view rest = value;;) {
    const auto end = rest.find_first_of(delimiters);
    parts.push_back(rest.substr(0, end));
    if (end == rest.npos) break;
    rest.remove_prefix(end + 1);
  }
  if (macro.reverse) std::ranges::reverse(parts);
  const std::size_t keep = macro.parts == 0 ? parts.size() : std::min(macro.parts, parts.size());
  std::string out;
  for (std::size_t i = parts.size() - keep; i < parts.size(); ++i) {
    if (i > parts.size() - keep) out += '.';
    out += parts[i];
  }
  return out;
}

void append_escaped(std::string_view value, std::string& out) {
  for (const char c : value) {
    if (ascii_alnum(c) || std::string_view("-._~").contains(c))
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
}

}  // namespace

bool is_macro_string(std::string_view text, bool explanation) {
  bool good = true;
  const bool whole = walk(
      text,
      [&](const Macro& macro) {
        if (!explanation && std::string_view("crt").contains(macro.letter)) good = false;
      },
      [&](std::string_view literal) {
        for (const char c : literal)
          if (c < (explanation ? ' ' : '!') || c > '~') good = false;
      });
  return whole && good;
}

bool is_domain_spec(std::string_view text) {
  if (!is_macro_string(text)) return false;
  std::string_view tail;
  (void)walk(text, [&](const Macro&) { tail = "%"; }, [&](std::string_view literal) { tail = literal; });
  if (tail == "%") return true;
  if (tail.ends_with('.')) tail.remove_suffix(1);
  const auto dot = tail.rfind('.');
  return dot != tail.npos && is_top_label(tail.substr(dot + 1));
}

bool names_client(std::string_view text) {
  bool found = false;
  (void)walk(text, [&](const Macro& macro) { found = found || macro.letter == 'p'; }, [](std::string_view) {});
  return found;
}

std::string expand(std::string_view text, const MacroValues& values) {
  std::string out;
  (void)walk(
      text,
      [&](const Macro& macro) {
        if (macro.letter == '%')
          out += '%';
        else if (macro.letter == '_')
          out += ' ';
        else if (macro.letter == '-')
          out += "%20";
        else if (macro.escape)
          append_escaped(transformed(macro, value_of(macro.letter, values)), out);
        else
          out += transformed(macro, value_of(macro.letter, values));
      },
      [&](std::string_view literal) { out += literal; });
  return out;
}

std::string expand_domain(std::string_view text, const MacroValues& values) {
  std::string name = expand(text, values);
  if (name.ends_with('.')) name.pop_back();
  while (name.size() > kMaxDomain) {
    const auto dot = name.find('.');
    if (dot == std::string::npos) return {};
    name.erase(0, dot + 1);
  }
  return name;
}

}  // namespace pen::spf
