#pragma once
/// Connections that the scheduler has ordered and that may not be opened yet: each waits here for a lease of its
/// session class, then for a share of what the hosts of a cluster may open together.
///
/// Use:     connections.order(action); connections.close(action);             // actions of the scheduler
///          event()->connections.session_answer(connection, granted);         // edges: Ports::ask_session()
///          event()->connections.share_answer(connection, granted);           // edges: Ports::ask_share()
/// Rules:   a connection that cannot be had is reported to the scheduler, one that is granted goes to its program at
///          once. An answer for one that was closed meanwhile has no effect.
/// Bounds:  as many as the scheduler orders.
#include <optional>
#include <unordered_map>

#include "qmgr/surroundings.h"

namespace pen::qmgr {

class OrderedConnections {
 public:
  explicit OrderedConnections(Surroundings& around) : around_(around) {}

  void order(const OpenConnection& a);
  void close(const CloseConnection& a);
  void session_answer(ConnectionNumber connection, bool granted);
  void share_answer(ConnectionNumber connection, bool granted);
  std::size_t waiting() const { return waiting_.size(); }

 private:
  enum class For { session, share };
  struct Waiting {
    OpenConnection ordered;
    For what;
  };
  void ask_share(const OpenConnection& a);
  void open(const OpenConnection& a);
  /// Ends a wait. nullopt: there is none.
  std::optional<OpenConnection> take(ConnectionNumber connection, For what);

  Surroundings& around_;
  std::unordered_map<ConnectionNumber, Waiting> waiting_;
};

}  // namespace pen::qmgr
