#pragma once
/// penkick: wakes a service. Manual: man/penkick.1.
///
/// Use:     return service::run_tool<KickTool>(argc, argv);
/// Does:    what postkick(1) is called for: mail that waits is tried (qmgr), maildrop is looked into (pickup), a
///          service is started (any other). No service here has requests of single letters.
/// Errors:  EX_UNAVAILABLE, the service does not listen; those of QueueClient.
#include <expected>
#include <string>

#include "lib/suite/service/command_line.h"

namespace pen::tools {

class KickTool {
 public:
  struct Options {
    std::string directory, service_class, service, request;
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit KickTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  Options options_;
};

}  // namespace pen::tools
