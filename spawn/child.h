#pragma once
/// One command that serves one connection: started with the socket as standard input, output and error, and waited for.
///
/// Use:     Ending how = co_await run_command(loop, command, std::move(stream), seconds(1000));
/// Process: a process group of its own, the given account, environment and no other descriptors, directory /, umask
///          077; no shell. The socket blocks, as commands expect it.
/// Limit:   then the group is killed. Processes that a command leaves behind when it ends by itself stay.
/// Death:   of this program: the command is killed.
/// Thread:  the only one of the process, which forks.
/// Source:  Postfix spawn(8).
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lib/async/stream.h"
#include "lib/mailbox/work.h"

namespace pen::spawner {

struct Command {
  std::vector<std::string> argv, environment;  // "NAME=value"; PATH is used to find the command
  std::optional<mailbox::Identity> become;     // nullopt: ours
};

struct Ending {
  enum class Kind : std::uint8_t { exited, signalled, time_limit, not_started };
  Kind kind = Kind::exited;
  int code = 0;     // exit status or signal
  pid_t pid = -1;   // that it had
  std::string why;  // not_started
};

async::Task<Ending> run_command(async::Loop& loop, const Command& command, async::Stream socket,
                                std::chrono::seconds limit);

}  // namespace pen::spawner
