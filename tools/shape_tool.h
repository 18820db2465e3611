#pragma once
/// penshape: how many messages wait for each domain, and for how long. Manual: man/penshape.1.
///
/// Use:     keep_group_for_the_socket("penshape"); return service::run_tool<ShapeTool>(argc, argv);
/// Errors:  those of QueueClient.
#include <expected>
#include <string>

#include "lib/base/time.h"
#include "lib/suite/ipc/queue.h"
#include "lib/suite/service/command_line.h"
#include "tools/queue_shape.h"

namespace pen::tools {

class ShapeTool {
 public:
  struct Options {
    std::string directory;
    ipc::queue::Filter filter;
    Shape::Options shape;
    bool json = false;
    std::uint64_t batch = 0;  // on a terminal, show an interim table after each so many messages; 0: only at the end
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit ShapeTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  Options options_;
};

}  // namespace pen::tools
