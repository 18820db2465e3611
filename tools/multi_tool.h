#pragma once
/// postmulti, and penstock multi: lists the instances of a host, runs commands for them, makes and deletes them.
/// docs/instances.md; the options are those of postmulti(1).
///
/// Use:     return service::run_tool<MultiTool>(argc, argv);
#include <expected>
#include <string>
#include <vector>

#include "lib/suite/service/command_line.h"
#include "tools/instance_lifecycle.h"
#include "tools/instances.h"

namespace pen::tools {

class MultiTool {
 public:
  enum class Mode { none, list, penstock, command, change };
  struct Options {
    std::string directory;  // of the first instance
    Mode mode = Mode::none;
    InstanceChoice choice;
    std::vector<std::string> words;
    Lifecycle change;
    bool json = false, running = false;  // list
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit MultiTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  Options options_;
};

}  // namespace pen::tools
