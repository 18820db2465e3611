#pragma once
/// The one connection of a process to qmgr for handing over mail, shared by all its sessions.
///
/// Use:     EnqueueClient client(loop, queue_path("public/qmgr"));   client.start();   the rest is Queue (queue.h).
/// Death:   when qmgr dies the connection is made again, paced. An inline message without an answer is sent again by
///          its queue id, which qmgr takes once, and a lease is asked for again; one whose body is in a leased file is
///          given up as unavailable, because the lease died too. In any case the answer comes by the deadline of the
///          call.
/// State:   accepting() is what qmgr said last; true while nobody can say (enqueue() then waits for it).
/// Bounds:  what is queued for the socket is bounded by the sessions: each has at most one message under way.
/// Thread:  the loop's.
#include <map>
#include <memory>
#include <string>

#include "lib/base/async/sync.h"
#include "lib/receive/intake/queue.h"
#include "lib/suite/ipc/enqueue.h"
#include "lib/suite/ipc/link.h"
#include "lib/suite/ipc/who_may_talk.h"

namespace pen::intake {

class EnqueueClient final : public Queue {
 public:
  static constexpr std::uint64_t kInlineLimit = 16384;
  /// inline_limit: in bytes, until qmgr says its own.
  EnqueueClient(async::Loop& loop, std::string path, std::uint64_t inline_limit = kInlineLimit);
  ~EnqueueClient() override;

  void start() { link_.start(); }

  bool accepting() const override { return accepting_; }
  std::uint64_t inline_limit() const override { return inline_limit_; }
  async::Task<LeaseAnswer> lease(std::uint64_t expected_size, async::Until until) override;
  async::Task<EnqueueAnswer> enqueue(mail::Envelope& envelope, Lease* lease, std::string_view body,
                                     std::uint64_t permit, async::Until until, std::string_view session = {}) override;

  bool connected() const { return link_.connected(); }
  /// Why there is no connection; empty: there is one, or none was tried yet.
  const std::string& last_error() const { return link_.last_error(); }

 private:
  using Link = ipc::Link<ipc::enqueue::FromQmgr, ipc::enqueue::ToQmgr, EnqueueClient>;
  friend Link;
  class LeaseImpl;
  /// One request without an answer; lives in the frame of the coroutine that waits.
  struct Pending {
    Pending(EnqueueClient& client_in, std::uint64_t request_in);
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    EnqueueClient& client;
    std::uint64_t request;
    async::Event settled;
    bool answered = false;
    bool lost = false;  // the connection went away before an answer
    ipc::enqueue::Outcome outcome = ipc::enqueue::Outcome::try_later;
    std::string text;
    std::unique_ptr<Lease> lease;
  };
  void on_connected() { connected_.set(); }
  void on_message(Link::Channel::Received& received);
  void on_lost(const Error& why);
  void on_refused(const Error&) {}

  async::Loop& loop_;
  async::Event connected_;
  std::uint64_t next_request_ = 0;
  std::map<std::uint64_t, Pending*> pending_;
  std::uint64_t inline_limit_;
  bool accepting_ = true;
  ipc::Carrier carrier_;  // this program
  /// What leases hold to know whether the client still lives.
  std::shared_ptr<EnqueueClient*> alive_;
  Link link_;
};

}  // namespace pen::intake
