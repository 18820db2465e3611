#include "lib/mail/queue_id.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::mail {
namespace {

constexpr std::string_view kDigits = "0123456789BCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz";
static_assert(kDigits.size() == 52);
constexpr std::size_t kSecondsDigits = 6;
constexpr std::size_t kMicrosDigits = 4;
constexpr std::int64_t kMostAhead = 5'000'000;  // microseconds
// Six digits, like most inode numbers.
constexpr std::uint64_t kCounterRange = 51ULL * 51 * 51 * 51 * 51 * 51;

void append_number(std::string& out, std::uint64_t value, std::uint64_t base, std::size_t width) {
  char digits[16];  // 2^64 has 12
  std::size_t first = std::size(digits);
  do {
    digits[--first] = kDigits[value % base];
    value /= base;
  } while (value != 0);
  while (std::size(digits) - first < width) digits[--first] = '0';
  out.append(digits + first, std::size(digits) - first);
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t value = 0;
  for (char c : text) {
    const auto digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value * 52 + static_cast<std::int64_t>(digit);
  }
  return value;
}

}  // namespace

QueueIdGenerator::QueueIdGenerator(const Clock& clock, Random random)
    : clock_(clock), counter_(random.below(kCounterRange)) {}

std::string QueueIdGenerator::next() {
  const std::int64_t now = clock_.wall_now().time_since_epoch().count();
  // A clock that was set back is followed: an id says when it was made, and the counter keeps ids apart.
  last_ = last_ > now + kMostAhead ? now : std::max(now, last_ + 1);
  counter_ = (counter_ + 1) % kCounterRange;
  std::string id;
  append_number(id, static_cast<std::uint64_t>(last_ / 1'000'000), 52, kSecondsDigits);
  append_number(id, static_cast<std::uint64_t>(last_ % 1'000'000), 52, kMicrosDigits);
  id += 'z';
  append_number(id, counter_, 51, 1);
  return id;
}

bool is_queue_id(std::string_view text) {
  return !text.empty() && text.size() <= kMaxQueueId && std::all_of(text.begin(), text.end(), ascii_alnum);
}

std::optional<WallTime> queue_id_time(std::string_view id) {
  if (!is_queue_id(id) || id.size() < kSecondsDigits + kMicrosDigits + 2 || id[kSecondsDigits + kMicrosDigits] != 'z')
    return std::nullopt;
  const auto seconds_part = parse_number(id.substr(0, kSecondsDigits));
  const auto micros_part = parse_number(id.substr(kSecondsDigits, kMicrosDigits));
  if (!seconds_part || !micros_part || *micros_part >= 1'000'000) return std::nullopt;
  return WallTime(microseconds(*seconds_part * 1'000'000 + *micros_part));
}

}  // namespace pen::mail
