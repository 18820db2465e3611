#include "lib/suite/confine/secrets.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/config/key_process.h"

namespace pen::confine {
namespace {

using config::Names;

Names names_of(std::string_view setting) {
  const config::Row* row = config::find_row(setting);
  return row != nullptr ? config::names_of(*row) : Names::nothing;
}

/// What opendkim.conf names, with the files that it includes. The later line counts, as it does for the signer
/// (dkim::OpendkimConf; this library is below it).
struct OpendkimNames {
  std::string key_table, signing_table, key_file;

  void read(const Machine& machine, const std::string& file, int depth) {
    if (depth > Named::kMaxDepth) return;
    for (const std::string_view line : split(machine.read(file).value_or(""), "\r\n")) {
      const std::string_view text = trim(line.substr(0, line.find('#')));
      const std::size_t blank = text.find_first_of(" \t");
      if (blank == text.npos) continue;
      const std::string name = to_lower(text.substr(0, blank));
      const std::string value(split(text.substr(blank)).front());
      if (name == "include")
        read(machine, value.starts_with('/') ? value : file.substr(0, file.rfind('/') + 1) + value, depth + 1);
      else if (name == "keytable")
        key_table = value;
      else if (name == "signingtable")
        signing_table = value;
      else if (name == "keyfile")
        key_file = value;
    }
  }
};

/// A table as a file of OpenDKIM's; nullopt: one that is looked up.
std::optional<std::string> plain_file(std::string_view value) {
  for (const std::string_view prefix : {"file:", "refile:"})
    if (value.starts_with(prefix)) value.remove_prefix(prefix.size());
  if (!value.starts_with('/')) return std::nullopt;
  return std::string(value);
}

/// The files of DKIM keys; false: the signer reads them.
bool add_dkim(const config::Config& config, const Machine& machine, std::set<std::string>& out) {
  const config::Settings& s = config.settings();
  if (!s.dkim_signing && s.arc_seal_key.empty()) return true;
  std::string table = s.dkim_key_table;
  if (!s.dkim_opendkim_conf.empty()) {
    OpendkimNames names;
    names.read(machine, s.dkim_opendkim_conf, 0);
    // Without a table of senders the one key signs; a table of keys may have the one that seals.
    if (names.signing_table.empty() && names.key_file.starts_with('/')) out.insert(names.key_file);
    if (names.signing_table.empty() && (s.arc_seal_key.empty() || names.key_table.empty())) return true;
    table = names.key_table;
  }
  const auto file = plain_file(table);
  if (!file) return false;
  const std::string text = machine.read(*file).value_or("");
  if (text.contains('%') || text.size() >= Named::kMaxScanned) return false;
  Named named;
  add_named("dkim_key_table", table, machine, named);
  out.merge(named.paths);
  out.insert(*file);
  return true;
}

}  // namespace

bool names_keys(std::string_view setting) {
  const Names names = names_of(setting);
  return names == Names::keys || names == Names::certificates || names == Names::key_tables;
}
bool names_dkim_keys(std::string_view setting) { return setting == "dkim_key_table"; }

Secrets secrets_of(const config::Config& config, const Program& row, const Machine& machine) {
  Secrets out;
  if (row.name == config::kKeyProgram || !config::key_socket(config)) return out;
  out.tls = out.dkim = true;
  const auto add_from = [&](const config::Config& from) {
    for (const config::Row& setting : config::rows()) {
      if (setting.names != Names::keys && setting.names != Names::key_tables) continue;
      Named named;
      if (const auto value = from.text(setting.name)) add_named(setting.name, *value, machine, named);
      out.files.merge(named.paths);
    }
    std::set<std::string> dkim;
    if (add_dkim(from, machine, dkim))
      out.files.merge(dkim);
    else
      out.dkim = false;
  };
  add_from(config);
  for (const config::Service& service : config.master())
    if (std::ranges::any_of(service.overrides, [](const auto& o) {
          return names_keys(o.name) || o.name.starts_with("dkim_") || o.name == "arc_seal_key";
        }))
      add_from(config.with(service));
  for (const std::string& file : out.files)
    if (!machine.closed || !machine.closed(file)) out.hidden.insert(file);
  return out;
}

}  // namespace pen::confine
