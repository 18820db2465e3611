#pragma once
/// The directory in which a command begins that no setting gives one.
///
/// Source:  Postfix: its daemons work in queue_directory, and so do the commands that they run.
#include <string>

namespace pen::mailbox {

/// queue_directory if every account can enter it, or, where this process is not root's, this one can; else "/", as for
/// an instance in somebody's home directory.
std::string start_directory(const std::string& queue_directory);

}  // namespace pen::mailbox
