#pragma once
/// penstock export --queue DIR: the queue of a mail system that is stopped, as files that another can take.
///
/// Use:     return QueueExport(config, {.directory = DIR}).run();
/// Makes:   DIR/ID.bsmtp for each message: batch SMTP (batch_smtp.h) with the recipients that are left.
/// Crash:   a file is there under its name when it is whole and synced. Messages are removed here, if that is asked
///          for, when all files are; a repeat makes the same files again.
/// Not in the files: how long a message has been in the queue, that it was on hold (the report names those), and
///          reports that its sender is still owed (it is left here then).
/// Rights:  root and mail_owner.
/// Thread:  one. Blocks.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/mail/envelope.h"
#include "tools/queue_client.h"
#include "tools/waiting_message.h"

namespace pen::tools {

class QueueExport {
 public:
  struct Options {
    std::string directory;
    bool plain = false, remove = false, json = false;
  };
  QueueExport(const config::Config& config, Options options)
      : config_(config), options_(std::move(options)), client_("penstock export", config) {}
  /// EX_OK; EX_DATAERR: something was left; EX_TEMPFAIL: the mail system runs; EX_CANTCREAT, EX_NOPERM, EX_OSERR.
  int run();

 private:
  /// A message of the queue, as the listing has it.
  using Read = std::function<Result<std::string>(std::uint64_t from, std::size_t most)>;
  void list();
  void show(const std::vector<std::string>& ids);
  void show_dropped(const std::string& id);
  Result<void> write(const mail::Envelope& envelope, const std::vector<mail::Recipient>& recipients, const Read& read);
  Result<void> remove();
  void leave(const std::string& id, const std::string& why);
  void say(const mail::Envelope& envelope, ipc::queue::Place place, std::size_t recipients);

  const config::Config& config_;
  Options options_;
  QueueClient client_;
  std::map<std::string, WaitingMessage> listed_;
  std::vector<std::string> written_, dropped_;  // ids
  std::uint64_t left_ = 0, held_ = 0, recipients_ = 0;
};

}  // namespace pen::tools
