#pragma once
/// A process that runs the one command of its policy for one connection, and reports how the command ended: for spawn.
///
/// Process: becomes the policy's account before it starts anything. The command is a process group of its own with the
///          connection as standard input, output and error and no other descriptor, directory /, umask 077, and the
///          policy's environment; no shell. The connection blocks, as commands expect it.
/// Limit:   the policy's; then the group is killed. Processes that a command leaves behind when it ends by itself stay.
/// Safety:  the descriptor must be a connected stream socket. Nothing is read from it here.
/// Reports: one CommandEnd (request.h) over the control socket.
/// End:     with the command, or with the other end of the control socket: then the command is killed.
/// Source:  Postfix spawn(8).
#include "lib/base/fd.h"
#include "lib/send/mailbox/policy.h"

namespace pen::mailbox {

/// Must run in a process with one thread, for a request that the policy has not refused.
[[noreturn]] void serve_connection(int control, Fd connection, const Policy& policy);

}  // namespace pen::mailbox
