#pragma once
/// pencat: shows messages, in the queue or in files that local submission left: envelope, header, body. Manual:
/// man/pencat.1.
///
/// Use:     return service::run_tool<CatTool>(argc, argv);
/// Errors:  those of QueueClient; EX_DATAERR: something is damaged, or a message that was asked for is not there;
///          EX_NOINPUT: what is no id is no file either.
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/service/command_line.h"
#include "lib/submission/drop_view.h"
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
  using Found = submission::DropView::Found;
  /// What became of a word.
  enum class Shown { yes, damaged, no };

  int show_standard_input();
  /// A file that local submission left. Returns whether it is whole.
  bool show_file(const std::string& name, int fd, Found where = Found::elsewhere);
  Shown show_path(const std::string& name, const std::string& path, int flags = 0, Found where = Found::elsewhere);
  void show_ids();
  Shown show_dropped(const std::string& id);
  /// Those that are there, in their order; takes them out of `ids`. Whether all of them are whole; if not, it was
  /// said why.
  bool show_queued(std::vector<std::string>& ids);

  Options options_;
  int status_ = 0;
  std::vector<std::string> ids_;  // to be shown together
  std::optional<config::Config> config_;
  std::optional<QueueClient> client_;
};

}  // namespace pen::tools
