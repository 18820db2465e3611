#pragma once
/// penstock import --queue DIR: takes over the queue of a Postfix that is stopped, each message once.
///
/// Use:     return QueueImport(config, {.directory = DIR}).run();
/// Order:   per some hundred messages: their ids are written down (import_ledger.h); they are handed in, on hold; when
///          all are on hold that is written down; those that are not to stay there are released. A message that is on
///          hold does not leave the queue by itself: so a repeat after any crash finds out, by its id, whether it had
///          been handed in. docs/postfix-queue.md.
/// Maildrop: its files become files of our maildrop, for pickup completes them as Postfix's would have; they are made
///          beside it, written down, and then moved there.
/// Source:  is not changed, but with remove. Postfix's lock is held meanwhile.
/// Rights:  root and mail_owner. The mail system may run or not.
/// Thread:  one. Blocks.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/mail/queue_id.h"
#include "lib/queue/postfix_queue/directory.h"
#include "tools/hand_in.h"
#include "tools/import_ledger.h"
#include "tools/progress_bar.h"
#include "tools/queue_client.h"

namespace pen::tools {

class QueueImport {
 public:
  struct Options {
    std::string directory;
    bool dry_run = false;
    bool json = false;
    bool remove = false;  // from the source what is safe here
  };
  QueueImport(const config::Config& config, Options options);
  /// EX_OK; EX_DATAERR: something was left in the source; EX_TEMPFAIL: repeat; EX_USAGE, EX_UNAVAILABLE, EX_OSERR.
  int run();

 private:
  /// A message of the source, and what is to become of it.
  struct Message {
    postfix_queue::Found found;
    std::string key;
    ImportLedger::Entry entry;
    bool known = false;    // an earlier import has begun it
    bool present = false;  // it is in our queue
    mail::Envelope envelope;
    std::string full_name;
    std::uint64_t most = 0;  // bytes of content at most
    std::vector<std::string> lost;
  };
  using Messages = std::vector<Message>;

  Result<void> open();
  /// Looks at one file; nothing to do: false.
  bool look(const postfix_queue::Found& found, Message& m);
  int take(Messages messages);
  void choose_ids(Messages& messages);
  void find_present(Messages& messages);
  Result<void> enqueue(Messages& messages);
  /// Waits until those that were handed in are on hold.
  Result<void> settle(const Messages& messages);
  Result<void> release(const std::vector<std::string>& ids);
  Result<void> drop(Message& m);
  Result<void> move_drop(const std::string& id);
  /// What an earlier import has taken and not let go.
  Result<void> finish_earlier();
  Result<void> remove_source(const postfix_queue::Found& found);
  /// The place of each of these in our queue, where it has one.
  std::map<std::string, ipc::queue::Place> places(std::vector<std::string> ids);
  void show(const Message& m, const std::string& outcome);
  void leave(const postfix_queue::Found& found, const std::string& why);
  int complain(int status, const std::string& what) const;
  void summary() const;

  const config::Config& config_;
  Options options_;
  std::string own_directory_;  // for the ledger, and files for maildrop
  std::optional<postfix_queue::QueueDirectory> source_;
  std::optional<ImportLedger> ledger_;
  QueueClient client_;
  mail::QueueIdGenerator new_id_;
  struct Counts {
    std::uint64_t taken = 0, held = 0, dropped = 0, already = 0, done = 0, unfinished = 0, left = 0, removed = 0;
    std::uint64_t recipients = 0, recipients_done = 0;
  } counts_;
};

}  // namespace pen::tools
