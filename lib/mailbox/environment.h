#pragma once
/// What the commands of a delivery find of this process's environment.
#include <string>
#include <vector>

namespace pen::mailbox {

/// export_environment: "NAME" with its value in this process, if there is one, and "NAME=value" as it is.
std::vector<std::string> exported_environment(const std::vector<std::string>& words);

}  // namespace pen::mailbox
