#pragma once
/// sendmail: submits mail, and does what else programs expect of a command with that name. Manual: man/sendmail.1. As
/// newaliases it makes the alias tables.
///
/// Use:     return service::run_tool<SendmailTool>(argc, argv);
/// Tasks:   for tasks other than submission this process becomes another command of the suite.
/// Thread:  the only one of the process. SIGPIPE must be ignored.
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "tools/sendmail_options.h"
#include "tools/sendmail_submit.h"

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
  /// Takes what -O asks for, if the configuration allows it.
  void take_extensions();
  config::Config settings() const;
  /// How this process submits: by pendrop, or where that cannot have its group by the socket of pickup.
  Pendrop::Options pendrop() const;

  Options options_;
};

}  // namespace pen::tools
