#pragma once
/// Runs commands for instances, one after the other, each in a process of its own with the instance's environment; and
/// lists instances.
///
/// Use:     return run_turns(turns(chosen, words, kinds));        // penstock -a CMD
///          return run_command(chosen, {"penqueue", "-p"});       // penstock -a -x CMD
/// Rules:   a command that fails does not keep the next instance from its own; the exit status is the first that was
///          not 0. Commands of Penstock are found beside this one, others by PATH.
/// Thread:  of a process that has no other: it forks.
#include <string>
#include <vector>

#include "tools/instances.h"

namespace pen::tools {

int run_turns(const std::vector<Turn>& turns);
int run_command(const std::vector<const InstanceEntry*>& chosen, const std::vector<std::string>& words);

/// name, group, y or n, directory, and with `running` whether it runs ("?": the user may not know). json: with
/// `running` one document, else a line each.
int print_instances(const std::vector<const InstanceEntry*>& chosen, bool running, bool json);

}  // namespace pen::tools
