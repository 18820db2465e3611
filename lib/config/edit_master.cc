#include "lib/config/edit_master.h"

#include <algorithm>
#include <iterator>

#include "lib/base/text.h"

namespace pen::config {
namespace {

using Kind = Edit::Kind;
using Of = ServiceEdit::Of;

constexpr std::size_t kCommand = 7;

/// "name=value" of an -o option, with braces where the value has blanks.
std::string option_text(std::string_view written) {
  if (written.starts_with('{') && written.ends_with('}')) written = trim(written.substr(1, written.size() - 2));
  Assignment a;
  if (!parse_assignment(written, a).empty()) return std::string(written);
  const std::string text = a.name + "=" + a.value;
  return text.find_first_of(" \t") == std::string::npos ? text : "{" + text + "}";
}

std::string setting_name(std::string_view option) {
  if (option.starts_with('{') && option.ends_with('}')) option = trim(option.substr(1, option.size() - 2));
  Assignment a;
  return parse_assignment(option, a).empty() ? a.name : std::string();
}

bool fits(const ServiceEdit& edit, const Service& service) {
  return (edit.name == "*" || edit.name == service.name) && (edit.type == "*" || edit.type == to_word(service.type));
}

/// Makes two words of "-oNAME=VALUE". Returns where the options end: a word that follows belongs to the command.
std::size_t separate_options(std::vector<std::string>& words) {
  std::size_t i = 0;
  std::size_t end = 0;
  while (i < words.size() && words[i].starts_with('-')) {
    if (words[i].starts_with("-o") && words[i].size() > 2) {
      std::string value = words[i].substr(2);
      words[i] = "-o";
      words.insert(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(value));
    }
    const bool option = words[i] == "-o" && i + 1 < words.size();
    i += option ? 2 : 1;
    if (option) end = i;
  }
  return end;
}

void change_setting(std::vector<std::string>& words, const ServiceEdit& edit) {
  std::size_t end = separate_options(words);
  bool placed = edit.kind == Kind::remove;
  const std::string text = option_text("{" + edit.part + "=" + edit.value + "}");
  for (std::size_t i = end; i-- > 1;) {  // from the last one, which counts
    if (words[i - 1] != "-o" || setting_name(words[i]) != edit.part) continue;
    if (!placed) {
      words[i] = text;
      placed = true;
      continue;
    }
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(i) - 1;
    words.erase(at, at + 2);
    end -= 2;
    --i;
    if (i == 0) break;
  }
  if (placed) return;
  const auto at = words.insert(words.begin() + static_cast<std::ptrdiff_t>(end), "-o");
  words.insert(at + 1, text);
}

/// A line of master.cf; on one line again, and its words.
Result<Service> read_service(const std::string& text) {
  Problems problems;
  const auto services = parse_master_cf(text, "", problems);
  if (!problems.empty()) return fail(ConfigError::bad_value, problems.front().text);
  if (services.size() != 1) return fail(ConfigError::bad_value, "one service is expected");
  return services.front();
}

std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return std::string(trim(text));
}

/// What stands in the place of the service; empty: nothing.
Result<std::string> instead_of(Service service, const ServiceEdit& edit) {
  if (edit.kind == Kind::remove && edit.of == Of::service) return std::string();
  if (edit.of == Of::service) {
    const auto read = read_service(on_one_line(edit.value));
    if (!read) return std::unexpected(read.error());
    return service_text(*read, read->words, true);
  }
  if (edit.of == Of::setting) {
    change_setting(service.words, edit);
  } else {
    const auto column = std::ranges::find(kColumnNames, edit.part);
    if (column == std::end(kColumnNames))
      return fail(ConfigError::bad_value, "a service has no column \"" + printable(edit.part, 60) + "\"");
    const auto at = static_cast<std::size_t>(column - std::begin(kColumnNames));
    service.columns[at] = on_one_line(edit.value);
    if (at == kCommand) service.words.clear();  // the value has them
  }
  const std::string text = service_text(service, service.words, true);
  // Read once more: the value may not fit the column, or have a blank where none may be.
  const auto read = read_service(text);
  if (!read) return std::unexpected(read.error());
  bool same = edit.part == "command" || read->columns == service.columns;
  if (edit.of == Of::setting && edit.kind == Kind::set)
    same = std::ranges::any_of(read->overrides,
                               [&](const Assignment& a) { return a.name == edit.part && a.value == edit.value; });
  if (!same)
    return fail(ConfigError::bad_value,
                "\"" + printable(edit.value, 60) + "\" is no value of " + printable(edit.part, 60));
  return service_text(*read, read->words, true);
}

struct Place {
  Service service;
  int first = 0, last = 0;  // lines, from 1
};

std::vector<Place> services_in(std::string_view text) {
  Problems ignored;  // lines that are no services stay unchanged
  std::vector<Place> all;
  for (const LogicalLine& line : logical_lines(text, "", ignored)) {
    if (auto service = read_service(line.text)) all.push_back({*std::move(service), line.first, line.last});
  }
  return all;
}

/// One edit. matched: a service was there.
Result<std::string> applied(std::string_view text, const ServiceEdit& edit, bool& matched) {
  std::vector<std::string> lines = physical_lines(text);
  auto places = services_in(text);
  std::erase_if(places, [&](const Place& place) { return !fits(edit, place.service); });
  matched = !places.empty();
  const bool one = edit.of == Of::service && edit.kind == Kind::set;
  for (auto place = places.rbegin(); place != places.rend(); ++place) {  // from below: the numbers above stay right
    std::vector<std::string> comments, instead;
    for (int i = place->first; i <= place->last; ++i) {
      std::string& line = lines[static_cast<std::size_t>(i - 1)];
      if (is_comment(line))
        comments.push_back(std::move(line));
      else if (edit.kind == Kind::comment_out)
        comments.push_back("#" + line);
    }
    if (edit.kind != Kind::comment_out && (!one || place == places.rbegin())) {
      const auto now = instead_of(place->service, edit);
      if (!now) return std::unexpected(now.error());
      if (!now->empty()) instead.push_back(*now);
    }
    instead.insert(instead.begin(), comments.begin(), comments.end());
    const auto from = lines.erase(lines.begin() + place->first - 1, lines.begin() + place->last);
    lines.insert(from, instead.begin(), instead.end());
  }
  if (one && !matched) {
    const auto read = read_service(on_one_line(edit.value));
    if (!read) return std::unexpected(read.error());
    lines.push_back(service_text(*read, read->words, true));
  }
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

}  // namespace

std::string service_text(const Service& service, const std::vector<std::string>& words, bool folded) {
  // as Postfix sets them
  static constexpr std::size_t kColumns[] = {0, 11, 17, 25, 33, 41, 49, 57};
  static constexpr std::size_t kWidth = 79;
  std::string line;
  for (std::size_t i = 0; i < service.columns.size(); ++i) {
    if (i != 0) line += ' ';
    if (line.size() < kColumns[i]) line.append(kColumns[i] - line.size(), ' ');
    line += service.columns[i];
  }
  std::size_t start = 0;  // of the last line
  bool options = true, broken = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool setting = options && words[i] == "-o" && i + 1 < words.size();
    const std::string text = setting ? "-o " + option_text(words[i + 1]) : words[i];
    // What follows the settings is the program's own, and begins a line after them.
    const bool first_own = options && !words[i].starts_with('-');
    const bool breaks = setting || (first_own && broken) || line.size() - start + 1 + text.size() > kWidth;
    if (folded && breaks) {
      start = line.size() + 1;
      line += "\n    " + text;
      broken = true;
    } else {
      line += " " + text;
    }
    options = options && !first_own;
    if (setting) ++i;
  }
  return line;
}

Result<EditedServices> edit_master_cf(std::string_view text, const std::vector<ServiceEdit>& edits) {
  EditedServices done;
  done.text = text;
  for (const ServiceEdit& edit : edits) {
    if (edit.value.find('\0') != std::string::npos) return fail(ConfigError::bad_value, "a NUL");
    if (edit.of == Of::setting && !valid_name(edit.part))
      return fail(ConfigError::bad_value, "the name \"" + printable(edit.part, 60) + "\"");
    if (edit.of == Of::setting && edit.value.find('\n') != std::string::npos)
      return fail(ConfigError::bad_value, edit.part + ": a line break");
    bool matched = false;
    auto after = applied(done.text, edit, matched);
    if (!after) return std::unexpected(after.error());
    done.text = *std::move(after);
    if (!matched && !(edit.of == Of::service && edit.kind == Kind::set)) done.unmatched.push_back(&edit);
  }
  return done;
}

}  // namespace pen::config
