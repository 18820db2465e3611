#pragma once
/// The conversation with one delivery program: connections, jobs in their slots, results, and what its death means.
///
/// The stage page is shared memory with one byte per slot; it tells, when the program has died, which jobs may have
/// had an effect (committed: deferred, in doubt) and which had none (scheduled again).
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lib/suite/ipc/delivery.h"
#include "lib/suite/ipc/link.h"
#include "lib/suite/ipc/stage_page.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

class DeliveryAgent {
 public:
  struct Events {
    /// False: the program has ended, or begins nothing more. True: it is there again.
    std::function<void(bool)> up;
    /// Nor could it be reached afterwards.
    std::function<void()> unreachable;
    /// For every connection that is closed on the wire.
    std::function<void(ConnectionNumber)> gone;
  };
  DeliveryAgent(async::Loop& loop, std::string transport, std::string path, Manager& manager, Events events);
  DeliveryAgent(const DeliveryAgent&) = delete;
  DeliveryAgent& operator=(const DeliveryAgent&) = delete;

  void open(const ipc::delivery::OpenConnection& open);
  void close(ConnectionNumber connection);
  void hand(ipc::delivery::Job& job, Fd body);
  std::size_t jobs_in_hand() const { return jobs_.size(); }

 private:
  using Link = ipc::Link<ipc::delivery::FromProgram, ipc::delivery::ToProgram, DeliveryAgent>;
  friend Link;
  struct Handed {
    ConnectionNumber connection = 0;
    std::uint32_t slot = 0;
  };
  void on_connected();
  void on_message(Link::Channel::Received& received);
  void on_lost(const Error& why) { died(true, why.message()); }
  void on_refused(const Error& why) { died(false, why.message()); }
  Result<void> make_page();
  void release(JobNumber job);
  void take(ipc::delivery::ConnectionOpened& m);
  void take(ipc::delivery::ConnectionClosed& m);
  void take(ipc::delivery::ConnectionGone& m);
  void take(ipc::delivery::JobResult& m);
  /// What its session held of limits is free.
  void released(ConnectionNumber connection);
  /// lingers: it is closed on the wire later.
  void forget(ConnectionNumber connection, bool lingers = false);
  /// What is lost is reported and the link made again, whether or not there is something to say: the transport is down
  /// until then.
  void died(bool was_connected, const std::string& why);

  // A window rarely exceeds a hundred jobs and a transport a thousand connections; a page of 64 KiB is nothing.
  static constexpr std::uint32_t kSlots = 65536;

  async::Loop& loop_;
  std::string transport_;
  Manager& manager_;
  Events events_;
  bool leaving_ = false;  // the program has said its last word
  int failures_ = 0;      // ends and failed attempts since the program was there
  // until there is a connection to the program
  std::vector<ipc::delivery::OpenConnection> to_open_;
  std::unordered_map<ConnectionNumber, std::vector<JobNumber>> connections_;
  std::unordered_set<ConnectionNumber> lingering_;  // over, but not closed on the wire
  std::unordered_map<JobNumber, Handed> jobs_;
  std::vector<std::uint32_t> free_slots_;
  Fd page_fd_;
  ipc::StagePage page_;
  Link link_;
};

}  // namespace pen::qmgr
