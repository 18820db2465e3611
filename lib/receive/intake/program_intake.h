#pragma once
/// The intake of a program that queues mail: the connection to the queue manager, ids for messages, and what makes
/// messages of what comes in.
///
/// Use:     const ProgramIntake::Logs logs{info, warning};
///          tell(settings, *resolve, logs);
///          ProgramIntake own(loop, pool, context.queue_path(ipc::kQmgrSocket), resolve, settings, logs);
///          own.queue.start();   … Message message(own.intake, …)   … enqueue_derived(own.intake, …)
/// Owns:    the connection to the queue manager. Loop and pool must outlive it.
/// Thread:  the loop's.
#include <functional>
#include <memory>
#include <string>

#include "lib/mail/queue_id.h"
#include "lib/receive/intake/enqueue_client.h"
#include "lib/receive/intake/intake.h"

namespace pen::intake {

struct ProgramIntake {
  struct Logs {
    std::function<void(const std::string& line)> info, warning;
  };
  /// settings: from_settings() where mail comes in, for_own_mail() where the system itself writes it.
  /// inline_limit: in bytes, until the queue manager says its own.
  ProgramIntake(async::Loop& loop, async::HandlerPool& pool, std::string qmgr_socket,
                std::shared_ptr<const resolve::Resolve> resolve, Settings settings, Logs logs,
                std::uint64_t inline_limit = EnqueueClient::kInlineLimit);
  ProgramIntake(const ProgramIntake&) = delete;
  ProgramIntake& operator=(const ProgramIntake&) = delete;

  /// For a program's status: whether the queue manager can be reached.
  std::string status_line() const;

  EnqueueClient queue;
  mail::QueueIdGenerator ids;
  Intake intake;
};

/// Logs what is wrong or slow about what these settings and this resolver refer to.
void tell(const Settings& settings, const resolve::Resolve& resolve, const ProgramIntake::Logs& logs);

}  // namespace pen::intake
