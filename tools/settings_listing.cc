#include "tools/settings_listing.h"

#include <sysexits.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/base/text.h"
#include "lib/config/expand.h"
#include "lib/map/map.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

constexpr std::size_t kWidth = 80;  // of folded lines

void warn(const std::string& text) { std::fprintf(stderr, "penconf: warning: %s\n", text.c_str()); }

std::string json_line(const std::string& name, const std::string& value) {
  const auto quoted = [](const nlohmann::json& text) {
    return text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  return "{" + quoted(name) + ": " + quoted(value) + "}";  // with a blank, as postconf has it
}

void show(const Listing& o, const std::string& name, const std::string& value) { print(o.line(name, value) + "\n"); }

/// The value to show, or nullopt after a warning.
std::optional<std::string> value_of(const config::Config& config, const Listing& o, const std::string& name) {
  std::optional<std::string> value;
  if (o.defaults) {
    if (const config::Row* row = config::find_row(name)) value = std::string(row->default_text);
  } else {
    value = config.written(name);
  }
  if (!value) {
    warn(name + ": unknown setting");
    return std::nullopt;
  }
  const config::Row* row = config::find_row(name);
  if (!o.expand || (row && row->type == config::Type::raw)) return value;
  auto expanded = config.expand(*value);
  if (expanded) return std::move(*expanded);
  warn(name + ": " + expanded.error().context());
  return std::nullopt;
}

struct Selector {
  std::string service, type, name;
};

Selector parse_selector(std::string_view text) {
  Selector s;
  const std::size_t first = text.find('/');
  s.service = text.substr(0, first);
  if (first == std::string_view::npos) return s;
  const std::size_t second = text.find('/', first + 1);
  s.type = text.substr(first + 1, second == std::string_view::npos ? second : second - first - 1);
  if (second != std::string_view::npos) s.name = text.substr(second + 1);
  return s;
}
bool fits(const std::string& wanted, std::string_view is) { return wanted.empty() || wanted == "*" || wanted == is; }

/// "-o name=value", with braces where the value has blanks.
std::string option_text(std::string_view written) {
  if (written.starts_with('{') && written.ends_with('}')) written = trim(written.substr(1, written.size() - 2));
  config::Assignment a;
  if (!config::parse_assignment(written, a).empty()) return std::string(written);
  const std::string text = a.name + "=" + a.value;
  return text.find_first_of(" \t") == std::string::npos ? text : "{" + text + "}";
}

void show_service(const config::Config& config, const Listing& o, const config::Service& s) {
  // as Postfix sets them
  static constexpr std::size_t kColumns[] = {0, 11, 17, 25, 33, 41, 49, 57};
  std::string line;
  for (std::size_t i = 0; i < 8; ++i) {
    if (i != 0) line += ' ';
    if (line.size() < kColumns[i]) line.append(kColumns[i] - line.size(), ' ');
    line += s.columns[i];
  }
  std::vector<std::string> words = s.words;
  if (o.expand) {
    const config::Config own = config.with(s);
    for (std::string& word : words)
      if (const auto expanded = own.expand(word)) word = *expanded;
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool option = words[i] == "-o" && i + 1 < words.size();
    line += o.fold && option ? "\n    " : " ";
    line += words[i];
    if (option) line += " " + option_text(words[++i]);
  }
  print((o.json ? json_line(s.label(), line) : line) + "\n");
}

void show_columns(const Listing& o, const config::Service& s, const std::string& wanted) {
  static constexpr const char* kColumns[] = {"service", "type",   "private",       "unprivileged",
                                             "chroot",  "wakeup", "process_limit", "command"};
  for (std::size_t i = 0; i < 8; ++i) {
    if (!fits(wanted, kColumns[i])) continue;
    std::string value = s.columns[i];
    if (i == 7)
      for (const std::string& word : s.words) value += " " + word;
    show(o, s.label() + "/" + kColumns[i], value);
  }
}

void show_overrides(const config::Config& config, const Listing& o, const config::Service& s,
                    const std::string& wanted) {
  std::optional<config::Config> own;
  if (o.expand) own = config.with(s);
  for (const config::Assignment& a : s.overrides) {
    if (!fits(wanted, a.name)) continue;
    std::string value = a.value;
    if (own)
      if (const auto expanded = own->expand(value)) value = *expanded;
    show(o, s.label() + "/" + a.name, value);
  }
}

}  // namespace

std::string folded(std::string_view text) {
  std::string out;
  std::size_t width = 0;
  for (const std::string_view word : split(text, " \t")) {
    if (width != 0 && width + 1 + word.size() > kWidth) {
      out += "\n    ";
      width = 4;
    } else if (width != 0) {
      out += ' ';
      ++width;
    }
    out += word;
    width += word.size();
  }
  return out;
}

std::string Listing::line(const std::string& name, const std::string& value) const {
  if (json) return json_line(name, value);
  if (hide_values) return name;
  const std::string text = hide_names ? value : name + (value.empty() ? " =" : " = " + value);
  return fold ? folded(text) : text;
}

int show_settings(const config::Config& config, const Listing& o, std::vector<std::string> names) {
  int status = EX_OK;
  if (names.empty()) {
    if (!o.set_only)
      for (const config::Row& row : config::rows()) names.emplace_back(row.name);
    if (!o.defaults)
      for (const std::string& name : config.names_set())
        if (o.set_only || !config::find_row(name)) names.push_back(name);
    std::ranges::sort(names);
  } else if (o.set_only) {
    std::erase_if(names, [&](const std::string& name) { return !config.where(name); });
  }
  for (const std::string& name : names) {
    const auto value = value_of(config, o, name);
    if (value) {
      show(o, name, *value);
    } else {
      status = EX_UNAVAILABLE;
    }
  }
  for (const config::Problem& p : config.report())
    if (p.severity == config::Severity::error ||
        (p.severity == config::Severity::warning && p.text.starts_with("no setting has")))
      warn(p.message());
  return status;
}

int show_services(const config::Config& config, const Listing& o, const std::vector<std::string>& selectors) {
  int status = EX_OK;
  for (const config::Problem& p : config.problems())
    if (p.severity == config::Severity::error) warn(p.message());
  const auto show_fitting = [&](const Selector& wanted) {
    bool any = false;
    for (const config::Service& s : config.master()) {
      if (!fits(wanted.service, s.name) || !fits(wanted.type, config::to_word(s.type))) continue;
      any = true;
      if (o.of == Listing::Of::services) show_service(config, o, s);
      if (o.of == Listing::Of::columns) show_columns(o, s, wanted.name);
      if (o.of == Listing::Of::overrides) show_overrides(config, o, s, wanted.name);
    }
    return any;
  };
  if (selectors.empty()) show_fitting({});
  for (const std::string& name : selectors) {
    if (show_fitting(parse_selector(name))) continue;
    warn(name + ": no such service");
    status = EX_UNAVAILABLE;
  }
  return status;
}

int show_table_types() {
  auto types = map::known_types();
  std::ranges::sort(types);
  for (const std::string_view type : types) print(std::string(type) + "\n");
  return EX_OK;
}

}  // namespace pen::tools
