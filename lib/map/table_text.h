#pragma once
/// The text that tables are made from: "key white-space value" lines, and alias files "name: value".
///
/// Form:    a logical line starts with text at its first column; lines that start with white space go on with it.
///          Empty lines and lines whose first character is # are skipped (also between continuation lines).
///          Keys with white space may be quoted in alias files.
/// Source:  postmap(1), aliases(5).
/// Pure: no I/O, no clock. The entries point into nothing.
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::map {

struct LogicalLine {
  unsigned number = 0;  // of its first physical line, from 1
  // continuation lines joined by their own white space; trailing white space gone
  std::string text;
};
std::vector<LogicalLine> logical_lines(std::string_view text);

struct TableEntry {
  unsigned line = 0;
  std::string key;
  std::string value;
};
struct TableText {
  std::vector<TableEntry> entries;
  // "FILE, line N: expected format: key whitespace value"; such lines are left out
  std::vector<std::string> warnings;
};
/// A postmap source. `file` is for the warnings.
TableText parse_table(std::string_view text, std::string_view file);
/// An alias file: "name: value", names in lower case and unquoted.
TableText parse_aliases(std::string_view text, std::string_view file);
/// The destinations in the value of an alias or a line of a .forward or :include: file: split at
/// commas outside quotes; each as it was written: address, "|command", /file/name,
/// :include:/file/name. Ends after limit + 1 of them, which tells that there are too many.
std::vector<std::string> split_destinations(std::string_view value,
                                            std::size_t limit = std::numeric_limits<std::size_t>::max() - 1);

}  // namespace pen::map
