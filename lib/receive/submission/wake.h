#pragma once
/// Wakes pickup: there is something in maildrop.
///
/// Errors do not matter, because pickup also looks by itself at intervals. Does not wait.
#include <string>

namespace pen::submission {

void wake_pickup(const std::string& queue_directory);

}  // namespace pen::submission
