#pragma once
/// What happens when a record is durable: answers to receivers and tools, results that count.
///
/// Use:     when_durable(ticket, then) right after the append; `while (call_next())` in each settle().
///          after_commit(then) for what only needs the next commit; commit_came() calls those.
/// Order:   calls come in the order in which they were asked for, each at the earliest when its ticket is durable, and
///          never from within when_durable().
/// State:   the calls that wait. The queue log must outlive them.
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "lib/queue/queue_log/queue_log.h"

namespace pen::qmgr {

class Acknowledgements {
 public:
  using Then = std::move_only_function<void()>;

  explicit Acknowledgements(const queue_log::QueueLog& log) : log_(log) {}
  void when_durable(queue_log::Ticket ticket, Then then);
  /// The next one can be called.
  bool due() const;
  /// Calls the next one. False: none is due.
  bool call_next();

  void after_commit(std::function<void()> then) { after_commit_.push_back(std::move(then)); }
  void commit_came();

 private:
  const queue_log::QueueLog& log_;
  std::deque<std::pair<queue_log::Ticket, Then>> waiting_;  // by tickets, ascending
  std::vector<std::function<void()>> after_commit_;
};

}  // namespace pen::qmgr
