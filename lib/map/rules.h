#pragma once
/// Reads the text of pattern tables (regexp, pcre, cidr) into rules, before any pattern is compiled.
///
/// Form:    "pattern result", "!pattern result", "if pattern" … "endif" (nested). Patterns of regexp and pcre are
///          between delimiters, with flags behind; those of cidr are a word. Results may hold $1, ${1}, $(1) and $$.
/// Faults:  a rule that cannot be read is passed over, as in Postfix, and so is text behind an "if" and an "endif"; an
///          "if" without "endif" lasts until the end. `passed_over` gets each.
/// Errors:  MapError::syntax with "FILE, line N: why": an "if" that cannot be read. Without it the rules behind it
///          would hold for everything.
/// Source:  regexp_table(5), pcre_table(5), cidr_table(5). Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/map/passed_over.h"

namespace pen::map {

struct RulePiece {
  std::string text;
  int group = -1;  // >= 0: the text of that group
};
struct Rule {
  enum class Kind : std::uint8_t { match, if_block };
  Kind kind = Kind::match;
  unsigned line = 0;
  bool negated = false;
  std::string pattern;  // without delimiters; an escaped delimiter is unescaped
  std::string flags;
  std::vector<RulePiece> result;
  int highest_group = 0;    // in result
  std::size_t skip_to = 0;  // if_block: the rule behind the matching endif
};
enum class RuleStyle : std::uint8_t { delimited, word };

inline constexpr std::size_t kMaxRules = 1'000'000;
inline constexpr std::size_t kMaxIfDepth = 100;

Result<std::vector<Rule>> parse_rules(std::string_view text, std::string_view file, RuleStyle style,
                                      PassedOver& passed_over);

}  // namespace pen::map
