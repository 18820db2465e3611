#include "tlsrpt/record.h"

#include <algorithm>
#include <optional>

#include "lib/base/text.h"

namespace pen::tlsrpt {
namespace {

constexpr std::string_view kVersion = "v=TLSRPTv1";

bool is_report_record(std::string_view text) {
  if (!text.starts_with(kVersion)) return false;
  const auto rest = trim(text.substr(kVersion.size()));
  return !rest.empty() && rest.front() == ';';
}

int hex(char c) {
  if (ascii_digit(c)) return c - '0';
  const char low = ascii_lower(c);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/// RFC 3986 section 2.1; nullopt: malformed.
std::optional<std::string> decode_percent(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (text.size() - i < 3 || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0) return std::nullopt;
    out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
    i += 2;
  }
  return out;
}

bool printable_word(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

/// True: a plain address, which is safe in an envelope.
bool plain_address(std::string_view text) {
  const auto at = text.rfind('@');
  if (at == text.npos || at == 0 || at + 1 == text.size() || text.find('@') != at) return false;
  return printable_word(text) && text.find_first_of("<>()[]\\,;:\"") == text.npos;
}

std::optional<Target> read_target(std::string_view uri) {
  if (uri.empty() || uri.size() > kMaxTarget || !printable_word(uri)) return std::nullopt;
  if (istarts_with(uri, "mailto:")) {
    uri.remove_prefix(7);
    auto address = decode_percent(uri.substr(0, uri.find('?')));  // header fields in the URI are ignored
    if (!address || !plain_address(*address)) return std::nullopt;
    return Target{Target::Kind::mail, *std::move(address)};
  }
  if (istarts_with(uri, "https://") && uri.size() > 8 && uri[8] != '/')
    return Target{Target::Kind::https, std::string(uri)};
  return std::nullopt;
}

}  // namespace

std::vector<Target> read_records(const std::vector<std::string>& texts) {
  if (std::ranges::count_if(texts, is_report_record) != 1) return {};
  std::vector<Target> targets;
  const auto at = std::ranges::find_if(texts, is_report_record);
  for (const auto field : split(*at, ";")) {
    const auto pair = trim(field);
    const auto equals = pair.find('=');
    if (equals == pair.npos || trim(pair.substr(0, equals)) != "rua") continue;
    for (const auto uri : split(pair.substr(equals + 1), ",")) {
      auto target = read_target(trim(uri));
      if (target && targets.size() < kMaxTargets && std::ranges::find(targets, *target) == targets.end())
        targets.push_back(*std::move(target));
    }
    break;  // the grammar has only one rua
  }
  return targets;
}

}  // namespace pen::tlsrpt
