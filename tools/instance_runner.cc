#include "tools/instance_runner.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/suite/service/running.h"
#include "tools/instance_control.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

namespace fs = std::filesystem;

std::string own_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).string();
}

/// A command that lies beside this one, else its name as it is.
std::string found_beside(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const fs::path beside = fs::path(own_program()).parent_path() / name;
  return ::access(beside.c_str(), X_OK) == 0 ? beside.string() : name;
}

int run(const InstanceEntry& instance, const std::string& program, const std::vector<std::string>& words) {
  std::fflush(nullptr);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  auto environment = instance_environment(instance);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_with(EX_OSERR, "fork: " + Error::from_errno(errno).message());
  if (pid == 0) {
    for (std::string& variable : environment) ::putenv(variable.data());
    ::execvp(program.c_str(), argv.data());
    fail_with(EX_UNAVAILABLE, program + ": " + Error::from_errno(errno).message());
    std::fflush(nullptr);
    ::_exit(EX_UNAVAILABLE);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return fail_with(EX_OSERR, "waitpid: " + Error::from_errno(errno).message());
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EX_SOFTWARE;
}

std::string title(const InstanceEntry& instance) {
  if (!instance.name.empty()) return instance.name + " (" + instance.directory + ")";
  return instance.directory;
}

/// "yes", "no", "?".
std::string runs(const InstanceEntry& instance) {
  if (!instance.config) return "?";
  const auto found = service::anything_runs(*instance.config);
  if (!found) return "?";
  return *found ? "yes" : "no";
}

}  // namespace

int run_turns(const std::vector<Turn>& turns) {
  int status = EX_OK;
  for (const Turn& turn : turns) {
    if (turns.size() > 1) print(title(*turn.instance) + ":\n");
    std::vector<std::string> words = {"penstock", "-c", turn.instance->directory};
    words.insert(words.end(), turn.words.begin(), turn.words.end());
    const int one = run(*turn.instance, own_program(), words);
    if (status == EX_OK) status = one;
  }
  return status;
}

int run_command(const std::vector<const InstanceEntry*>& chosen, const std::vector<std::string>& words) {
  const std::string program = found_beside(words.front());
  int status = EX_OK;
  for (const InstanceEntry* instance : chosen) {
    const int one = run(*instance, program, words);
    if (status == EX_OK) status = one;
  }
  return status;
}

int print_instances(const std::vector<const InstanceEntry*>& chosen, bool running, bool json) {
  const auto dash = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const InstanceEntry* instance : chosen) {
    if (!instance->fault.empty()) fail_with(EX_CONFIG, instance->directory + ": " + instance->fault);
    if (json && !running) {  // a line each with the members of postmulti of Postfix 3.11
      const nlohmann::ordered_json one = {{"name", dash(instance->name)},
                                          {"group", dash(instance->group)},
                                          {"enabled", instance->enabled ? "y" : "n"},
                                          {"config_directory", instance->directory}};
      print(one.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
      continue;
    }
    if (json) {
      nlohmann::ordered_json one;
      one["name"] = instance->name;
      one["group"] = instance->group;
      one["enabled"] = instance->enabled;
      one["directory"] = instance->directory;
      const std::string state = runs(*instance);
      if (state == "?")
        one["running"] = nullptr;
      else
        one["running"] = state == "yes";
      if (!instance->fault.empty()) one["fault"] = instance->fault;
      all.push_back(std::move(one));
      continue;
    }
    print(fmt::format("{:<15} {:<15} {:<9} {}{}\n", dash(instance->name), dash(instance->group),
                      instance->enabled ? "y" : "n", running ? fmt::format("{:<7} ", runs(*instance)) : "",
                      instance->directory));
  }
  if (json && running) print(all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  return EX_OK;
}

}  // namespace pen::tools
