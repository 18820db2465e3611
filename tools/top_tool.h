#pragma once
/// pentop: a view of an instance that refreshes. Manual: man/pentop.1.
///
/// Use:     return service::run_tool<TopTool>(argc, argv);
/// Errors:  EX_UNAVAILABLE: the queue manager does not answer (--once, --batch); EX_USAGE: no terminal; EX_CONFIG.
#include <expected>
#include <memory>
#include <string>

#include "lib/base/async/loop.h"
#include "lib/base/async/sync.h"
#include "lib/config/config.h"
#include "lib/suite/service/command_line.h"
#include "tools/top_view.h"

namespace pen::tools {

class TopSource;
class Terminal;

class TopTool {
 public:
  struct Options {
    std::string directory;
    int interval = 2;  // seconds
    int batch = 0;     // prints so many times; 0: a terminal
    int width = 0;     // of --batch; 0: as wide as it is
    std::string sort, filter;
    TopState state;
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit TopTool(Options options);
  ~TopTool();
  int run();

 private:
  static async::Task<void> print_times(TopTool* tool);
  static async::Task<void> refresh(TopTool* tool);
  static async::Task<void> read_keys(TopTool* tool);
  static async::Task<void> tell(TopTool* tool);
  void show();

  Options options_;
  std::unique_ptr<config::Config> config_;
  async::Loop loop_;
  async::Cancel over_;
  async::Event wanted_{loop_};  // a message is to be explained
  std::unique_ptr<TopSource> source_;
  std::unique_ptr<Terminal> terminal_;
  TopSnapshot before_, now_;
  int status_ = 0;
};

}  // namespace pen::tools
