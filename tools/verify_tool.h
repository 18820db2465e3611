#pragma once
/// penverify: what verify(8) knows of addresses. Manual: man/penverify.1.
///
/// Use:     return service::run_tool<VerifyTool>(argc, argv);
/// Errors:  EX_DATAERR (nothing is known of the address, or it is not good), EX_UNAVAILABLE, EX_CONFIG.
#include <expected>
#include <string>

#include "lib/base/async/loop.h"
#include "lib/config/config.h"
#include "lib/suite/ipc/verify.h"
#include "lib/suite/service/command_line.h"

namespace pen::tools {

class VerifyTool {
 public:
  enum class Command { list, show, check, forget };
  struct Options {
    std::string directory;
    bool json = false;
    Command command = Command::list;
    std::string address;  // list: empty
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit VerifyTool(Options options) : options_(std::move(options)) {}
  int run();

  /// One line for people, or an object of JSON.
  static std::string shown(const ipc::verify::Entry& entry, bool json);

 private:
  static async::Task<void> converse(VerifyTool* tool, async::Loop* loop, std::string path, int* status);
  Options options_;
  std::string why_;  // it cannot be asked
};

}  // namespace pen::tools
