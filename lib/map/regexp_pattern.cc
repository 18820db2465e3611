#include <regex.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "lib/base/processor_time.h"
#include "lib/map/bad_rule.h"
#include "lib/map/pattern.h"
#include "lib/map/required_literals.h"

namespace pen::map {
namespace {

// A match may cost the square of the key's length: the rest of the key for each starting position. For a key of this
// length even that is little.
constexpr std::size_t kShortKey = 512;
// Starting positions times the bytes behind them, for one call: well below a millisecond.
constexpr std::size_t kSlice = 256 * 1024;
constexpr std::size_t kMaxSlices = 32;  // in one call, as long as calls turn out cheap
constexpr std::chrono::microseconds kFairSlice{250};
// About the cost at which PCRE2's limit ends a match. It is processor time, so a busy machine does not make a match
// too long.
constexpr std::chrono::milliseconds kMaxTime{50};

Result<int> flags_of(const Rule& rule, const std::string& path) {
  int flags = REG_EXTENDED | REG_ICASE;
  for (const char c : rule.flags) {
    switch (c) {
      case 'i':
        flags ^= REG_ICASE;
        break;
      case 'm':
        flags ^= REG_NEWLINE;
        break;
      case 'x':
        flags ^= REG_EXTENDED;
        break;
      default:
        return bad_rule(path, rule.line, std::string("unknown flag ") + c);
    }
  }
  return flags;
}

/// Behind the bracket expression that begins there.
std::size_t end_of_bracket(std::string_view pattern, std::size_t at) {
  ++at;
  if (pattern.substr(at).starts_with('^')) ++at;
  if (pattern.substr(at).starts_with(']')) ++at;
  for (; at < pattern.size() && pattern[at] != ']'; ++at) {
    const std::string_view rest = pattern.substr(at);
    if (!rest.starts_with("[:") && !rest.starts_with("[.") && !rest.starts_with("[=")) continue;
    const auto end = pattern.find(std::string{rest[1], ']'}, at + 2);
    if (end != std::string_view::npos) at = end + 1;
  }
  return at;
}

/// Whether \1 to \9 is in it. The C library matches that in time that no length of a key bounds.
bool refers_back(std::string_view pattern) {
  for (std::size_t at = 0; at + 1 < pattern.size(); ++at) {
    if (pattern[at] == '[') {
      at = end_of_bracket(pattern, at);
    } else if (pattern[at] == '\\') {
      ++at;
      if (pattern[at] >= '1' && pattern[at] <= '9') return true;
    }
  }
  return false;
}

std::unexpected<Error> out_of_memory() { return fail(MapError::unreadable, "regular expression ran out of memory"); }

}  // namespace

struct RegexpPattern::Compiled {
  Compiled() = default;
  ~Compiled() {
    if (made) regfree(&regex);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  /// Finds the first match that begins at `start` or later, with the wanted groups.
  Result<bool> find(const std::string& key, std::size_t start, Spans& spans) {
    std::array<regmatch_t, Spans::kMax> at;
    at[0].rm_so = static_cast<regoff_t>(start);
    at[0].rm_eo = static_cast<regoff_t>(key.size());
    const int code = regexec(&regex, key.c_str(), groups, at.data(), REG_STARTEND);
    if (code == REG_NOMATCH) return false;
    if (code != 0) return out_of_memory();
    spans.count = groups;
    for (std::size_t i = 0; i < groups; ++i) {
      if (at[i].rm_so < 0) {
        spans.at[i] = {0, 0};
      } else {
        spans.at[i] = {static_cast<std::size_t>(at[i].rm_so), static_cast<std::size_t>(at[i].rm_eo - at[i].rm_so)};
      }
    }
    return true;
  }

  regex_t regex{};
  bool made = false;
  std::size_t groups = 0;  // wanted groups, the whole match included
};

void RegexpPattern::Free::operator()(Compiled* compiled) const { delete compiled; }

Result<RegexpPattern> RegexpPattern::compile(const Rule& rule, const std::string& path) {
  PEN_TRY_ASSIGN(const int flags, flags_of(rule, path));
  if (refers_back(rule.pattern))
    return bad_rule(path, rule.line, "a back-reference may take any time; pcre: matches it in bounded time");
  RegexpPattern pattern;
  pattern.compiled_.reset(new Compiled);
  Compiled& compiled = *pattern.compiled_;
  if (const int code = regcomp(&compiled.regex, rule.pattern.c_str(), flags); code != 0) {
    std::array<char, 200> text{};
    regerror(code, &compiled.regex, text.data(), text.size());
    return bad_rule(path, rule.line, text.data());
  }
  compiled.made = true;
  if (static_cast<std::size_t>(rule.highest_group) > compiled.regex.re_nsub)
    return bad_rule(path, rule.line, "$number beyond the groups of the pattern");
  if (std::ranges::any_of(rule.result, [](const RulePiece& p) { return p.group >= 0; }))
    compiled.groups = std::min(static_cast<std::size_t>(rule.highest_group) + 1, Spans::kMax);
  // In a multi-byte locale, letters beyond ASCII may be other cases of ASCII letters.
  if ((flags & REG_EXTENDED) != 0 && MB_CUR_MAX == 1)
    pattern.needed_ = required_literals(rule.pattern, PatternSyntax::posix_extended);
  return pattern;
}

Result<bool> RegexpPattern::match(const std::string& key, Spans& spans) const {
  if (key.size() <= kShortKey) return compiled_->find(key, 0, spans);
  return match_long(key, spans);
}

Result<bool> RegexpPattern::match_long(const std::string& key, Spans& spans) const {
  const auto size = static_cast<regoff_t>(key.size());
  const auto begun = processor_time();
  auto last = begun;
  std::size_t slices = 1;
  for (std::size_t at = 0; at <= key.size();) {
    const std::size_t left = key.size() - at + 1;
    const std::size_t starts = std::clamp<std::size_t>(slices * kSlice / left, 1, left);
    const regoff_t found = re_search(&compiled_->regex, key.data(), size, static_cast<regoff_t>(at),
                                     static_cast<regoff_t>(starts - 1), nullptr);
    if (found < -1) return out_of_memory();
    if (found >= 0) {
      if (compiled_->groups == 0) return true;
      return compiled_->find(key, static_cast<std::size_t>(found), spans);
    }
    at += starts;
    const auto now = processor_time();
    if (now - begun > kMaxTime && at <= key.size()) return fail(MapError::unreadable, "matching took too long");
    slices = now - last > kFairSlice ? 1 : std::min(slices * 2, kMaxSlices);
    last = now;
  }
  return false;
}

}  // namespace pen::map
