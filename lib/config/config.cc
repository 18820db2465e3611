#include "lib/config/config.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/rate.h"
#include "lib/base/tcp_port.h"
#include "lib/base/text.h"
#include "lib/base/tls_log_level.h"
#include "lib/base/version.h"
#include "lib/config/compatibility.h"
#include "lib/config/expand.h"
#include "lib/config/networks.h"
#include "lib/config/values.h"

namespace pen::config {
namespace {

/// What $name stands for in another setting. In one that is not expanded itself, such as smtpd_expansion_filter, each $
/// is a dollar sign.
std::optional<std::string> operand(std::string_view name, std::optional<std::string> value) {
  const Row* row = value ? find_row(name) : nullptr;
  if (row == nullptr || row->kind != Class::acts || row->type != Type::raw) return value;
  std::string plain;
  for (const char c : *value) plain.append(c == '$' ? 2 : 1, c);
  return plain;
}

constexpr TransportSuffix kSuffixes[] = {
    {"_destination_concurrency_limit", "default_destination_concurrency_limit", true},
    {"_initial_destination_concurrency", "initial_destination_concurrency", true},
    {"_destination_recipient_limit", "default_destination_recipient_limit", true},
    {"_destination_rate_delay", "default_destination_rate_delay", true},
    {"_destination_rate_limit", "default_destination_rate_limit", true},
    {"_destination_concurrency_failed_cohort_limit", "default_destination_concurrency_failed_cohort_limit", false},
    {"_destination_concurrency_positive_feedback", "default_destination_concurrency_positive_feedback", false},
    {"_destination_concurrency_negative_feedback", "default_destination_concurrency_negative_feedback", false},
    {"_transport_rate_delay", "default_transport_rate_delay", true},
    {"_delivery_slot_cost", "default_delivery_slot_cost", false},
    {"_delivery_slot_discount", "default_delivery_slot_discount", false},
    {"_delivery_slot_loan", "default_delivery_slot_loan", false},
    {"_minimum_delivery_slots", "default_minimum_delivery_slots", false},
    {"_recipient_refill_limit", "default_recipient_refill_limit", false},
    {"_recipient_refill_delay", "default_recipient_refill_delay", false},
    {"_extra_recipient_limit", "default_extra_recipient_limit", false},
    {"_recipient_limit", "default_recipient_limit", false},
    {"_time_limit", "command_time_limit", true},  // of pipe and spawn
};

// Postfix's own defaults for single transports; all other settings fall back to default_….
constexpr std::pair<std::string_view, std::string_view> kTransportDefaults[] = {
    {"local_destination_concurrency_limit", "2"},
    {"local_destination_recipient_limit", "1"},
};

// Below it stand reply codes, prefix lengths, levels and percentages, where a larger number is a mistake. A larger
// amount counts as the largest: Postfix knows no limit for most of them, and a host must not stop because of it.
constexpr std::int64_t kLeastOfAmounts = 1000;
constexpr std::int64_t kPorts = 65535;
constexpr const char* kLargest = ", the largest value here";

/// Parses the text of a setting into its field; returns the error text, or empty.
struct Parser {
  const Row& row;

  std::string bounds(std::int64_t value, std::string_view unit) const {
    if (row.min == 0 && row.max == 0) return {};
    if (value < row.min) return "the value must be at least " + std::to_string(row.min) + std::string(unit);
    if (value > row.max) return "the value must be at most " + std::to_string(row.max) + std::string(unit);
    return {};
  }
  /// Set where another value than the one written counts, as in Postfix: the largest one for a larger amount, and of
  /// a time the number and the letter behind it.
  std::string taken_as;
  std::string parse(std::string_view in, std::string& out) const {
    out = in;
    return {};
  }
  std::string parse(std::string_view in, std::vector<std::string>& out) const {
    out = split_list(in);
    return {};
  }
  std::string parse(std::string_view in, bool& out) const {
    const auto value = parse_bool(in);
    if (!value) return shown(in) + " is neither yes nor no";
    out = *value;
    return {};
  }
  std::string parse(std::string_view in, int& out) {
    if (row.name.ends_with("_tls_loglevel")) {
      const TlsLogLevel level = split_tls_log_level(in);
      if (level.trace)
        taken_as = shown(in) + " is taken as " + std::string(level.level) + ": sessions are not traced here";
      in = level.level;
    }
    const auto value = parse_integer(in);
    if (!value || !std::in_range<int>(*value)) return shown(in) + " is not a number";
    out = static_cast<int>(*value);
    if (row.max >= kLeastOfAmounts && row.max != kPorts && *value > row.max) {
      out = static_cast<int>(row.max);
      taken_as = "taken as " + std::to_string(row.max) + kLargest;
    }
    return bounds(out, "");
  }
  std::string parse(std::string_view in, std::int64_t& out) {
    const auto value = parse_size(in);
    if (!value) return shown(in) + " is not a number of bytes (k, m, g may follow it)";
    out = *value;
    if (row.max != 0 && *value > row.max) {
      out = row.max;
      taken_as = "taken as " + std::to_string(row.max) + " bytes" + kLargest;
    }
    return bounds(out, " bytes");
  }
  std::string parse(std::string_view in, std::chrono::milliseconds& out) {
    const auto value = parse_time(in, time_unit(row.default_text));
    if (!value) return shown(in) + " is not a time: a number with s, m, h, d or w";
    out = *value;
    taken_as = time_taken_as(in);
    if (row.min == 0 && row.max == 0) return {};
    // A lower bound of one second only excludes zero: tests set milliseconds.
    if (out.count() == 0 && row.min > 0) return "the value must not be 0";
    if (std::chrono::duration_cast<std::chrono::seconds>(out).count() > row.max) {
      out = std::chrono::seconds(row.max);
      taken_as = "taken as " + std::to_string(row.max) + "s" + kLargest;
    }
    return {};
  }
  template <class Enum>
    requires std::is_enum_v<Enum>
  std::string parse(std::string_view in, Enum& out) const {
    const auto value = parse_choice(trim(in), Enum{});
    if (!value) return shown(in) + " is none of: " + std::string(row.words);
    out = *value;
    return {};
  }
  /// What to say of a time with more behind its letter; else empty.
  static std::string time_taken_as(std::string_view in) {
    const std::size_t letter = in.find_first_not_of("0123456789");
    if (letter == std::string_view::npos || letter + 1 == in.size() || iequals(in.substr(letter), "ms")) return {};
    return shown(in) + " is taken as " + std::string(in.substr(0, letter + 1)) + ", as in Postfix";
  }
  static std::string shown(std::string_view in) { return "\"" + printable(in, 80) + "\""; }
};

}  // namespace

std::span<const TransportSuffix> transport_suffixes() { return kSuffixes; }

std::optional<TransportName> split_transport_name(std::string_view name) {
  const TransportSuffix* best = nullptr;  // the longest suffix: _recipient_limit ends three of them
  for (const auto& candidate : kSuffixes)
    if (name.size() > candidate.suffix.size() && name.ends_with(candidate.suffix) &&
        (!best || candidate.suffix.size() > best->suffix.size()))
      best = &candidate;
  if (!best) return std::nullopt;
  return TransportName{name.substr(0, name.size() - best->suffix.size()), best};
}

Config Config::parse(Sources sources, const Surroundings& surroundings) {
  Config config;
  config.sources_ = std::move(sources);
  config.surroundings_ = surroundings;
  config.read();
  config.derive();
  config.fill();
  config.check_transports();
  sort_problems(config.problems_);
  return config;
}

void Config::complain(std::string_view name, std::string what, Severity severity) {
  const auto place = where(name);
  problems_.push_back(
      {severity, place ? place->file : std::string(), place ? place->line : 0, std::string(name), std::move(what)});
}

void Config::read() {
  for (Assignment& a : parse_main_cf(sources_.main_cf, main_file(), problems_)) {
    const auto [at, fresh] = entries_.try_emplace(a.name);
    if (fresh) {
      names_.push_back(a.name);
    } else {
      problems_.push_back({Severity::warning, main_file(), a.line, a.name,
                           "it is set in line " + std::to_string(at->second.line) + " already; this value is used"});
    }
    at->second = {std::move(a.value), a.line, false};
  }
  for (const Override& o : sources_.overrides) {
    const auto [at, fresh] = entries_.try_emplace(o.name);
    if (fresh) names_.push_back(o.name);
    at->second = {o.value, 0, true};
  }
  services_ = parse_master_cf(sources_.master_cf, master_file(), problems_);
  const auto handed_to = [this](const Service& s) { return own_setting(s, "smtpd_service_name").value_or("smtpd"); };
  adapt_services(services_, handed_to, master_file(), problems_);
}

void Config::derive() {
  derived_["config_directory"] = sources_.directory;
  derived_["install_prefix"] = surroundings_.install_prefix;
  derived_["software_version"] = version();
  // The host's name needs a domain, and the domain is the rest of the host's name: each is derived from the one that
  // is set.
  const auto set = [this](std::string_view name) { return entries_.contains(name) ? text(name).value_or("") : ""; };
  std::string host = set("myhostname"), domain = set("mydomain");
  if (host.empty()) {
    host = surroundings_.hostname.empty() ? "localhost" : surroundings_.hostname;
    if (host.find('.') == std::string::npos) host += "." + (domain.empty() ? "localdomain" : domain);
    derived_["myhostname"] = host;
  }
  if (domain.empty()) {
    const std::size_t dot = host.find('.');
    derived_["mydomain"] = dot == std::string::npos || dot + 1 == host.size() ? "localdomain" : host.substr(dot + 1);
  }
  find_programs();
  if (std::string origin = text("myorigin").value_or(""); origin.starts_with('/')) read_origin(origin);
  if (entries_.contains("mynetworks")) return;
  const auto style = parse_choice(trim(text("mynetworks_style").value_or("")), NetworksStyle{});
  derived_["mynetworks"] = own_networks(surroundings_.interfaces, style.value_or(NetworksStyle::host),
                                        split_list(text("inet_interfaces").value_or("all")),
                                        split_list(text("inet_protocols").value_or("all")));
}

void Config::find_programs() {
  if (!surroundings_.programs.empty()) derived_["daemon_directory"] = surroundings_.programs;
  const auto set = text("daemon_directory");
  if (!where("daemon_directory") || !set || !surroundings_.holds_programs) return;
  const auto holds = surroundings_.holds_programs(*set);
  if (holds && *holds) return;
  std::string own = surroundings_.programs;
  if (own.empty()) own = expand(find_row("daemon_directory")->default_text).value_or("");
  complain(
      "daemon_directory",
      (holds ? *set + " holds no program of Penstock" : *set + " cannot be looked into: " + holds.error().message()) +
          ": passed over, the programs in " + own + " are run; take the line out of main.cf",
      Severity::warning);
  resolved_["daemon_directory"] = std::move(own);
}

void Config::read_origin(const std::string& path) {
  if (!surroundings_.read_file) return complain("myorigin", "a file name cannot be used here");
  const auto content = surroundings_.read_file(path);
  if (!content) return complain("myorigin", content.error().message());
  const std::string_view first = trim(std::string_view(*content).substr(0, content->find('\n')));
  if (first.empty()) return complain("myorigin", "the first line of " + path + " is empty");
  resolved_["myorigin"] = first;
}

std::optional<std::string> Config::transport_default(std::string_view name) const {
  for (const auto& [known, value] : kTransportDefaults)
    if (known == name) return std::string(value);
  const auto split = split_transport_name(name);
  if (!split) return std::nullopt;
  const bool exists = std::ranges::any_of(
      services_, [&](const Service& s) { return s.name == split->transport && s.type != ServiceType::inet; });
  if (!exists) return std::nullopt;
  return "$" + std::string(split->suffix->fallback);
}

std::optional<std::string> Config::unexpanded(std::string_view name) const {
  if (const auto resolved = resolved_.find(name); resolved != resolved_.end()) return resolved->second;
  return written(name);
}

std::optional<std::string> Config::written(std::string_view name) const {
  if (const auto entry = entries_.find(name); entry != entries_.end()) {
    // An empty host or domain name counts as none.
    if (!entry->second.value.empty() || !derived_.contains(name)) return entry->second.value;
  }
  if (const auto derived = derived_.find(name); derived != derived_.end()) return derived->second;
  if (const Row* row = find_row(name)) return std::string(row->default_text);
  return transport_default(name);
}

std::optional<std::string> Config::text(std::string_view name) const {
  const auto raw = unexpanded(name);
  if (!raw) return std::nullopt;
  auto value = config::expand(*raw, [this](std::string_view n) { return operand(n, unexpanded(n)); });
  if (!value.error.empty()) return std::nullopt;
  return std::string(trim(value.text));
}

std::optional<std::vector<std::string>> Config::list(std::string_view name) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  return split_list(*value);
}

std::optional<Place> Config::where(std::string_view name) const {
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return std::nullopt;
  if (entry->second.command_line) return Place{};
  return Place{main_file(), entry->second.line};
}

Result<std::string> Config::expand(std::string_view in) const {
  auto value = config::expand(in, [this](std::string_view n) { return operand(n, unexpanded(n)); });
  if (!value.error.empty()) return fail(ConfigError::bad_syntax, value.error);
  return std::move(value.text);
}

void Config::fill() {
  const auto each = [this](std::string_view name, auto& field, bool expanded) {
    const Row* row = find_row(name);
    const auto raw = unexpanded(name);
    std::string value = raw.value_or("");
    if (expanded) {
      auto done = config::expand(value, [this](std::string_view n) { return operand(n, unexpanded(n)); });
      if (!done.error.empty()) return complain(name, std::move(done.error));
      value = trim(done.text);
    }
    Parser parser{*row, {}};
    if (auto error = parser.parse(value, field); !error.empty()) complain(name, std::move(error));
    if (!parser.taken_as.empty()) complain(name, std::move(parser.taken_as), Severity::warning);
  };
#define PEN_TEXT_OF(names, f, ...) each(PEN_NAME(f), PEN_FIELDS.f, true);
#define PEN_NAMED_TEXT(f, name, ...) each(name, settings_.f, true);
#define PEN_RAW(f, ...) each(PEN_NAME(f), PEN_FIELDS.f, false);
#define PEN_LIST_OF(names, f, ...) each(PEN_NAME(f), PEN_FIELDS.f, true);
#define PEN_BOOL(f, ...) each(PEN_NAME(f), PEN_FIELDS.f, true);
#define PEN_INT(f, ...) each(PEN_NAME(f), PEN_FIELDS.f, true);
#define PEN_SIZE(f, ...) each(PEN_NAME(f), PEN_FIELDS.f, true);
#define PEN_TIME(f, ...) each(PEN_NAME(f), PEN_FIELDS.f, true);
#define PEN_CHOICE(type, f, ...) each(PEN_NAME(f), PEN_FIELDS.f, true);
#define PEN_ACCEPTED(...)
#define PEN_UNSUPPORTED(...)
#define PEN_OBSOLETE(...)
#define PEN_NAME(f) "smtp_" #f
#define PEN_FIELDS settings_.smtp
#include "lib/config/params_client.def"
#undef PEN_NAME
#undef PEN_FIELDS
#define PEN_NAME(f) "lmtp_" #f
#define PEN_FIELDS settings_.lmtp
#include "lib/config/params_client.def"
#undef PEN_NAME
#undef PEN_FIELDS
#define PEN_NAME(f) #f
#define PEN_FIELDS settings_
#include "lib/config/params.def"
#undef PEN_NAME
#undef PEN_FIELDS
  check_values();
  move_to_causes();
}

void Config::check_values() {
  if (const auto ports = parse_tcp_ports(settings_.known_tcp_ports); !ports)
    complain("known_tcp_ports", Parser::shown(ports.error()) + " is not name=port");
  const std::string& log = settings_.maillog_file;
  const auto covers = [&](const std::string& prefix) {
    return log.starts_with(prefix) &&
           (prefix.ends_with('/') || log.size() == prefix.size() || log[prefix.size()] == '/');
  };
  if (!log.empty() && std::ranges::none_of(settings_.maillog_file_prefixes, covers))
    complain("maillog_file", Parser::shown(log) + " begins with none of maillog_file_prefixes");

  const auto level = text("compatibility_level").value_or("");
  if (!compare_levels(level, "1"))
    complain("compatibility_level", Parser::shown(level) + " is no such level as 2 or 3.6");
}

/// What is wrong with a default because of another setting belongs to that setting, and is said of it once.
void Config::move_to_causes() {
  constexpr int kMostSteps = 10;
  const auto cause_of = [this](const auto& self, std::string_view name, int steps) -> std::string {
    if (entries_.contains(name)) return std::string(name);
    const Row* row = steps == 0 ? nullptr : find_row(name);
    if (row != nullptr)
      for (const NameUse& use : names_in(row->default_text))
        if (std::string found = self(self, use.name, steps - 1); !found.empty()) return found;
    return {};
  };
  const auto cause = [&](const Problem& p) {
    return entries_.contains(p.name) ? std::string() : cause_of(cause_of, p.name, kMostSteps);
  };
  std::set<std::string, std::less<>> wrong;
  for (const Problem& p : problems_)
    if (p.severity == Severity::error && entries_.contains(p.name)) wrong.insert(p.name);
  std::erase_if(problems_, [&](const Problem& p) { return wrong.contains(cause(p)); });
  for (Problem& p : problems_) {
    const std::string name = cause(p);
    if (name.empty()) continue;
    const Place place = where(name).value_or(Place{});
    p.file = place.file;
    p.line = place.line;
    p.text = "$" + name + " is its value: " + p.text;
  }
}

void Config::check_transports() {
  for (const auto& [name, entry] : entries_) {
    const auto split = split_transport_name(name);
    const bool rates = name.ends_with("_destination_rate_limit");
    if (!split || !split->suffix->acts || (find_row(name) && !rates)) continue;
    const auto raw = expand(entry.value);
    if (!raw) {
      complain(name, raw.error().context());
    } else if (rates) {
      if (trim(*raw).empty()) continue;
      if (const auto known = parse_rates(*raw); !known) complain(name, Parser::shown(*raw) + " " + known.error());
    } else {
      const bool time = split->suffix->suffix.ends_with("_delay") || split->suffix->suffix == "_time_limit";
      if (time ? !parse_time(*raw, 's') : !parse_unsigned(*raw))
        complain(name, Parser::shown(*raw) + " is not a " + (time ? "time" : "number"));
      else if (std::string said = time ? Parser::time_taken_as(*raw) : ""; !said.empty())
        complain(name, std::move(said), Severity::warning);
    }
  }
}

std::optional<std::string> Config::lookup_transport(std::string_view transport, std::string_view suffix) const {
  const std::string name = std::string(transport) + "_" + std::string(suffix);
  if (auto value = text(name)) return value;
  const auto split = split_transport_name(name);
  return split ? text(split->suffix->fallback) : std::nullopt;
}

TransportSettings Config::transport(std::string_view transport) const {
  const auto number = [&](std::string_view suffix) {
    const auto value = parse_unsigned(lookup_transport(transport, suffix).value_or(""));
    return static_cast<int>(std::min<unsigned long long>(value.value_or(0), 1'000'000));
  };
  TransportSettings result;
  result.destination_concurrency_limit = number("destination_concurrency_limit");
  result.initial_destination_concurrency = std::max(1, number("initial_destination_concurrency"));
  result.destination_recipient_limit = number("destination_recipient_limit");
  const Service* service = find_service(transport, ServiceType::unix_stream);
  if (service && one_recipient_only(*service)) result.destination_recipient_limit = 1;
  result.destination_rate_delay = parse_time(lookup_transport(transport, "destination_rate_delay").value_or(""), 's')
                                      .value_or(std::chrono::milliseconds{});
  return result;
}

const Service* Config::find_service(std::string_view name, ServiceType type) const {
  const auto found =
      std::ranges::find_if(services_, [&](const Service& s) { return s.name == name && s.type == type; });
  return found == services_.end() ? nullptr : &*found;
}

Config Config::with(const std::vector<Override>& overrides) const {
  Sources sources = sources_;
  sources.overrides.insert(sources.overrides.end(), overrides.begin(), overrides.end());
  return parse(std::move(sources), surroundings_);
}

std::optional<std::string> Config::own_setting(const Service& service, std::string_view name) const {
  const Assignment* own = nullptr;
  for (const Assignment& a : service.overrides) {
    if (a.name == name) own = &a;  // the last one counts
  }
  if (own == nullptr) return text(name);
  const auto expanded = expand(own->value);
  return expanded ? std::optional(std::string(trim(*expanded))) : std::nullopt;
}

std::vector<Override> Config::overrides(const Service& service) const {
  std::vector<Override> all;
  for (const Assignment& a : service.overrides) all.push_back({a.name, a.value});
  if (!takes_mail_in(service)) return all;
  const auto name = own_setting(service, "cleanup_service_name");
  const Service* cleanup = name ? find_service(*name, ServiceType::unix_stream) : nullptr;
  if (cleanup == nullptr || cleanup->command != "cleanup") return all;
  for (const Assignment& a : cleanup->overrides) {
    if (std::ranges::binary_search(cleanup_settings(), a.name)) all.push_back({a.name, a.value});
    if (a.name == "recipient_delimiter") all.push_back({std::string(kCleanupDelimiter), a.value});
  }
  return all;
}

Config Config::with(const Service& service) const {
  std::vector<Override> all = overrides(service);
  all.insert(all.begin(), {"service_name", service.name});
  return with(all);
}

}  // namespace pen::config
