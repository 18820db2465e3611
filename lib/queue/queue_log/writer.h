#pragma once
/// Runs a QueueLog's batches on threads of its own and wakes the coroutines that wait for tickets. The edge of
/// lib/queue/queue_log.
///
/// Use:     Writer writer(loop, log, storage, [](const Error& e) { log::exit_fatal(…); });
///          auto a = log.append(envelope);
///          co_await writer.committed(a->ticket);                  // success: durable, say 250
///          writer.kick();                                         // after calls that nobody waits for
/// Groups:  everything appended until the next batch may be had shares it: no timer, and no delay when idle but the
///          loop's turn, so that all tasks that are ready append before the write begins. Several batches may be at
///          their sync at the same time, on a thread each (QueueLog::Commits::next_batch()).
/// Fails:   after an error every wait ends with io_error and on_failure is called once, in the loop: end the
///          process.
/// Lifetime: loop, log and storage outlive the writer; the destructor waits for the batch in hand. Tasks that
///          wait in committed() must be gone by then.
/// Thread:  the loop's.
#include <functional>
#include <memory>

#include "lib/base/async/loop.h"
#include "lib/queue/queue_log/queue_log.h"

namespace pen::queue_log {

class Writer {
 public:
  Writer(async::Loop& loop, QueueLog& log, Storage& storage, std::function<void(const Error&)> on_failure);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Ends when the ticket is durable. Errors: io_error; timed_out and cancelled (the record may
  /// become durable later).
  async::Task<Result<void>> committed(Ticket ticket, async::Until until = {});
  /// Looks, in the loop's next turn, whether there is a batch to write. Cheap; call it after any append.
  void kick();
  /// Hands over what there is to write now. For a caller that knows that all ready tasks have appended.
  void hand_over();
  /// Calls fn in the loop after each batch was taken back.
  void on_commit(std::function<void()> fn);
  bool busy() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace pen::queue_log
