#pragma once
/// Parses the text that tables are made from: "key white-space value" lines, and alias files "name: value".
///
/// Form:    a logical line starts with text in its first column; lines that start with white space continue it. Empty
///          lines and lines whose first character is # are skipped (also between continuation lines).
///          Keys may have white space between quotes. The quotes stay in the key, but in alias files.
/// Source:  postmap(1), aliases(5).
/// Pure: no I/O, no clock. The entries hold copies of the text.
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::map {

struct LogicalLine {
  unsigned number = 0;    // line number of its first physical line, from 1
  bool indented = false;  // it begins with white space, and there is no line that it could continue
  // Continuation lines joined by their own white space; trailing white space removed.
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
  // "FILE, line N: expected format: key whitespace value"; such lines are left out.
  std::vector<std::string> warnings;
  std::vector<std::string> doubts;  // about lines that are taken all the same
};
/// What is said of an entry whose key was there before: "FILE, line N: duplicate entry: "KEY"".
std::string duplicate_note(std::string_view file, const TableEntry& entry);
/// Parses a postmap source. `file` is used in warnings.
TableText parse_table(std::string_view text, std::string_view file);
/// Parses an alias file: "name: value", names in lower case and unquoted. A name with a domain is no alias: nobody
/// looks it up.
TableText parse_aliases(std::string_view text, std::string_view file);
/// The destinations in the value of an alias, or in a line of a .forward or :include: file. Splits at commas outside
/// quotes; each destination stays as written: address, "|command", /file/name, :include:/file/name. Stops after limit
/// + 1 destinations, so that the caller can see that there are too many.
std::vector<std::string> split_destinations(std::string_view value,
                                            std::size_t limit = std::numeric_limits<std::size_t>::max() - 1);

}  // namespace pen::map
