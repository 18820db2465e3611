#pragma once
/// pensuppress: the suppression list, which anvil(8) keeps. Manual: man/pensuppress.1.
///
/// Use:     return service::run_tool<SuppressTool>(argc, argv);
/// Errors:  EX_DATAERR (an address is not on the list, or a line could not be imported), EX_NOINPUT, EX_UNAVAILABLE,
///          EX_CONFIG.
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/async/loop.h"
#include "lib/base/time.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/suppression.h"
#include "lib/suite/service/command_line.h"

namespace pen::tools {

class SuppressTool {
 public:
  using Entry = ipc::suppression::Entry;
  enum class Command { list, show, add, remove, import, dump };
  struct Options {
    std::string directory;
    bool json = false, watched = false;
    std::string tenant, reason, expires, text;
    Command command = Command::list;
    std::vector<std::string> words;  // addresses; of import, its file
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit SuppressTool(Options options) : options_(std::move(options)) {}
  int run();

  /// One line for people, or an object of JSON.
  static std::string shown(const Entry& entry, bool json);
  /// A line of an export: ADDRESS,REASON,EXPIRES,TENANT,TEXT.
  static std::string exported(const Entry& entry);
  /// A line of an import; what it does not have is as in `usual`. Errors: what is wrong with it.
  static std::expected<Entry, std::string> imported(std::string_view line, const Entry& usual, WallTime now);
  /// Seconds since 1970, 0 for "never". Errors: neither a time as 90d nor a date as 2027-01-31.
  static std::optional<std::int64_t> end_of(std::string_view text, WallTime now);

 private:
  using Channel = ipc::Channel<ipc::suppression::OrderFromAnvil, ipc::suppression::OrderToAnvil>;
  static async::Task<void> converse(SuppressTool* tool, async::Loop* loop, std::string path, int* status);
  async::Task<bool> order(async::Loop* loop, Channel* channel, int* status);
  async::Task<bool> list(async::Loop* loop, Channel* channel, int* status);
  Options options_;
  Entry usual_;
  std::vector<std::pair<std::string, Entry>> orders_;  // where each came from
  std::string why_;                                    // it cannot be asked
};

}  // namespace pen::tools
