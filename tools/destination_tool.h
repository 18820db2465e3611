#pragma once
/// pendest: lists, explains, suspends and forgets destinations. Manual: man/pendest.1.
///
/// Use:     return service::run_tool<DestinationTool>(argc, argv);
/// Down:    while the mail system is down it shows, and changes, the file of the destination database.
/// Errors:  EX_DATAERR (nothing is known of it), EX_NOPERM, EX_IOERR, EX_UNAVAILABLE, EX_TEMPFAIL.
#include <expected>
#include <optional>
#include <string>

#include "lib/config/config.h"
#include "lib/queue/destdb/facts.h"
#include "lib/suite/ipc/destinations.h"
#include "lib/suite/service/command_line.h"
#include "tools/destination_client.h"
#include "tools/destination_listing.h"
#include "tools/written_sender.h"

namespace pen::tools {

class DestinationTool {
 public:
  enum class Command { list, show, suspend, resume, forget, rate, explain, sources };
  struct Options {
    std::string directory;
    bool json = false;
    Command command = Command::list;
    std::string destination;        // normalized; list, explain: empty
    std::string source;             // sources; empty: all
    std::string reason;             // suspend
    std::string rate;               // rate; empty: the order ends
    std::string recipient, sender;  // explain
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit DestinationTool(Options options);
  DestinationTool(const DestinationTool&) = delete;
  DestinationTool& operator=(const DestinationTool&) = delete;
  int run();

 private:
  struct Memory;
  Memory ask(const std::string& name);
  int say_what_is_missing(bool up, const Result<void>& read);
  /// list and show: what qmgr has in memory, and the rest from the file. name: a filter; empty: all.
  int look(const std::string& name);
  int give(const ipc::destinations::Order& order);
  /// Puts an order into the file while the mail system is down; the next start takes it from there.
  int order_in_file(const ipc::destinations::Order& order);
  int sources(const std::string& name);
  int explain(const std::string& recipient, const std::string& sender);
  /// Explains transport and next hop only, from the configuration: hosts are looked up by trivial-rewrite.
  int explain_without_qmgr(const std::string& recipient, const std::string& sender);
  void print_explained(const ipc::destinations::Explained& e, const std::vector<Seen>& hosts, const std::string& text,
                       const ipc::destinations::Backend& backend);
  void print_one(const Seen& destination, bool whole) const;
  void print_one(const destdb::Suspension& suspension, bool whole) const;

  Options options_;
  config::Config config_;
  std::optional<WrittenSender> written_;  // of explain; before file_, which drops privileges
  DestinationClient qmgr_;
  DestinationFile file_;
};

}  // namespace pen::tools
