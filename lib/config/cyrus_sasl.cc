#include "lib/config/cyrus_sasl.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/config/main_cf.h"

namespace pen::config {

namespace {

bool asks(const Settings& settings, std::string_view type) {
  return settings.smtpd_sasl_auth_enable && iequals(settings.smtpd_sasl_type, type);
}

/// What the smtpd services with that type have in smtpd_sasl_path.
std::vector<std::string> paths_of(const Config& config, std::string_view type) {
  std::vector<std::string> names;
  for (const Service& service : config.master()) {
    if (service.command != "smtpd" || service.type == ServiceType::pass) continue;
    const Config own = service.overrides.empty() ? config : config.with(service);
    const std::string& name = own.settings().smtpd_sasl_path;
    if (asks(own.settings(), type) && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

constexpr std::string_view kCyrus = "cyrus", kTable = "table";

}  // namespace

bool asks_cyrus(const Settings& settings) { return asks(settings, kCyrus); }
bool asks_login_program(const Settings& settings) { return asks(settings, kCyrus) || asks(settings, kTable); }

bool asks_tokens(const Settings& settings) { return asks(settings, "token"); }

std::optional<std::string> cyrus_socket(const Config& config) {
  for (const Service& service : config.master())
    if (service.type == ServiceType::unix_stream && service.command == kCyrusProgram)
      return (service.is_private ? "private/" : "public/") + service.name;
  return std::nullopt;
}

std::string cyrus_line(const std::vector<Service>& services) {
  const bool taken = std::ranges::any_of(
      services, [](const Service& s) { return s.type == ServiceType::unix_stream && s.name == kCyrusProgram; });
  return std::string(taken ? "cyrus-sasl" : "cyrus") + " unix - - n - - " + kCyrusProgram;
}

std::vector<std::string> cyrus_applications(const Config& config) { return paths_of(config, kCyrus); }
std::vector<std::string> login_tables(const Config& config) { return paths_of(config, kTable); }

std::vector<std::string> cyrus_option_files(const Config& config, const std::string& application) {
  std::string path = config.settings().cyrus_sasl_config_path;
  if (trim(path).empty())
    path = config.expand(find_row("cyrus_sasl_config_path")->default_text).value_or(std::string());
  std::vector<std::string> files;
  for (const std::string_view part : split(path, ":")) {
    std::string_view directory = trim(part);
    while (directory.size() > 1 && directory.ends_with('/')) directory.remove_suffix(1);
    if (directory.starts_with('/')) files.push_back(std::string(directory) + "/" + application + ".conf");
  }
  return files;
}

Result<CyrusOptions> CyrusOptions::parse(std::string_view text) {
  CyrusOptions options;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#')) continue;
    std::string name;
    while (!line.empty() && (ascii_alnum(line.front()) || line.front() == '-' || line.front() == '_')) {
      name += ascii_lower(line.front());
      line.remove_prefix(1);
    }
    const bool named = line.starts_with(':');
    if (named) line = trim(line.substr(1));
    if (!named || line.empty())
      return fail(ConfigError::bad_syntax, "line " + std::to_string(number) + ": \"name: value\" is expected");
    options.all_.emplace_back(std::move(name), line);
  }
  return options;
}

const std::string* CyrusOptions::value(std::string_view name) const {
  const auto found = std::ranges::find(all_, name, &std::pair<std::string, std::string>::first);
  return found == all_.end() ? nullptr : &found->second;
}

CyrusNeeds cyrus_needs(const CyrusOptions& options) {
  const auto words = [&](const char* name, std::string_view usual) {
    const std::string* value = options.value(name);
    return split(value == nullptr ? usual : std::string_view(*value));
  };
  const auto has = [](const auto& list, std::string_view wanted) {
    return std::ranges::any_of(list, [&](std::string_view word) { return iequals(word, wanted); });
  };
  CyrusNeeds needs;
  const auto checks = words("pwcheck_method", "auxprop");
  if (has(checks, "saslauthd")) {
    const std::string* path = options.value("saslauthd_path");
    needs.saslauthd = path == nullptr ? kSaslauthdSocket : *path;
  }
  const auto mechanisms = words("mech_list", ""), plugins = words("auxprop_plugin", "");
  const bool challenges = mechanisms.empty() || std::ranges::any_of(mechanisms, [](std::string_view name) {
                            return !iequals(name, "PLAIN") && !iequals(name, "LOGIN");
                          });
  const bool looks_up = has(checks, "auxprop") || has(checks, "auxprop-hashed") || challenges;
  needs.sasldb_named = looks_up && has(plugins, "sasldb");
  if (looks_up && (plugins.empty() || needs.sasldb_named)) {
    const std::string* path = options.value("sasldb_path");
    needs.sasldb = path == nullptr ? kSasldbFile : *path;
  }
  return needs;
}

std::string below_postfix(const std::string& path) { return "/var/spool/postfix" + path; }

}  // namespace pen::config
