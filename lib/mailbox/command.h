#pragma once
/// Runs a command that reads a message on its standard input; blocking, as the current user. Runs in a worker
/// (worker.h).
///
/// Process: a process group of its own, killed as a whole at the time limit; standard input, and one pipe for standard
///          output and error; no other descriptor; the environment that is given and no more; umask 077.
/// Content: up to kWholeContent bytes are in hand before the command begins; of more, the command is killed before it
///          can see an end of input that is not the message's.
/// Stays:   what the command leaves running keeps its own pipes and gets nothing of a later message; it is not waited
///          for.
/// Status:  exit status 0 is delivered; others by sysexits.h, or by "D.S.N text" at the start of the output.
///          One that the time limit ends has failed for good (5.3.0): the next try would end so too.
/// Source:  Postfix local(8) EXTERNAL COMMAND DELIVERY, pipe(8); sysexits.h; RFC 3463.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "lib/mail/delivery_status.h"
#include "lib/mailbox/pipe_form.h"
#include "lib/mailbox/store.h"

namespace pen::mailbox {

class JobStream;

struct Command {
  std::string line;                      // as in an alias: by a shell if it holds more than words; or, when empty,
  std::vector<std::string> argv;         // executed as it is
  std::string shell;                     // words to put before `line` (local_command_shell)
  std::vector<std::string> environment;  // "NAME=value": all of it; PATH is looked at for the command
  std::string directory = "/";           // where it begins
  bool from_line = false;                // mbox's "From " line first
  // the status's text of success, followed by the output in ( ); "": names the command, and not the output
  std::string delivered = {};
  PipeRules form;
  /// For the log: the line, or the words of argv.
  std::string shown() const;
  PEN_FIELDS(line, argv, shell, environment, directory, from_line, delivered, form)
};

inline constexpr std::size_t kWholeContent = 1024 * 1024;
inline constexpr std::size_t kMaxOutput = 1000;  // of the command's output kept for the status

/// job: brings the content, message.size bytes; when it is called off, the command is killed with its group. From a
/// thread that lives as long as the command.
mail::DeliveryStatus run_command(const Command& command, const Message& message, JobStream& job,
                                 std::chrono::seconds limit);

/// What is executed: `line` split at white space where that is all there is to it, else by /bin/sh -c; with a shell,
/// its words and the line as one word. Pure.
std::vector<std::string> command_words(const Command& command);
/// The status for waitpid's answer and what the command wrote. Pure.
mail::DeliveryStatus command_status(const Command& command, int wait_status, std::string_view output);

}  // namespace pen::mailbox
