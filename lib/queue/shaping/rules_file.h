#pragma once
/// Reads files of providers and rules (shaping.rules(5)).
///
/// Form:    provider NAME SUFFIX… [rate=N/s…] [connections=N]       the limit: limit.h
///          rule NAME KEY=VALUE…      keys: provider, code, dsn, text, regex, class, scope, pause
///          A line that begins with white space continues the one before it; "#" begins a comment where a line or word
///          begins. A value may stand in "…", with \" and \\ within. provider, code and dsn take several, with commas;
///          text may be given several times.
/// Errors:  RulesError::bad with "FILE:LINE: what"; nothing of a file with an error counts.
/// Bounds:  kMaxFile bytes; kMaxRules rules, kMaxProviders providers, and what one of them takes.
/// Pure, but for read_rules_files().
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/queue/shaping/rules.h"

namespace pen::shaping {

enum class RulesError { bad = 1 };
std::string_view error_module(RulesError);
std::string_view describe(RulesError);

inline constexpr std::size_t kMaxFile = std::size_t{1} << 20;
inline constexpr std::size_t kMaxRules = 5000, kMaxProviders = 2000, kMaxSuffixes = 200, kMaxWords = 50;

/// Adds what the text says. file: for errors.
Result<void> read_rules(std::string_view text, std::string_view file, Rules& into);
/// Adds a file. Errors also: errno.
Result<void> read_rules_file(const std::string& file, Rules& into);
/// One file after the other; those that cannot be used are reported to `problem` and stop no mail: the others count.
Rules read_usable_files(const std::vector<std::string>& files, const std::function<void(std::string)>& problem);
/// One file after the other. Errors also: errno.
Result<Rules> read_rules_files(const std::vector<std::string>& files);

}  // namespace pen::shaping
