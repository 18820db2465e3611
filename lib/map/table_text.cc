#include "lib/map/table_text.h"

#include "lib/base/idn/fold.h"
#include "lib/base/text.h"

namespace pen::map {
namespace {

std::string_view trim_right(std::string_view text) {
  while (!text.empty() && ascii_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string warning(std::string_view file, unsigned line, std::string_view what) {
  return std::string(file) + ", line " + std::to_string(line) + ": " + std::string(what);
}

void doubt_indented(TableText& table, std::string_view file, const LogicalLine& line) {
  if (line.indented)
    table.doubts.push_back(
        warning(file, line.number, "a line must not start with white space: \"" + printable(line.text, 30) + "\""));
}

/// The position of the first such character outside quotes: the colon behind an alias's name.
std::size_t find_unquoted(std::string_view line, char wanted) {
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == wanted && !quoted) {
      return i;
    }
  }
  return std::string_view::npos;
}

std::string unquote(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') continue;
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    out.push_back(text[i]);
  }
  return out;
}

}  // namespace

std::string duplicate_note(std::string_view file, const TableEntry& entry) {
  return warning(file, entry.line, "duplicate entry: \"" + printable(entry.key, 200) + "\"");
}

std::vector<LogicalLine> logical_lines(std::string_view text) {
  std::vector<LogicalLine> lines;
  unsigned number = 0;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = trim_right(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++number;
    const std::string_view content = trim(line);
    if (content.empty() || content.front() == '#') continue;
    if (ascii_space(line.front()) && !lines.empty()) {
      lines.back().text += line;
    } else {
      lines.push_back({number, ascii_space(line.front()), std::string(content)});
    }
  }
  return lines;
}

TableText parse_table(std::string_view text, std::string_view file) {
  TableText table;
  for (auto& line : logical_lines(text)) {
    doubt_indented(table, file, line);
    // White space within quotes does not end a key; the quotes stay, as in an address.
    std::size_t space = 0;
    bool quoted = false;
    for (; space < line.text.size() && (quoted || !ascii_space(line.text[space])); ++space) {
      if (line.text[space] == '"') quoted = !quoted;
      if (line.text[space] == '\\' && space + 1 < line.text.size()) ++space;
    }
    if (quoted) {
      table.warnings.push_back(warning(file, line.number, "unbalanced '\"' in the key"));
      continue;
    }
    std::string key = line.text.substr(0, space);
    const std::string_view value = trim(std::string_view(line.text).substr(space));
    if (value.empty() || key.empty() || key == "\"\"") {  // "" is not a key: nothing ever looks it up
      table.warnings.push_back(warning(file, line.number, "expected format: key whitespace value"));
      continue;
    }
    if (key.ends_with(':'))
      table.doubts.push_back(warning(file, line.number, "record is in \"key: value\" format; is this an alias file?"));
    table.entries.push_back({line.number, std::move(key), std::string(value)});
  }
  return table;
}

TableText parse_aliases(std::string_view text, std::string_view file) {
  TableText table;
  for (auto& line : logical_lines(text)) {
    doubt_indented(table, file, line);
    const auto colon = find_unquoted(line.text, ':');
    if (colon == std::string_view::npos || colon == 0) {
      table.warnings.push_back(warning(file, line.number, "expected format: name: value"));
      continue;
    }
    const std::string_view written = trim(std::string_view(line.text).substr(0, colon));
    if (find_unquoted(written, '@') != std::string_view::npos) {
      table.warnings.push_back(warning(file, line.number, "name must be local"));
      continue;
    }
    std::string name = idn::fold(unquote(written));
    const std::string_view value = trim(std::string_view(line.text).substr(colon + 1));
    if (name.empty() || value.empty()) {
      table.warnings.push_back(warning(file, line.number, "name or value is empty"));
      continue;
    }
    table.entries.push_back({line.number, std::move(name), std::string(value)});
  }
  return table;
}

std::vector<std::string> split_destinations(std::string_view value, std::size_t limit) {
  std::vector<std::string> parts;
  std::string part;
  bool quoted = false;
  unsigned comment = 0;
  const auto finish = [&] {
    std::string_view text = trim(part);
    // "|command with, commas" and "/file name" are quoted as a whole: the quotes belong to the list, not to the
    // destination.
    if (text.size() >= 3 && text.front() == '"' && text.back() == '"' &&
        (text[1] == '|' || text[1] == '/' || text[1] == ':')) {
      parts.push_back(unquote(text.substr(1, text.size() - 2)));
    } else if (!text.empty()) {
      parts.emplace_back(text);
    }
    part.clear();
  };
  for (std::size_t i = 0; i < value.size() && parts.size() <= limit; ++i) {
    const char c = value[i];
    if (comment > 0) {
      if (c == '(') ++comment;
      if (c == ')') --comment;
    } else if (c == '\\' && i + 1 < value.size()) {
      part += c;
      part += value[++i];
    } else if (c == '"') {
      quoted = !quoted;
      part += c;
    } else if (!quoted && (c == ',' || c == '\n' || c == '\r')) {
      finish();
    } else if (!quoted && c == '(' && trim(part).substr(0, 1) != "|") {
      ++comment;
    } else {
      part += c;
    }
  }
  if (parts.size() <= limit) finish();
  return parts;
}

}  // namespace pen::map
