#include "tools/instance_lifecycle.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "lib/base/text.h"
#include "lib/suite/service/running.h"
#include "tools/instance.h"
#include "tools/instance_control.h"
#include "tools/instance_master.h"
#include "tools/output.h"
#include "tools/queue_client.h"
#include "tools/settings_change.h"

namespace pen::tools {
namespace {

namespace fs = std::filesystem;
using Edits = std::vector<config::Edit>;
using Action = Lifecycle::Action;

constexpr std::size_t kMaxName = 64;

InstanceChoice by_name(const std::string& name) {
  InstanceChoice choice;
  choice.name = name;
  return choice;
}

config::Edit set(std::string name, std::string value) {
  return {config::Edit::Kind::set, std::move(name), std::move(value)};
}

/// The list of the first instance with one directory more or less.
int change_list(const config::Config& first, const std::string& directory, bool add) {
  std::vector<std::string> list = first.settings().multi_instance_directories;
  if (add == (std::ranges::find(list, directory) != list.end())) return EX_OK;
  if (add)
    list.push_back(directory);
  else
    std::erase(list, directory);
  return change_main_cf(first.directory(), {set("multi_instance_directories", join(list, " "))});
}

Edits name_and_group(const Lifecycle& what) {
  Edits edits;
  if (what.sets_name) edits.push_back(set("multi_instance_name", what.new_name == "-" ? "" : what.new_name));
  if (what.sets_group) edits.push_back(set("multi_instance_group", what.new_group == "-" ? "" : what.new_group));
  return edits;
}

/// Where a new instance goes.
struct Places {
  std::string etc, queue, data, log;
};
Places places_beside(const config::Config& first, const std::string& instance_name) {
  const std::string name = directory_name(instance_name);
  const auto parent = [](const std::string& path) { return fs::path(path).lexically_normal().parent_path(); };
  const config::Settings& s = first.settings();
  const fs::path etc = parent(first.directory()), queue = parent(s.queue_directory), data = parent(s.data_directory);
  if (etc != queue && etc != data && queue != data) return {etc / name, queue / name, data / name, {}};
  // As penstock init makes them: one directory for all.
  return {etc / name / "etc", etc / name / "spool", etc / name / "data", etc / name / "log"};
}

/// The setting in the words of the command line; removes it there.
std::string taken(std::vector<std::string>& words, const std::string& name) {
  std::string value;
  std::erase_if(words, [&](const std::string& word) {
    const auto equals = word.find('=');
    if (equals == std::string::npos || trim(std::string_view(word).substr(0, equals)) != name) return false;
    value = trim(std::string_view(word).substr(equals + 1));
    return true;
  });
  return value;
}

/// directories: leave out addresses, which are in the way of nobody while an instance is off.
std::string conflict_with(const config::Config& first, const InstanceEntry& added, bool directories = false) {
  auto all = list_instances(first);
  std::erase_if(all, [&](const InstanceEntry& e) { return e.directory == added.directory; });
  all.push_back(added);
  for (const auto& problem : conflicts(all))
    if (problem.severity == config::Severity::error && problem.file.starts_with(added.directory + "/") &&
        (!directories || problem.name.ends_with("_directory")))
      return problem.message();
  return {};
}

int copy_configuration(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return fail_with(EX_CANTCREAT, to.string() + ": " + error.message());
  if (fs::exists(to / "main.cf")) return fail_with(EX_CANTCREAT, to.string() + " holds an instance already");
  for (const auto& entry : fs::directory_iterator(from, error)) {
    // Tables and what they are made of as well; a link goes where it went.
    fs::copy(entry.path(), to / entry.path().filename(),
             fs::copy_options::recursive | fs::copy_options::copy_symlinks | fs::copy_options::skip_existing, error);
    struct stat st{};
    if (!error && ::lstat(entry.path().c_str(), &st) == 0 && ::geteuid() == 0 &&
        ::lchown((to / entry.path().filename()).c_str(), st.st_uid, st.st_gid) != 0)
      error = std::error_code(errno, std::generic_category());
    if (error) break;
  }
  if (error) return fail_with(EX_CANTCREAT, from.string() + ": " + error.message());
  return EX_OK;
}

int create(const config::Config& first, const Lifecycle& what) {
  if (!good_instance_name(what.new_name))
    return fail_with(EX_USAGE, "create needs -I NAME, of letters, digits, - and _");
  const auto all = list_instances(first);
  if (choose(all, by_name(what.new_name))) return fail_with(EX_USAGE, "there is an instance " + what.new_name);
  const InstanceEntry* source = &all.front();
  if (!what.choice.name.empty() || !what.choice.group.empty()) {
    const auto chosen = choose(all, what.choice);
    if (!chosen) return fail_with(EX_USAGE, chosen.error());
    source = chosen->front();
  }
  std::vector<std::string> words = what.settings;
  Places at = places_beside(first, what.new_name);
  for (auto [name, place] : {std::pair("config_directory", &at.etc), std::pair("queue_directory", &at.queue),
                             std::pair("data_directory", &at.data)})
    if (const std::string value = taken(words, name); !value.empty()) *place = value;
  if (!at.etc.starts_with('/') || !at.queue.starts_with('/') || !at.data.starts_with('/'))
    return fail_with(EX_USAGE, "directories are named from / on");
  if (const int status = copy_configuration(source->directory, at.etc); status != EX_OK) return status;
  Edits edits = {set("multi_instance_name", what.new_name),
                 set("multi_instance_group", what.sets_group && what.new_group != "-" ? what.new_group : ""),
                 set("multi_instance_enable", "no"),
                 set("queue_directory", at.queue),
                 set("data_directory", at.data),
                 set("master_service_disable", "inet"),
                 set("authorized_submit_users", "")};
  for (const char* name : {"multi_instance_directories", "multi_instance_wrapper", "syslog_name"})
    edits.push_back({config::Edit::Kind::remove, name, {}});
  // Places of their own only where the source's would be shared.
  for (const char* name : {"queue_log_directory", "spool_directory"})
    if (source->config && source->config->where(name)) edits.push_back({config::Edit::Kind::remove, name, {}});
  if (source->config && !source->config->settings().maillog_file.empty() && !at.log.empty()) {
    edits.push_back(set("maillog_file", at.log + "/mail.log"));
    edits.push_back(set("maillog_file_prefixes", at.log + ", /dev/stdout"));
  }
  if (!words.empty()) {
    const auto more = edits_of(SettingsChange::set, words);
    if (!more) return fail_with(EX_USAGE, more.error());
    edits.insert(edits.end(), more->begin(), more->end());
  }
  if (const int status = change_main_cf(at.etc, edits); status != EX_OK) return status;
  for (const std::string& directory : {at.queue, at.data, at.log}) {
    std::error_code error;
    if (!directory.empty()) fs::create_directories(directory, error);
    if (error) return fail_with(EX_CANTCREAT, directory + ": " + error.message());
  }
  InstanceEntry made;
  made.directory = at.etc;
  auto config = config::inspect(at.etc);
  if (!config) return fail_with(EX_CONFIG, config.error().message());
  made.name = what.new_name;
  made.config = *std::move(config);
  if (const std::string why = conflict_with(first, made); !why.empty()) return fail_with(EX_CONFIG, why);
  if (const int status = change_list(first, at.etc, true); status != EX_OK) return status;
  print(fmt::format("made the instance {} in {}: set it up, then: penstock multi -e enable -i {}\n", what.new_name,
                    at.etc, what.new_name));
  return EX_OK;
}

int import(const config::Config& first, Lifecycle what) {
  std::string directory = taken(what.settings, "config_directory");
  if (directory.empty() && good_instance_name(what.new_name)) directory = places_beside(first, what.new_name).etc;
  if (!directory.starts_with('/') || !what.settings.empty())
    return fail_with(EX_USAGE, "import needs config_directory=DIR, or -I NAME");
  auto config = config::inspect(directory);
  if (!config) return fail_with(EX_CONFIG, config.error().message());
  InstanceEntry entry;
  entry.directory = directory;
  entry.name = what.sets_name ? what.new_name : config->settings().multi_instance_name;
  entry.enabled = config->settings().multi_instance_enable;
  entry.config = *std::move(config);
  if (entry.name.empty()) return fail_with(EX_USAGE, "the instance has no name: give it one by -I NAME");
  if (!good_instance_name(entry.name)) return fail_with(EX_USAGE, "a name has letters, digits, - and _");
  const auto all = list_instances(first);
  const auto same = choose(all, by_name(entry.name));
  if (same && same->front()->directory != directory)
    return fail_with(EX_USAGE, "there is an instance " + entry.name + " in " + same->front()->directory);
  if (const std::string why = conflict_with(first, entry); !why.empty()) return fail_with(EX_CONFIG, why);
  if (const Edits edits = name_and_group(what); !edits.empty())
    if (const int status = change_main_cf(directory, edits); status != EX_OK) return status;
  return change_list(first, directory, true);
}

/// Why the instance must be left alone; EX_OK: it need not.
int must_be_off(const InstanceEntry& entry, const std::string& verb) {
  if (entry.first) return fail_with(EX_USAGE, "the first instance cannot be chosen for " + verb);
  if (entry.enabled)
    return fail_with(EX_UNAVAILABLE, "the instance " + entry.name + " is enabled: disable it before " + verb);
  if (!entry.config) return EX_OK;
  const auto runs = service::anything_runs(*entry.config);
  if (!runs) return cannot_tell(runs.error());
  if (*runs) return fail_with(EX_UNAVAILABLE, "the instance " + entry.name + " runs: stop it before " + verb);
  return EX_OK;
}

int destroy(const config::Config& first, const InstanceEntry& entry) {
  if (const int status = must_be_off(entry, "destroy"); status != EX_OK) return status;
  if (!entry.config) return fail_with(EX_CONFIG, entry.fault);
  const config::Settings& s = entry.config->settings();
  if (fs::exists(s.queue_log_directory)) {
    const auto done =
        QueueClient("penstock", *entry.config)
            .ask(
                ipc::queue::List{
                    .request = 1, .site = {}, .queue_id = {}, .queue_ids = {}, .filter = {}, .brief = true},
                [](auto&, auto&) {});
    if (done.outcome != ipc::queue::Outcome::ok && done.outcome != ipc::queue::Outcome::not_found)
      return fail_with(EX_UNAVAILABLE, "the queue cannot be read: " + done.text);
    if (done.count != 0)
      return fail_with(EX_UNAVAILABLE, fmt::format("there are {} messages in its queue ({}): nothing is deleted",
                                                   done.count, s.queue_directory));
  }
  if (const std::string why = conflict_with(first, entry, true); !why.empty())
    return fail_with(EX_CONFIG, why + ": nothing is deleted");
  if (const int status = change_list(first, entry.directory, false); status != EX_OK) return status;
  const std::string own_name = directory_name(entry.name);
  for (const std::string& directory :
       {s.queue_log_directory, s.spool_directory, s.queue_directory, s.data_directory, entry.directory}) {
    // What lies elsewhere may be anything, such as a directory that others use as well.
    const fs::path path = fs::path(directory).lexically_normal();
    if (std::ranges::find(path, fs::path(own_name)) == path.end()) {
      if (fs::exists(path)) print(fmt::format("{} is left: it is not in a directory {}\n", directory, own_name));
      continue;
    }
    std::error_code error;
    fs::remove_all(path, error);
    if (error) return fail_with(EX_OSERR, directory + ": " + error.message());
  }
  return EX_OK;
}

}  // namespace

bool good_instance_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxName && name.front() != '-' &&
         std::ranges::all_of(name, [](unsigned char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
         });
}

std::string directory_name(const std::string& instance_name) {
  if (instance_name.starts_with("penstock-") || instance_name.starts_with("postfix-")) return instance_name;
  return "penstock-" + instance_name;
}

int change_instances(const config::Config& first, const Lifecycle& what) {
  switch (what.action) {
    case Action::none:
      return fail_with(EX_USAGE, "nothing to do");
    case Action::init:
      return change_main_cf(first.directory(), {set("multi_instance_wrapper", "${command_directory}/postmulti -p --"),
                                                set("multi_instance_enable", "yes")});
    case Action::create:
      return create(first, what);
    case Action::import:
      return import(first, what);
    default:
      break;
  }
  if (what.choice.name.empty()) return fail_with(EX_USAGE, "which instance? -i NAME");
  const auto all = list_instances(first);
  const auto chosen = choose(all, what.choice);
  if (!chosen) return fail_with(EX_USAGE, chosen.error());
  const InstanceEntry& entry = *chosen->front();
  switch (what.action) {
    case Action::enable:
      if (entry.name.empty() && !entry.first) return fail_with(EX_USAGE, "an instance has a name before it is enabled");
      if (!entry.config) return fail_with(EX_CONFIG, entry.fault);
      if (InstanceEntry enabled = entry; !entry.first) {
        enabled.enabled = true;
        if (const std::string why = conflict_with(first, enabled); !why.empty()) return fail_with(EX_CONFIG, why);
      }
      return change_main_cf(entry.directory, {set("multi_instance_enable", "yes")});
    case Action::disable:
      if (entry.first) return fail_with(EX_USAGE, "the first instance is always enabled");
      return change_main_cf(entry.directory, {set("multi_instance_enable", "no")});
    case Action::assign: {
      const Edits edits = name_and_group(what);
      if (edits.empty()) return fail_with(EX_USAGE, "assign needs -I NAME or -G GROUP");
      if (what.sets_name && what.new_name != "-") {
        if (!good_instance_name(what.new_name)) return fail_with(EX_USAGE, "a name has letters, digits, - and _");
        const auto same = choose(all, by_name(what.new_name));
        if (same && same->front() != &entry) return fail_with(EX_USAGE, "there is an instance " + what.new_name);
      }
      return change_main_cf(entry.directory, edits);
    }
    case Action::deport:
      if (const int status = must_be_off(entry, "deport"); status != EX_OK) return status;
      return change_list(first, entry.directory, false);
    case Action::destroy:
      return destroy(first, entry);
    default:
      return EX_SOFTWARE;
  }
}

}  // namespace pen::tools
