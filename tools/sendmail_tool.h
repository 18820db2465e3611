#pragma once
/// sendmail: submits mail, and what else programs expect of a command of that name. Manual: man/sendmail.1. Called
/// newaliases it makes the alias tables.
///
/// Use:     return service::run_tool<SendmailTool>(argc, argv);
/// Tasks:   other than to submit are done by other commands of the suite, which this program becomes.
/// Thread:  the only one of the process. SIGPIPE must be ignored.
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "tools/sendmail_options.h"

namespace pen::tools {

class SendmailTool {
 public:
  using Options = SendmailOptions;
  static auto read(int argc, const char* const* argv) { return Options::read(argc, argv); }

  explicit SendmailTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  int submit_message();
  int speak_smtp();
  [[noreturn]] void make_aliases();
  /// What -O asks for, as far as the configuration has it.
  void take_extensions();
  config::Config settings() const;

  Options options_;
};

}  // namespace pen::tools
