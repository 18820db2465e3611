#pragma once
/// penqueue: lists the queue and schedules messages for delivery now. Manual: man/penqueue.1. As mailq it lists.
///
/// Use:     keep_group_for_the_socket("penqueue"); return service::run_tool<QueueTool>(argc, argv);
/// Errors:  those of QueueClient; EX_DATAERR: a message that was named is not there, or --log found damage.
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "lib/suite/ipc/queue.h"
#include "lib/suite/service/command_line.h"
#include "tools/spool_listing.h"

namespace pen::tools {

class QueueTool {
 public:
  enum class Action { none, list, json, flush, message, site, log };
  struct Options {
    std::string directory;
    Action action = Action::none;
    bool verbose = false;
    std::string target;              // of message, site
    ipc::queue::List wanted;         // of list, json
    std::vector<std::string> paths;  // of log; none: queue_log_directory
    bool follow = false;             // a message (target), or all
    bool spool = false;              // list, json: of the spool's files
    SpoolChoice files;               // of spool
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);
  /// True: a domain, with or without @ in front, or a name in brackets, with or without port.
  static bool is_site(std::string_view text);

  explicit QueueTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  int dump();
  int list(QueueClient& client);
  int flush(QueueClient& client);
  Options options_;
};

}  // namespace pen::tools
