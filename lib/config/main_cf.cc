#include "lib/config/main_cf.h"

#include <algorithm>
#include <tuple>

#include "lib/base/text.h"

namespace pen::config {

std::string_view error_module(ConfigError) { return "config"; }
std::string_view describe(ConfigError e) {
  switch (e) {
    case ConfigError::unreadable:
      return "cannot be read";
    case ConfigError::bad_syntax:
      return "has a syntax error";
    case ConfigError::bad_value:
      return "has a value that cannot be used";
    case ConfigError::too_large:
      return "is larger than a configuration file may be";
  }
  return "unknown error";
}

std::string Problem::message() const {
  std::string out = file;
  if (!file.empty() && line > 0) out += ":" + std::to_string(line);
  if (!out.empty()) out += ": ";
  if (!name.empty()) out += name + ": ";
  return out + text;
}

void sort_problems(Problems& problems) {
  std::ranges::sort(problems, [](const Problem& a, const Problem& b) {
    return std::tie(a.severity, a.file, a.line, a.name, a.text) < std::tie(b.severity, b.file, b.line, b.name, b.text);
  });
}

std::vector<LogicalLine> logical_lines(std::string_view text, const std::string& file, Problems& problems) {
  std::vector<LogicalLine> lines;
  if (text.size() > kMaxFile) {
    problems.push_back(
        {Severity::error, file, 0, "", "the file is larger than " + std::to_string(kMaxFile) + " bytes"});
    return lines;
  }
  bool skipping = false;  // skips the rest of a refused line
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string_view content = trim(line);
    if (content.empty() || content.front() == '#') continue;
    if (line.find('\0') != std::string_view::npos) {
      problems.push_back({Severity::error, file, number, "", "the line holds a NUL byte; remove it"});
      skipping = true;
      continue;
    }
    if (!ascii_space(line.front())) {
      lines.push_back({std::string(line), number, number});
      skipping = false;
    } else if (skipping) {
      continue;
    } else if (lines.empty()) {
      problems.push_back({Severity::error, file, number, "",
                          "the first line starts with a blank, as if it continued another; remove the blank"});
      skipping = true;
    } else if (lines.back().text.size() + line.size() > kMaxLine) {
      problems.push_back({Severity::error, file, lines.back().first, "",
                          "with its continuation lines it is longer than " + std::to_string(kMaxLine) +
                              " bytes; use a table or a /file name"});
      skipping = true;
    } else {
      std::string& whole = lines.back().text;
      while (ascii_space(whole.back())) whole.pop_back();
      whole.append(" ").append(content);
      lines.back().last = number;
    }
  }
  return lines;
}

bool valid_name(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return ascii_alnum(c) || c == '_' || c == '-' || c == '.'; });
}

std::string parse_assignment(std::string_view text, Assignment& out) {
  const std::size_t equals = text.find('=');
  const std::string_view name = trim(text.substr(0, equals));
  if (equals == std::string_view::npos)
    return "\"=\" is missing after \"" + printable(name, 60) + "\"; write name = value" +
           ", and begin the line with a blank if it continues the one before";
  if (name.empty()) return "the name before \"=\" is missing";
  if (!valid_name(name))
    return "\"" + printable(name, 60) + "\" cannot be a name: letters, digits, \"_\", \"-\" and \".\" only";
  out.name = name;
  out.value = trim(text.substr(equals + 1));
  return {};
}

std::vector<Assignment> parse_main_cf(std::string_view text, const std::string& file, Problems& problems) {
  std::vector<Assignment> result;
  for (const LogicalLine& line : logical_lines(text, file, problems)) {
    Assignment assignment;
    assignment.line = line.first;
    const std::string error = parse_assignment(line.text, assignment);
    if (error.empty()) {
      result.push_back(std::move(assignment));
    } else {
      problems.push_back({Severity::error, file, line.first, "", error});
    }
  }
  return result;
}

}  // namespace pen::config
