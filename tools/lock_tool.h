#pragma once
/// penlock: runs a command while a mailbox file is locked. Manual: man/penlock.1.
///
/// Use:     return service::run_tool<LockTool>(argc, argv);
/// Returns: the exit status of the command; EX_TEMPFAIL, the mailbox could not be locked, or the command was not run
///          to its end.
#include <expected>
#include <string>
#include <vector>

#include "lib/suite/service/command_line.h"

namespace pen::tools {

class LockTool {
 public:
  struct Options {
    std::string directory, methods, folder;
    std::vector<std::string> command;
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit LockTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  /// Ends with the locks given back.
  int run_locked();
  int run_command();

  Options options_;
  bool ran_ = false;  // the command has ended by itself
};

}  // namespace pen::tools
