#include "lib/receive/triage/record.h"

#include <algorithm>

#include "lib/base/network.h"
#include "lib/base/text.h"

namespace pen::triage {
namespace {

// The year 9999: sums with it do not overflow.
constexpr unsigned long long kLatest = 253'402'300'799ULL;

}  // namespace

std::optional<Record> Record::parse(std::string_view text) {
  if (text.size() > kMostText) return std::nullopt;
  Record record;
  for (std::size_t i = 0; i < kTests; ++i) {
    const bool last = i + 1 == kTests;
    const auto end = text.find(';');
    if (last != (end == std::string_view::npos)) return std::nullopt;
    const auto number = parse_unsigned(text.substr(0, end));
    if (!number || *number > kLatest) return std::nullopt;
    record.until[i] = static_cast<std::int64_t>(*number);
    if (!last) text.remove_prefix(end + 1);
  }
  return record;
}

std::string Record::text() const {
  std::string out;
  for (const std::int64_t time : until) out += (out.empty() ? "" : ";") + std::to_string(time);
  return out;
}

std::int64_t Record::end() const { return *std::ranges::max_element(until); }

std::string key_of(std::string_view address) {
  const auto ip = parse_ip(address);
  return ip ? ip->text() : std::string();
}

}  // namespace pen::triage
