#include "tools/dkim_rotation.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/trust/signing/key_dates.h"

namespace pen::tools {
namespace {

constexpr std::string_view kBlank = " \t";

/// Calls change(line) for each line without its end, and joins what it returns.
template <class Change>
std::string each_line(std::string_view text, Change change) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    out += change(text.substr(0, end));
    out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool names_one_of(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::any_of(names, [&](const std::string& one) { return iequals(one, name); });
}

}  // namespace

std::string with_key(std::string_view table, std::string_view name, std::string_view value) {
  std::string out(table);
  if (!out.empty() && !out.ends_with('\n')) out += '\n';
  return out + fmt::format("{} {}\n", name, value);
}

std::string with_successor(std::string_view table, const std::vector<std::string>& olds, const std::string& name,
                           std::size_t& added) {
  added = 0;
  return each_line(table, [&](std::string_view line) -> std::string {
    const std::string_view content = line.substr(0, line.find('#'));
    const auto first = content.find_first_not_of(kBlank);
    if (first == content.npos) return std::string(line);
    const auto blank = content.find_first_of(kBlank, first);
    if (blank == content.npos) return std::string(line);
    const auto value = content.find_first_not_of(kBlank, blank);
    if (value == content.npos) return std::string(line);
    std::string_view rest = content.substr(value);
    const auto end = value + rest.find_last_not_of(kBlank) + 1;
    rest = content.substr(value, end - value);
    std::string made;
    bool has = false, put = false;
    for (std::string_view left = rest; !left.empty();) {
      const auto comma = std::min(left.find(','), left.size());
      const std::string_view one = left.substr(0, comma);
      left.remove_prefix(std::min(comma + 1, left.size()));
      const std::string_view key = trim(one.substr(0, one.find(':')));
      has = has || iequals(key, name);
      if (!made.empty()) made += ',';
      made += one;
      if (put || !names_one_of(olds, key)) continue;
      put = true;
      made += ',' + name;
      if (const auto colon = one.find(':'); colon != one.npos) made += one.substr(colon);
    }
    if (has || !put) return std::string(line);
    ++added;
    return std::string(line.substr(0, value)) + made + std::string(line.substr(end));
  });
}

std::string with_dates(std::string_view table, const std::vector<std::string>& olds, const std::string& name,
                       WallTime from) {
  std::vector<std::string> left = olds;
  std::string out = each_line(table, [&](std::string_view line) -> std::string {
    const std::string_view content = line.substr(0, line.find('#'));
    const auto words = split(content);
    if (words.size() != 3) return std::string(line);
    if (!names_one_of(olds, words[0])) return std::string(line);
    std::erase_if(left, [&](const std::string& one) { return iequals(one, words[0]); });
    return fmt::format("{} {} {}{}", words[0], words[1], utc_text(from),
                       content.size() < line.size() ? " " + std::string(line.substr(content.size())) : "");
  });
  for (const std::string& old : left) out += fmt::format("{} - {}\n", old, utc_text(from));
  return out + fmt::format("{} {} -\n", name, utc_text(from));
}

std::string selector_of(WallTime from) {
  const std::string date = utc_text(from);
  return "s" + date.substr(0, 4) + date.substr(5, 2);
}

}  // namespace pen::tools
