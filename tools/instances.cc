#include "tools/instances.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "lib/base/text.h"
#include "lib/suite/service/plan.h"
#include "lib/suite/service/setup.h"

namespace pen::tools {
namespace {

namespace fs = std::filesystem;

/// The name of a directory without links and dots, as far as it exists.
std::string real_name(const std::string& directory) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(directory, error);
  std::string name = error ? fs::path(directory).lexically_normal().string() : path.string();
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return name;
}

InstanceEntry entry_of(config::Config config, bool first) {
  InstanceEntry entry;
  const config::Settings& s = config.settings();
  entry.directory = config.directory();
  entry.name = s.multi_instance_name;
  entry.group = s.multi_instance_group;
  entry.first = first;
  entry.enabled = first || s.multi_instance_enable;
  entry.config = std::move(config);
  return entry;
}

std::string shown_name(const InstanceEntry& entry) { return entry.name.empty() ? entry.directory : entry.name; }

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::ranges::find(list, word) != list.end();
}

/// All addresses of one family.
bool any_address(const std::string& host) { return host == "0.0.0.0" || host == "::"; }
bool overlap(const async::SocketAddress& a, const async::SocketAddress& b) {
  if (a.port != b.port || a.is_ipv6() != b.is_ipv6()) return false;
  return a.host == b.host || any_address(a.host) || any_address(b.host);
}

struct Listener {
  const InstanceEntry* instance;
  std::string service;
  async::SocketAddress address;
};

void add_listeners(const InstanceEntry& instance, std::vector<Listener>& into) {
  const auto machine = service::real_machine(instance.config->settings().daemon_directory);
  for (const auto& planned : service::make_plan(*instance.config, machine).services) {
    for (const auto& address : planned.sockets)
      if (!address.is_unix()) into.push_back({&instance, planned.label, address});
  }
}

config::Problem error_of(const InstanceEntry& entry, std::string name, std::string text) {
  config::Problem problem{config::Severity::error, entry.config->main_file(), 0, std::move(name), std::move(text)};
  if (const auto where = entry.config->where(problem.name)) problem.line = where->line;
  return problem;
}

}  // namespace

std::vector<InstanceEntry> list_instances(const config::Config& first) {
  std::vector<InstanceEntry> all;
  all.push_back(entry_of(first, true));
  std::set<std::string> seen = {real_name(first.directory())};
  for (const std::string& directory : first.settings().multi_instance_directories) {
    if (!seen.insert(real_name(directory)).second) continue;
    auto config = config::inspect(directory);
    if (config) {
      all.push_back(entry_of(*std::move(config), false));
      continue;
    }
    InstanceEntry entry;
    entry.directory = directory;
    entry.fault = config.error().message();
    all.push_back(std::move(entry));
  }
  return all;
}

std::expected<std::vector<const InstanceEntry*>, std::string> choose(const std::vector<InstanceEntry>& instances,
                                                                     const InstanceChoice& choice) {
  std::vector<const InstanceEntry*> chosen;
  for (const InstanceEntry& entry : instances) {
    if (!choice.group.empty() && entry.group != choice.group) continue;
    if (!choice.name.empty()) {
      const bool is_it = choice.name == "-"             ? entry.first
                         : choice.name.starts_with('/') ? real_name(entry.directory) == real_name(choice.name)
                                                        : entry.name == choice.name;
      if (!is_it) continue;
    }
    chosen.push_back(&entry);
  }
  if (chosen.empty()) {
    if (!choice.name.empty()) return std::unexpected("no instance \"" + printable(choice.name) + "\"");
    return std::unexpected("no instance is in the group \"" + printable(choice.group) + "\"");
  }
  if (choice.reverse) std::ranges::reverse(chosen);
  return chosen;
}

CommandKinds kinds_of(const config::Settings& s) {
  return {s.postmulti_start_commands, s.postmulti_stop_commands, s.postmulti_control_commands};
}

std::vector<Turn> turns(const std::vector<const InstanceEntry*>& chosen, const std::vector<std::string>& words,
                        const CommandKinds& kinds, bool named) {
  std::vector<Turn> all;
  const std::string& command = words.front();
  const bool start = contains(kinds.start, command), stop = contains(kinds.stop, command);
  const bool control = contains(kinds.control, command);
  for (const InstanceEntry* entry : chosen) {
    if (!entry->enabled && !named && (stop || control)) continue;
    all.push_back({entry, !entry->enabled && start ? std::vector<std::string>{"check"} : words});
  }
  if (stop) std::ranges::reverse(all);
  return all;
}

std::vector<config::Problem> conflicts(const std::vector<InstanceEntry>& instances) {
  std::vector<config::Problem> found;
  std::map<std::string, std::pair<const InstanceEntry*, std::string>> owners;  // of directories
  std::map<std::string, const InstanceEntry*> names;
  std::vector<Listener> listeners;
  for (const InstanceEntry& entry : instances) {
    if (!entry.config) {
      found.push_back({config::Severity::error, entry.directory + "/main.cf", 0, {}, entry.fault});
      continue;
    }
    const config::Settings& s = entry.config->settings();
    if (instances.size() > 1 && !entry.first && entry.name.empty())
      found.push_back({config::Severity::warning, entry.config->main_file(), 0, "multi_instance_name",
                       "it has no name of its own, in the log and for penstock -i"});
    if (!entry.name.empty()) {
      const auto [known, fresh] = names.emplace(entry.name, &entry);
      if (!fresh)
        found.push_back(error_of(entry, "multi_instance_name",
                                 "the instance in " + known->second->directory + " has the same name"));
    }
    const std::pair<const char*, const std::string*> directories[] = {
        {"queue_directory", &s.queue_directory},
        {"data_directory", &s.data_directory},
        {"queue_log_directory", &s.queue_log_directory},
        {"spool_directory", &s.spool_directory},
    };
    for (const auto& [name, directory] : directories) {
      const auto [known, fresh] = owners.emplace(real_name(*directory), std::pair(&entry, std::string(name)));
      if (fresh || known->second.first == &entry) continue;
      found.push_back(error_of(entry, name,
                               *directory + " is also " + known->second.second + " of the instance " +
                                   shown_name(*known->second.first) + ": instances share programs and nothing else"));
    }
    std::vector<Listener> own;
    if (entry.enabled) add_listeners(entry, own);
    std::set<std::string> told;
    for (const Listener& mine : own) {
      for (const Listener& other : listeners) {
        if (!overlap(mine.address, other.address)) continue;
        std::string text = "service " + mine.service + " listens on " + mine.address.text() + ", where the instance " +
                           shown_name(*other.instance) + " has " + other.service;
        if (told.insert(text).second)
          found.push_back({config::Severity::error, entry.config->master_file(), 0, {}, std::move(text)});
      }
    }
    listeners.insert(listeners.end(), own.begin(), own.end());
  }
  return found;
}

std::vector<std::string> instance_environment(const InstanceEntry& instance) {
  std::vector<std::string> out = {"MAIL_CONFIG=" + instance.directory, "config_directory=" + instance.directory};
  if (!instance.config) return out;
  const config::Settings& s = instance.config->settings();
  out.push_back("queue_directory=" + s.queue_directory);
  out.push_back("data_directory=" + s.data_directory);
  out.push_back("command_directory=" + instance.config->text("command_directory").value_or(""));
  out.push_back("daemon_directory=" + instance.config->settings().daemon_directory);
  out.push_back("multi_instance_name=" + instance.name);
  out.push_back("multi_instance_group=" + instance.group);
  out.push_back(std::string("multi_instance_enable=") + (s.multi_instance_enable ? "yes" : "no"));
  return out;
}

}  // namespace pen::tools
