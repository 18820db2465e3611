#include "local/targets.h"

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/map/table_text.h"

namespace pen::local {
namespace {
constexpr std::string_view kInclude = ":include:";

void add_one(std::string_view text, std::size_t limit, std::vector<AliasTarget>& out) {
  using Kind = AliasTarget::Kind;
  text = trim(text);
  if (text.empty()) return;
  if (text.front() == '|') {
    out.push_back({Kind::command, std::string(trim(text.substr(1)))});
  } else if (text.front() == '/' || text.front() == '~') {
    out.push_back({Kind::file, std::string(text)});
  } else if (istarts_with(text, kInclude)) {
    out.push_back({Kind::include, std::string(trim(text.substr(kInclude.size())))});
  } else if (text.front() == '\\' && text.size() > 1) {
    out.push_back({Kind::mailbox, std::string(text.substr(1))});
  } else {
    // An address as in a header: brackets, routes, display names and several words.
    for (auto& a : mail::parse_address_list(text, limit + 1))
      if (!a.address.empty()) out.push_back({Kind::address, std::move(a.address)});
  }
}
}  // namespace

std::string_view error_module(LocalError) { return "local"; }
std::string_view describe(LocalError e) {
  switch (e) {
    case LocalError::too_many:
      return "too many destinations";
    case LocalError::loop:
      return "aliases lead round in a circle or too deep";
    case LocalError::untrusted:
      return "file is not to be trusted";
    case LocalError::unreadable:
      return "a file cannot be read now";
  }
  return "unknown";
}

Result<std::vector<AliasTarget>> parse_targets(std::string_view value, std::size_t limit) {
  std::vector<AliasTarget> out;
  const auto parts = map::split_destinations(value, limit);
  if (parts.size() > limit) return fail(LocalError::too_many);
  for (const auto& part : parts) {
    add_one(part, limit, out);
    if (out.size() > limit) return fail(LocalError::too_many);
  }
  return out;
}

Result<std::vector<AliasTarget>> parse_target_file(std::string_view text, std::size_t limit) {
  std::string kept;
  while (!text.empty()) {
    const auto lf = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, lf);
    text.remove_prefix(std::min(lf + 1, text.size()));
    if (trim(line).starts_with('#')) continue;
    kept += line;
    kept += '\n';
  }
  return parse_targets(kept, limit);
}

}  // namespace pen::local
