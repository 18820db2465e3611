#pragma once
/// Reads the text of main.cf into a list of settings, without expanding values or checking names.
///
/// Source:  postconf(5): "name = value" lines; a line that starts with a blank continues the one
///          before; empty lines and lines whose first non-blank is # are skipped and do not end a
///          continued line.
/// Bounds:  kMaxFile bytes, kMaxLine bytes per logical line; NUL bytes are refused.
/// Pure; any thread.
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/problem.h"

namespace pen::config {

inline constexpr std::size_t kMaxFile = 4 << 20;
inline constexpr std::size_t kMaxLine = 1 << 20;

/// One logical line: its text, with continuations joined by one blank, and its first and last line (from 1).
struct LogicalLine {
  std::string text;
  int first = 0, last = 0;
};
/// For main.cf and master.cf. file: the name of the text in problems.
std::vector<LogicalLine> logical_lines(std::string_view text, const std::string& file, Problems& problems);

struct Assignment {
  std::string name, value;
  int line = 0;
};
/// Parses "name = value" and trims blanks. Returns the error: what is wrong and what to do; empty: none.
std::string parse_assignment(std::string_view text, Assignment& out);
/// Assignments in order, with repeats. Any other line is a problem and is left out.
std::vector<Assignment> parse_main_cf(std::string_view text, const std::string& file, Problems& problems);

/// Whether text can be the name of a setting: letters, digits, "_", "-" and ".".
bool valid_name(std::string_view text);

}  // namespace pen::config
