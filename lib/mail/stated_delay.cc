#include "lib/mail/stated_delay.h"

#include <algorithm>
#include <array>

#include "lib/base/text.h"

namespace pen::mail {
namespace {

constexpr std::size_t kMaxText = 2000;  // text beyond this is not searched

/// The end of the first word that asks to come back; npos: there is none.
std::size_t after_cue(std::string_view text) {
  static constexpr std::array<std::string_view, 9> kCues = {"again",    "retry",    "try",   "wait",  "come back",
                                                            "greylist", "graylist", "later", "resend"};
  std::size_t first = std::string_view::npos, end = 0;
  for (const std::string_view cue : kCues) {
    const auto at = text.find(cue);
    if (at >= first) continue;
    first = at;
    end = at + cue.size();
  }
  return first == std::string_view::npos ? first : end;
}

/// Seconds in a unit; 0: not a unit.
std::uint64_t unit_seconds(std::string_view word) {
  static constexpr std::pair<std::string_view, std::uint64_t> kUnits[] = {
      {"s", 1},    {"sec", 1},   {"secs", 1},   {"second", 1},  {"seconds", 1},
      {"m", 60},   {"min", 60},  {"mins", 60},  {"minute", 60}, {"minutes", 60},
      {"h", 3600}, {"hr", 3600}, {"hrs", 3600}, {"hour", 3600}, {"hours", 3600}};
  const auto* found =
      std::find_if(std::begin(kUnits), std::end(kUnits), [&](const auto& u) { return u.first == word; });
  return found == std::end(kUnits) ? 0 : found->second;
}

struct Scan {
  std::string_view text;
  std::size_t at = 0;

  void spaces() {
    while (at < text.size() && ascii_space(text[at])) ++at;
  }
  std::string_view digits() {
    const auto from = at;
    while (at < text.size() && ascii_digit(text[at])) ++at;
    return text.substr(from, at - from);
  }
  std::string_view letters() {
    const auto from = at;
    while (at < text.size() && ascii_alpha(text[at])) ++at;
    return text.substr(from, at - from);
  }
};

/// The word before a position.
std::string_view word_before(std::string_view text, std::size_t at) {
  while (at > 0 && ascii_space(text[at - 1])) --at;
  const auto end = at;
  while (at > 0 && ascii_alpha(text[at - 1])) --at;
  return text.substr(at, end - at);
}

/// Reads "4:59" or "00:04:59" at `at`, after "in", "after" or "for"; 0: there is no such time.
std::uint64_t clock_seconds(std::string_view text, std::size_t at) {
  const auto before = word_before(text, at);
  if (before != "in" && before != "after" && before != "for") return 0;
  Scan s{text, at};
  std::uint64_t total = 0;
  int parts = 0;
  for (;; ++s.at) {
    const auto part = s.digits();
    if (part.empty() || part.size() > 3 || ++parts > 3) return 0;
    total = total * 60 + *parse_unsigned(part);
    if (s.at >= text.size() || text[s.at] != ':') break;
  }
  return parts > 1 ? total : 0;
}

}  // namespace

std::optional<seconds> stated_delay(std::string_view reply) {
  const std::string text = to_lower(reply.substr(0, kMaxText));
  const auto from = after_cue(text);
  if (from == std::string_view::npos) return std::nullopt;
  constexpr auto kMost = static_cast<std::uint64_t>(kMaxStatedDelay.count());
  Scan s{text, from};
  std::uint64_t total = 0;
  while (s.at < text.size()) {
    if (!ascii_digit(text[s.at]) || (s.at > 0 && (ascii_alnum(text[s.at - 1]) || text[s.at - 1] == '.' ||
                                                  text[s.at - 1] == '-' || text[s.at - 1] == ':'))) {
      ++s.at;
      continue;
    }
    const auto begin = s.at;
    if (const auto clock = clock_seconds(text, begin); total == 0 && clock > 0) {
      total = clock;
      break;
    }
    const auto number = parse_unsigned(s.digits());
    s.spaces();
    if (s.at < text.size() && text[s.at] == '-') ++s.at;  // "5-minute"
    const std::uint64_t unit = unit_seconds(s.letters());
    if (!number || unit == 0 || (s.at < text.size() && ascii_digit(text[s.at]))) {
      if (total > 0) break;
      continue;
    }
    total += std::min<std::uint64_t>(*number, kMost) * unit;
    // "1 hour 30 minutes", "4 minutes and 59 seconds": only text that follows at once belongs to the duration.
    Scan next = s;
    next.spaces();
    if (next.at < text.size() && text[next.at] == ',') ++next.at;
    next.spaces();
    if (text.compare(next.at, 4, "and ") == 0) next.at += 4;
    if (next.at >= text.size() || !ascii_digit(text[next.at])) break;
    s = next;
  }
  if (total == 0) return std::nullopt;
  return seconds(static_cast<std::int64_t>(std::min(total, kMost)));
}

std::optional<seconds> stated_delay(const DeliveryStatus& status) {
  return stated_delay(status.diagnostic.empty() ? std::string_view(status.text) : std::string_view(status.diagnostic));
}

}  // namespace pen::mail
