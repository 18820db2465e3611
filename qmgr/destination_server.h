#pragma once
/// The conversation "destinations": pendest looks at destinations, suspends, resumes and forgets them.
///
/// Rights:  looking for everyone; orders for root, ourselves and mail_owner (trusted).
/// An order acts at once in the scheduler and is answered when destdb has it on disk.
#include <functional>
#include <memory>
#include <string>

#include "lib/destdb/destdb.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/destinations.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

class DestinationServer {
 public:
  /// write: brings what changed in destdb to disk.
  using Write = std::function<async::Task<Result<void>>()>;
  using Limits = std::function<TransportLimits(std::string_view)>;
  DestinationServer(async::Loop& loop, Manager& manager, destdb::DestDb& destinations,
                    Limits limits, std::function<void()> poke, Write write);
  /// Serves one tool until it goes; the server must outlive it.
  async::Task<void> serve(ipc::Opening opening, bool trusted);

 private:
  using Channel = ipc::Channel<ipc::destinations::ToQmgr, ipc::destinations::FromQmgr>;
  async::Task<void> handle(Channel& channel, ipc::destinations::Find m);
  async::Task<void> handle(Channel& channel, ipc::destinations::Order m, bool trusted);
  async::Task<void> handle(Channel& channel, ipc::destinations::Explain m);

  async::Loop& loop_;
  Manager& manager_;
  destdb::DestDb& destinations_;
  Limits limits_;
  std::function<void()> poke_;
  Write write_;
};

}  // namespace pen::qmgr
