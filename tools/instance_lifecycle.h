#pragma once
/// Makes and deletes further instances of a host, and changes which ones the first instance knows: what postmulti -e
/// does.
///
/// Use:     return change_instances(first, {.action = Lifecycle::Action::create, .new_name = "penstock-out"});
/// Names:   an instance "penstock-out" or "postfix-out" has its configuration in a directory of that name beside the
///          first instance's; another name N, in penstock-N, as penstock@N.service expects. So its queue and its data.
/// Made:    configuration of the first instance's files as shipped, or of another instance (clone); not enabled,
///          without inet services and without users who may submit, until it is set up: it can do no harm.
/// Order:   the files of an instance are there before the list names it, and are deleted after the list forgot it. What
///          was broken off is done by a repeat.
/// Deleted: only what lies in a directory of the instance's name; the rest is named and left.
/// Errors:  reported; returns EX_USAGE, EX_CONFIG, EX_CANTCREAT, EX_UNAVAILABLE (it runs, or its queue is not empty).
/// Rights:  root, or the user who owns all directories.
#include <string>
#include <vector>

#include "tools/instances.h"

namespace pen::tools {

struct Lifecycle {
  enum class Action { none, init, create, import, destroy, deport, assign, enable, disable };
  Action action = Action::none;
  InstanceChoice choice;            // which one; create: the one with the configuration that is taken
  std::string new_name, new_group;  // -I, -G; "-": none
  bool sets_name = false, sets_group = false;
  std::vector<std::string> settings;  // name=value: create; import: config_directory=DIR
};

int change_instances(const config::Config& first, const Lifecycle& what);

/// Whether an instance can have this name. Pure.
bool good_instance_name(const std::string& name);
/// "penstock-out" for "out"; names that begin with penstock- and postfix- as they are. Pure.
std::string directory_name(const std::string& instance_name);

}  // namespace pen::tools
