#pragma once
/// The part of this process's environment that the commands of a delivery get.
#include <string>
#include <vector>

namespace pen::mailbox {

/// export_environment: "NAME" gives the variable with its value in this process, if it is set; "NAME=value" stays as
/// it is.
std::vector<std::string> exported_environment(const std::vector<std::string>& words);

}  // namespace pen::mailbox
