#pragma once
/// The conversation "enqueue": receivers hand in complete messages and learn when they are durable.
///
/// Bounds:  per receiver kMaxUnanswered bytes of messages that wait for the next commit; then it is not read from.
#include <functional>
#include <memory>
#include <set>

#include "lib/base/async/sync.h"
#include "lib/queue/spool/spool.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/enqueue.h"
#include "qmgr/earlier_mail.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

class EnqueueServer {
 public:
  EnqueueServer(async::Loop& loop, Manager& manager, spool::Spool* spool, std::size_t inline_limit);
  /// Serves one receiver until it goes. A coroutine of this object: it must outlive it.
  async::Task<void> serve(ipc::Opening opening);
  /// New mail can or cannot be taken: reports it to every client.
  void queue_state(bool accepting);
  /// No new leases: they would die soon. Messages are taken to the end; the next qmgr delivers them.
  void drain() { draining_ = true; }
  /// Spool files that receivers are writing.
  std::size_t leases() const;
  /// Takes nothing more at all: what comes now has no answer, and its receiver asks the next qmgr.
  void close() { closed_ = true; }
  /// Bytes of answers that have not left.
  std::size_t queued() const;
  /// Messages taken and not yet durable.
  std::size_t unanswered() const { return unanswered_; }
  /// Of these: those whose id is looked for in the queue.
  std::size_t looked_for() const { return looked_for_; }
  std::size_t receivers() const { return sessions_.size(); }

 private:
  using Channel = ipc::Channel<ipc::enqueue::ToQmgr, ipc::enqueue::FromQmgr>;
  struct Session {
    Session(async::Loop& loop, ipc::Opening opening)
        : program(std::move(opening.program)),
          carrier(program.empty() ? ipc::kAnyField : ipc::carrier_of(program)),
          channel(std::move(opening)),
          drained(loop) {}
    const std::string program;
    const ipc::Carrier carrier;
    Channel channel;
    async::Event drained;
    std::set<std::uint64_t> leases;  // of spool files; they die with the session
    std::size_t unanswered = 0;      // bytes
    bool alive = true;
  };
  // some hundred messages: a commit's worth
  static constexpr std::size_t kMaxUnanswered = 4U << 20;
  void take(const std::shared_ptr<Session>& s, ipc::enqueue::Enqueue& m);
  /// The queue is searched first for a message of that id.
  void take_later(const std::shared_ptr<Session>& s, const ipc::enqueue::Enqueue& m);
  /// The lease that it names is the session's no longer.
  void take_in(const std::shared_ptr<Session>& s, ipc::enqueue::Enqueue& m, EarlierMail::Found earlier);
  void refuse(const std::shared_ptr<Session>& s, const ipc::enqueue::Enqueue& m, ipc::enqueue::Outcome outcome,
              const std::string& why);
  void take(const std::shared_ptr<Session>& s, ipc::enqueue::LeaseSpool& m);
  void take(const std::shared_ptr<Session>& s, ipc::enqueue::ReturnLease& m);

  async::Loop& loop_;
  Manager& manager_;
  EarlierMail earlier_;
  spool::Spool* spool_;  // nullptr: large bodies are refused for want of space
  std::size_t inline_limit_;
  std::set<std::shared_ptr<Session>> sessions_;
  std::size_t unanswered_ = 0, looked_for_ = 0;
  bool draining_ = false, closed_ = false;
};

}  // namespace pen::qmgr
