#pragma once
/// The delivery programs of one transport: one, or as many as smtp_process_count says. Each connection is one program's
/// for as long as it lives; new ones go in turn to those that are there.
///
/// Down:    the transport is while none of its programs is there. One that has died takes its own connections with it,
///          and the others go on.
/// Thread:  the loop's.
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "qmgr/delivery_agent.h"

namespace pen::qmgr {

class DeliveryAgents {
 public:
  /// paths: the programs' sockets, one at least. gone: called for every connection that is closed on the wire.
  DeliveryAgents(async::Loop& loop, const std::string& transport, const std::vector<std::string>& paths,
                 Manager& manager, std::function<void(ConnectionNumber)> gone);
  DeliveryAgents(const DeliveryAgents&) = delete;
  DeliveryAgents& operator=(const DeliveryAgents&) = delete;

  void open(const ipc::delivery::OpenConnection& open);
  void close(ConnectionNumber connection);
  void hand(ipc::delivery::Job& job, Fd body);

 private:
  struct Program {
    std::unique_ptr<DeliveryAgent> agent;
    bool up = true;  // until the contrary is seen: programs start when they are asked
    bool reachable = true;
  };
  /// nullptr: it has gone.
  DeliveryAgent* of(ConnectionNumber connection);
  void came_or_went(std::size_t program, bool up);
  void cannot_be_reached(std::size_t program);
  bool any_up() const;

  std::string transport_;
  Manager& manager_;
  std::vector<Program> programs_;
  std::size_t turn_ = 0;
  std::unordered_map<ConnectionNumber, std::size_t> which_;  // empty where there is one program
};

}  // namespace pen::qmgr
