#pragma once
/// Runs a command that reads a message on its standard input. Blocks; runs as the current user, in a worker
/// (worker.h).
///
/// Process: a process group of its own, killed as a whole at the time limit; standard input, and one pipe for standard
///          output and error; no other descriptors; only the given environment; umask 077.
/// Content: up to kWholeContent bytes are received before the command begins. For longer content, the command is
///          killed before it can see an end of input that is not the message's.
/// Stays:   processes that the command leaves running keep their own pipes and get nothing of a later message; nobody
///          waits for them.
/// Status:  exit status 0 means delivered; others by sysexits.h, or by "D.S.N text" at the start of the output. A
///          command that exceeds the time limit has failed permanently (5.3.0): the next try would end the same way.
/// Source:  Postfix local(8) EXTERNAL COMMAND DELIVERY, pipe(8); sysexits.h; RFC 3463.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "lib/mail/delivery_status.h"
#include "lib/send/mailbox/pipe_form.h"
#include "lib/send/mailbox/store.h"

namespace pen::mailbox {

class JobStream;

struct Command {
  std::string line;                      // as in an alias: run by a shell if it is more than words; if empty:
  std::vector<std::string> argv;         // executed unchanged
  std::string shell;                     // words to put before `line` (local_command_shell)
  std::vector<std::string> environment;  // "NAME=value": the whole environment; PATH is used to find the command
  std::string directory = "/";           // working directory
  bool from_line = false;                // mbox's "From " line first
  // Text of the status on success, followed by the output in ( ). "": names the command, without the output.
  std::string delivered = {};
  PipeRules form;
  /// For the log: the line, or the words of argv.
  std::string shown() const;
  PEN_FIELDS(line, argv, shell, environment, directory, from_line, delivered, form)
};

inline constexpr std::size_t kWholeContent = 1024 * 1024;
inline constexpr std::size_t kMaxOutput = 1000;  // of the command's output, kept for the status

/// job: delivers message.size bytes of content; when it is called off, the command is killed with its group. The
/// calling thread must live as long as the command.
mail::DeliveryStatus run_command(const Command& command, const Message& message, JobStream& job,
                                 std::chrono::seconds limit);

/// The words to execute: `line` split at white space if it is just words, else run by /bin/sh -c; with a shell, the
/// shell's words and the line as one word. Pure.
std::vector<std::string> command_words(const Command& command);
/// The status for a waitpid() result and the command's output. Pure.
mail::DeliveryStatus command_status(const Command& command, int wait_status, std::string_view output);

}  // namespace pen::mailbox
