#pragma once
/// penlog: writes lines to the log of an instance, for scripts. Manual: man/penlog.1.
///
/// Use:     return service::run_tool<LogTool>(argc, argv);
/// Errors:  EX_CONFIG, EX_CANTCREAT (the log cannot be opened), EX_IOERR; reported on standard error.
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/log.h"
#include "lib/suite/service/command_line.h"

namespace pen::tools {

class LogTool {
 public:
  struct Options {
    std::string directory, tag;
    log::Level level = log::Level::info;
    std::vector<std::string> words;  // of the text; none: log each line of standard input
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);
  static std::optional<log::Level> level_of(std::string_view name);

  explicit LogTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  void write(const std::string& text);
  Options options_;
};

}  // namespace pen::tools
