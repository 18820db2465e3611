#pragma once
/// pensrs: what senders of forwarded mail become, and what comes back stands for. Manual: man/pensrs.1.
///
/// Use:     return service::run_tool<SrsTool>(argc, argv);
/// Errors:  EX_DATAERR (not a rewritten address of this host, or too old), EX_CONFIG.
#include <expected>
#include <string>

#include "lib/receive/resolve/resolve.h"
#include "lib/suite/service/command_line.h"

namespace pen::tools {

class SrsTool {
 public:
  struct Options {
    std::string directory;
    bool json = false;
    bool reverse = false;
    std::string address;
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit SrsTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  int tell(const std::string& address, const std::string& fault) const;
  Options options_;
};

}  // namespace pen::tools
