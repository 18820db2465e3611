#pragma once
/// pencat: shows envelope, header and body of messages in the queue or in files from local submission. Manual:
/// man/pencat.1.
///
/// Use:     return service::run_tool<CatTool>(argc, argv);
/// Errors:  those of QueueClient; EX_DATAERR: a message is damaged or not there; EX_NOINPUT: an argument is neither
///          id nor file.
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/receive/submission/drop_view.h"
#include "lib/suite/service/command_line.h"
#include "tools/message_view.h"
#include "tools/queue_client.h"

namespace pen::tools {

class CatTool {
 public:
  struct Options {
    std::string directory;
    MessageParts parts;
    bool ids_only = false;           // -q
    std::vector<std::string> words;  // ids and files; none: standard input
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit CatTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  /// The result for one argument.
  enum class Shown { yes, damaged, no };

  int show_standard_input();
  /// Shows a file from local submission. place: the directory of the queue that it is in; empty: another one. Returns
  /// whether it is whole.
  bool show_file(const std::string& name, int fd, const std::string& place = {});
  Shown show_path(const std::string& name, const std::string& path, int flags = 0, const std::string& place = {});
  void show_ids();
  Shown show_dropped(const std::string& id);
  /// Shows those of `ids` that are in the queue, in their order, and removes them from `ids`. False: some were
  /// damaged, which has been reported.
  bool show_queued(std::vector<std::string>& ids);

  Options options_;
  int status_ = 0;
  std::vector<std::string> ids_;  // ids to be shown together
  std::optional<config::Config> config_;
  std::optional<QueueClient> client_;
};

}  // namespace pen::tools
