#pragma once
/// pensuper: removes, holds, releases, requeues and expires messages. Manual: man/pensuper.1.
///
/// Use:     return service::run_tool<OrderTool>(argc, argv);
/// Orders:  are carried out in the order of the command line. Consecutive ids for the same verb are one order: one
///          pass over the queue.
/// Errors:  those of QueueClient; EX_NOPERM, EX_OSERR (no space), EX_SOFTWARE. An unknown id is no error.
#include <cstdint>
#include <expected>
#include <istream>
#include <string>
#include <vector>

#include "lib/suite/ipc/queue.h"
#include "lib/suite/service/command_line.h"

namespace pen::tools {

class QueueClient;

class OrderTool {
 public:
  struct Order {
    ipc::queue::Verb verb;
    bool all = false;
    bool input = false;            // ids come from standard input
    std::vector<std::string> ids;  // may be none, where the words were none
  };
  struct Options {
    std::string directory;
    bool verbose = false, dry_run = false;
    ipc::queue::Filter filter;
    std::vector<Order> orders;
    bool tidy = false;  // -p, -s, -S of postsuper: there is nothing to be done
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);
  /// The next ids of the input, as many as one request may name; empty: the end. A line that is no id is skipped with
  /// a warning on standard error.
  static std::vector<std::string> read_ids(std::istream& input);

  explicit OrderTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  void carry_out(QueueClient& client, const Order& order);
  /// Returns the number of messages that were changed.
  std::uint64_t ask(QueueClient& client, const Order& order, std::vector<std::string> ids);

  Options options_;
  int status_ = 0;
};

}  // namespace pen::tools
