#pragma once
/// The instances of a host: the first one, whose main.cf lists the directories of the others in
/// multi_instance_directories, and those. What a command means for several of them, and where two are in each other's
/// way. docs/instances.md.
///
/// Use:     const auto all = list_instances(first);
///          const auto chosen = choose(all, {.group = "out"});                   // or why there are none
///          for (const Turn& turn : turns(*chosen, {"start"}, kinds_of(first.settings()))) … turn.words …
///          for (const auto& problem : conflicts(all)) …                         // penstock check
/// Pure:    choose() and turns(). list_instances() reads configurations; conflicts() looks names of hosts up, if
///          inet_interfaces or master.cf has some.
/// Errors:  an instance that cannot be read has a `fault`, and counts as not enabled.
/// Source:  postmulti(1), MULTI_INSTANCE_README.
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace pen::tools {

struct InstanceEntry {
  std::string directory;  // of main.cf
  std::string name, group;
  bool first = false;
  bool enabled = false;
  std::string fault;                     // why its configuration cannot be read
  std::optional<config::Config> config;  // unless there is a fault
};
/// The first instance, then the others in the order of the list. A directory that is named twice comes once.
std::vector<InstanceEntry> list_instances(const config::Config& first);

struct InstanceChoice {
  bool all = false;
  std::string group, name;  // name: also "-", the first one, or a directory
  bool reverse = false;
};
/// Errors: nothing fits, as a sentence.
std::expected<std::vector<const InstanceEntry*>, std::string> choose(const std::vector<InstanceEntry>& instances,
                                                                     const InstanceChoice& choice);

/// Which commands of penstock are of which kind: postmulti_start_commands and its like.
struct CommandKinds {
  std::vector<std::string> start, stop, control;
};
CommandKinds kinds_of(const config::Settings& settings);

/// What is done to one instance.
struct Turn {
  const InstanceEntry* instance = nullptr;
  std::vector<std::string> words;
};
/// A command of penstock for several instances. Start: an instance that is not enabled is checked instead. Stop: in
/// reverse order, and those that are not enabled are left out; so they are of control commands. Others go to all.
/// named: the one that was chosen by its name is meant, enabled or not, but for a start.
std::vector<Turn> turns(const std::vector<const InstanceEntry*>& chosen, const std::vector<std::string>& words,
                        const CommandKinds& kinds, bool named = false);

/// What instances share and must not: directories; names; and addresses where those that are enabled would listen.
std::vector<config::Problem> conflicts(const std::vector<InstanceEntry>& instances);

/// What a command of one instance finds in its environment, as NAME=value: MAIL_CONFIG and what postmulti -x sets.
std::vector<std::string> instance_environment(const InstanceEntry& instance);

}  // namespace pen::tools
