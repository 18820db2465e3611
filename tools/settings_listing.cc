#include "tools/settings_listing.h"

#include <sysexits.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/base/text.h"
#include "lib/config/edit_master.h"
#include "lib/config/expand.h"
#include "lib/map/map.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

constexpr std::size_t kWidth = 80;  // of folded lines
constexpr std::size_t kEndless = std::numeric_limits<std::size_t>::max();

void warn(const std::string& text) { std::fprintf(stderr, "penconf: warning: %s\n", text.c_str()); }

std::string json_line(const std::string& name, const std::string& value) {
  const auto quoted = [](const nlohmann::json& text) {
    return text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  return "{" + quoted(name) + ": " + quoted(value) + "}";  // with a blank, as postconf has it
}

void show(const Listing& o, const std::string& name, const std::string& value) { print(o.line(name, value) + "\n"); }

// The settings of single transports that Postfix itself has a default for.
constexpr std::pair<const char*, const char*> kOfTransports[] = {{"local_destination_concurrency_limit", "2"},
                                                                 {"local_destination_recipient_limit", "1"}};

constexpr std::string_view kDeliver[] = {"error", "lmtp", "local", "pipe", "smtp", "virtual"};

/// Whether settings with this suffix exist for the service: those of deliveries for what delivers, and a time limit
/// for what runs commands.
bool has(const config::Service& service, const config::TransportSuffix& suffix) {
  if (service.type == config::ServiceType::inet) return false;
  if (suffix.suffix == "_time_limit") return service.command == "pipe" || service.command == "spawn";
  return std::ranges::find(kDeliver, service.command) != std::end(kDeliver);
}

/// What a setting of a transport stands for while it is not set; nullopt: master.cf has no such transport.
std::optional<std::string> transport_default(const config::Config& config, std::string_view name) {
  const auto split = config::split_transport_name(name);
  if (!split) return std::nullopt;
  const bool known = std::ranges::any_of(config.master(), [&](const config::Service& service) {
    return service.name == split->transport && has(service, *split->suffix);
  });
  return known ? std::optional("$" + std::string(split->suffix->fallback)) : std::nullopt;
}

/// Of a name that has no row: it is of a transport, or somebody's own.
Listing::Class class_of(const config::Config& config, const std::string& name) {
  const bool usual = std::ranges::any_of(kOfTransports, [&](const auto& one) { return name == one.first; });
  return usual || transport_default(config, name) ? Listing::Class::service : Listing::Class::user;
}

/// The value to show, or nullopt after a warning. A name that is unknown is no failure, as for postconf: scripts ask
/// for names that came or went with a version.
std::optional<std::string> value_of(const config::Config& config, const Listing& o, const std::string& name,
                                    int& status) {
  std::optional<std::string> value;
  // With -d main.cf is empty: what is left are defaults, those made from this machine among them.
  if (!o.defaults || config::find_row(name)) value = config.written(name);
  for (const auto& [own, usual] : kOfTransports)
    if (!value && name == own) value = usual;
  if (!value) value = transport_default(config, name);
  if (!value) {
    warn(name + ": unknown setting");
    return std::nullopt;
  }
  const config::Row* row = config::find_row(name);
  // A name with a fixed value in Postfix: scripts ask for its digits and do not expand.
  const bool version = name == "mail_version" && row && *value == row->default_text;
  if (!(o.expand || version) || (row && row->type == config::Type::raw)) return value;
  auto expanded = config.expand(*value);
  if (expanded) return std::move(*expanded);
  warn(name + ": " + expanded.error().context());
  status = EX_UNAVAILABLE;
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

void show_service(const config::Config& config, const Listing& o, const config::Service& s) {
  std::vector<std::string> words = s.words;
  if (o.expand) {
    const config::Config own = config.with(s);
    // Other names are macros of the program, as $recipient is of pipe.
    const auto known = [&](const config::NameUse& use) { return own.written(use.name).has_value(); };
    for (std::string& word : words)
      if (const auto expanded = own.expand(word); expanded && std::ranges::all_of(config::names_in(word), known))
        word = *expanded;
  }
  if (!o.json) return print(config::service_text(s, words, o.fold) + "\n");
  print(json_line(s.label(), join(s.columns, " ") + (words.empty() ? "" : " " + join(words, " "))) + "\n");
}

void show_columns(const Listing& o, const config::Service& s, const std::string& wanted) {
  for (std::size_t i = 0; i < s.columns.size(); ++i) {
    const std::string column = config::kColumnNames[i];
    if (!fits(wanted, column)) continue;
    std::string value = s.columns[i];
    if (column == "command")
      for (const std::string& word : s.words) value += " " + word;
    show(o, s.label() + "/" + column, value);
  }
}

void show_overrides(const config::Config& config, const Listing& o, const config::Service& s,
                    const std::string& wanted) {
  std::optional<config::Config> own;
  if (o.expand) own = config.with(s);
  std::map<std::string, std::string> in_force;  // of two the last one, in the order of names
  for (const config::Assignment& a : s.overrides)
    if (fits(wanted, a.name)) in_force.insert_or_assign(a.name, a.value);
  for (auto& [name, value] : in_force) {
    if (own)
      if (const auto expanded = own->expand(value)) value = *expanded;
    show(o, s.label() + "/" + name, value);
  }
}

}  // namespace

std::string folded(std::string_view text, std::size_t most) {
  std::string out;
  std::size_t width = 0;
  for (const std::string_view word : split(text, " \t")) {
    if (width != 0 && width + 1 + word.size() > most) {
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
  return folded(text, fold ? kWidth : kEndless);
}

int show_settings(const config::Config& config, const Listing& o, std::vector<std::string> names) {
  int status = EX_OK;
  const auto wanted = [&o](Listing::Class one) { return o.of_class == Listing::Class::all || o.of_class == one; };
  if (names.empty()) {
    if (!o.set_only && wanted(Listing::Class::builtin)) {
      for (const config::Row& row : config::rows()) names.emplace_back(row.name);
    }
    if (!o.set_only && wanted(Listing::Class::service)) {
      for (const auto& [name, usual] : kOfTransports) names.emplace_back(name);
      for (const config::Service& service : config.master())
        for (const config::TransportSuffix& suffix : config::transport_suffixes())
          if (has(service, suffix)) names.push_back(service.name + std::string(suffix.suffix));
    }
    if (!o.defaults)
      for (const std::string& name : config.names_set())
        if (config::find_row(name) ? o.set_only && wanted(Listing::Class::builtin) : wanted(class_of(config, name)))
          names.push_back(name);
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
  } else if (o.set_only) {
    std::erase_if(names, [&](const std::string& name) { return !config.where(name); });
  }
  for (const std::string& name : names) {
    const auto value = value_of(config, o, name, status);
    if (value) show(o, name, *value);
  }
  for (const config::Problem& p : config.report())
    if (p.severity == config::Severity::error ||
        (!o.quiet && p.severity == config::Severity::warning && p.text.starts_with("no setting has")))
      warn(p.message());
  return status;
}

int show_services(const config::Config& config, const Listing& o, const std::vector<std::string>& selectors) {
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
    const Selector wanted = parse_selector(name);
    if (o.of == Listing::Of::columns && std::ranges::none_of(config::kColumnNames, [&](const std::string& column) {
          return fits(wanted.name, column);
        })) {
      warn(name + ": no such column");
      return EX_USAGE;
    }
    if (!show_fitting(wanted)) warn(name + ": no such service");
  }
  return EX_OK;
}

int show_words(std::vector<std::string_view> words) {
  for (const std::string_view word : words) print(std::string(word) + "\n");
  return EX_OK;
}

int show_table_types() {
  auto types = map::known_types();
  types.push_back("proxy");  // may stand before any other
  std::ranges::sort(types);
  for (const std::string_view type : types) print(std::string(type) + "\n");
  return EX_OK;
}

}  // namespace pen::tools
