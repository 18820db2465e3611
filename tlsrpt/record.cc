#include "tlsrpt/record.h"

#include <algorithm>
#include <optional>

#include "lib/base/text.h"
#include "lib/send/daily_reports/submitter.h"

namespace pen::tlsrpt {
namespace {

constexpr std::string_view kVersion = "v=TLSRPTv1";

bool is_report_record(std::string_view text) {
  if (!text.starts_with(kVersion)) return false;
  const auto rest = trim(text.substr(kVersion.size()));
  return !rest.empty() && rest.front() == ';';
}

bool printable_word(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

std::optional<Target> read_target(std::string_view uri) {
  if (uri.empty() || uri.size() > kMaxTarget || !printable_word(uri)) return std::nullopt;
  if (istarts_with(uri, "mailto:")) {
    auto address = daily_reports::address_of_mailto(uri);
    if (!address) return std::nullopt;
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
