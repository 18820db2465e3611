#include "lib/meaning/pipe/options.h"

#include <optional>

#include "lib/base/text.h"

namespace pen::pipes {
namespace {

bool* flag(Options& o, char letter) {
  switch (letter) {
    case 'B':
      return &o.empty_line_at_end;
    case 'D':
      return &o.delivered_to;
    case 'F':
      return &o.from_line;
    case 'O':
      return &o.original_to;
    case 'R':
      return &o.return_path;
    case 'X':
      return &o.final_delivery;
    case 'h':
      return &o.fold_domain;
    case 'u':
      return &o.fold_user;
    case 'q':
      return &o.quote;
    case '.':
      return &o.double_dots;
    case '>':
      return &o.quote_from;
    default:
      return nullptr;
  }
}

/// Takes one name=value from before argv=. Returns the error text, or nothing.
std::string take(std::string_view name, std::string_view value, Options& o) {
  if (name == "flags") {
    for (const char letter : value) {
      bool* const which = flag(o, letter);
      if (which == nullptr) return "flags=: there is no flag \"" + printable(std::string_view(&letter, 1)) + "\"";
      *which = true;
    }
  } else if (name == "user") {
    const auto colon = value.find(':');
    o.user = value.substr(0, colon);
    if (colon != std::string_view::npos) o.group = value.substr(colon + 1);
    if (o.user.empty() || (colon != std::string_view::npos && o.group.empty())) return "user= needs user or user:group";
  } else if (name == "directory") {
    o.directory = value;
    if (!value.starts_with('/')) return "directory= needs an absolute path";
  } else if (name == "eol") {
    o.eol = unescape(value);
  } else if (name == "null_sender") {
    o.null_sender = value;
  } else if (name == "size") {
    const auto size = parse_unsigned(value);
    if (!size) return "size= needs a number of bytes";
    o.size_limit = *size;
  } else if (name == "chroot") {
    o.root = value;
    if (!value.starts_with('/')) return "chroot= needs an absolute path";
  } else {
    return "\"" + printable(name, 40) + "\" is not one of flags, user, chroot, directory, eol, null_sender, size, argv";
  }
  return {};
}

}  // namespace

std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    constexpr std::string_view kNames = "abfnrtv";
    constexpr std::string_view kMeant = "\a\b\f\n\r\t\v";
    if (const auto at = kNames.find(c); at != std::string_view::npos) {
      out += kMeant[at];
    } else if (c >= '0' && c <= '7') {
      unsigned value = 0;
      std::size_t digits = 0;
      for (; digits < 3 && i + digits < text.size() && text[i + digits] >= '0' && text[i + digits] <= '7'; ++digits)
        value = value * 8 + static_cast<unsigned>(text[i + digits] - '0');
      i += digits - 1;
      out += static_cast<char>(value);
    } else {
      out += c;
    }
  }
  return out;
}

std::expected<Options, std::string> parse_options(const std::vector<std::string>& words) {
  Options o;
  std::size_t i = 0;
  for (; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const auto equals = word.find('=');
    if (equals == std::string_view::npos)
      return std::unexpected("\"" + printable(word, 40) + "\" is no name=value; argv= comes before the command");
    const auto name = trim(word.substr(0, equals));
    const auto value = trim(word.substr(equals + 1));
    if (name == "argv") {
      if (!value.empty()) o.argv.emplace_back(value);
      o.argv.insert(o.argv.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (auto error = take(name, value, o); !error.empty()) return std::unexpected(std::move(error));
  }
  if (o.user.empty()) return std::unexpected("user= is missing: a command needs an account to run as");
  if (o.argv.empty()) return std::unexpected("argv= is missing: there is no command to run");
  return o;
}

}  // namespace pen::pipes
