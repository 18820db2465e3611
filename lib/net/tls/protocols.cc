#include "lib/net/tls/protocols.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "lib/base/text.h"
#include "lib/net/tls/error.h"

namespace pen::tls {
namespace {

struct Version {
  std::string_view name;
  std::uint16_t number;
};
constexpr std::uint16_t kSslV2 = 0x0002;
constexpr std::array<Version, 8> kVersions = {{{"SSLv2", kSslV2},
                                               {"SSLv3", 0x0300},
                                               {"TLSv1", 0x0301},
                                               {"TLSv1.0", 0x0301},
                                               {"TLSv1.1", 0x0302},
                                               {"TLSv1.2", 0x0303},
                                               {"TLSv1.3", 0x0304},
                                               {"", 0}}};
constexpr std::array<std::uint16_t, 4> kSpoken = {0x0301, 0x0302, 0x0303, 0x0304};

/// 0: there is no such version.
std::uint16_t version_of(std::string_view word) {
  for (const Version& v : kVersions)
    if (!v.name.empty() && iequals(v.name, word)) return v.number;
  return 0;
}

/// A bound may also be a number that has no name yet.
std::uint16_t bound_of(std::string_view word) {
  if (const auto version = version_of(word)) return version;
  if (istarts_with(word, "0x")) word.remove_prefix(2);
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number, 16);
  const bool whole = error == std::errc() && end == word.data() + word.size();
  return whole && number >= 0x0300 && number < 0x0400 ? number : 0;
}

}  // namespace

Result<Protocols> Protocols::parse(std::string_view text) {
  Protocols p;
  std::vector<std::uint16_t> included;
  const auto bad = [&](std::string_view word) {
    return fail(TlsError::setup, "protocol \"" + std::string(word) + "\" in \"" + std::string(text) +
                                     "\": write >=TLSv1.2, or names of versions, ! for \"not\"");
  };
  for (const std::string_view word : split(text, " \t\r\n,:")) {
    if (word.starts_with(">=") || word.starts_with("<=")) {
      const auto version = bound_of(word.substr(2));
      if (version == 0) return bad(word);
      (word[0] == '>' ? p.lowest : p.highest) = version == kSslV2 ? 0 : version;
    } else if (word.starts_with('!')) {
      const auto version = version_of(word.substr(1));
      if (version == 0) return bad(word);
      p.excluded.push_back(version);
    } else {
      const auto version = version_of(word);
      if (version == 0) return bad(word);
      included.push_back(version);
    }
  }
  if (!included.empty()) {
    for (const auto version : kSpoken)
      if (std::ranges::find(included, version) == included.end()) p.excluded.push_back(version);
  }
  std::ranges::sort(p.excluded);
  p.excluded.erase(std::ranges::unique(p.excluded).begin(), p.excluded.end());
  if (std::ranges::none_of(kSpoken, [&](std::uint16_t v) { return p.permits(v); }))
    return fail(TlsError::setup, "protocols \"" + std::string(text) + "\" permit no version");
  return p;
}

bool Protocols::permits(std::uint16_t version) const {
  return version >= lowest && (highest == 0 || version <= highest) &&
         std::ranges::find(excluded, version) == excluded.end();
}

std::string_view protocol_name(std::uint16_t version) {
  if (version == 0x0301) return "TLSv1";
  for (const Version& v : kVersions)
    if (v.number == version) return v.name;
  return "unknown";
}

std::string groups_list(const std::vector<std::string>& groups, bool marks) {
  const auto large = [](const std::string& group) { return group.contains("MLKEM"); };
  std::string out;
  bool marked = !marks || groups.empty() || !large(groups.front());
  for (const std::string& group : groups) {
    if (!out.empty()) out += ':';
    if (!marked && !large(group)) {
      out += '*';
      marked = true;
    }
    out += group;
  }
  return out;
}

std::string cipher_list(std::string_view grade_list, const std::vector<std::string>& excluded) {
  std::string out(grade_list);
  for (const auto& item : excluded)
    for (const std::string_view word : split(item, " \t\r\n,:")) {
      out += ":!";
      out += word.starts_with('!') ? word.substr(1) : word;
    }
  return out;
}

}  // namespace pen::tls
