#include "qmgr/ordered_connections.h"

#include <utility>

#include "qmgr/egress.h"

namespace pen::qmgr {

void OrderedConnections::order(const OpenConnection& a) {
  if (!a.session_class) return ask_share(a);
  waiting_.emplace(a.connection, Waiting{a, For::session});
  around_.ports.ask_session(a.connection, *a.session_class, a.destination);
}

void OrderedConnections::ask_share(const OpenConnection& a) {
  if (around_.ports.ask_share(a.connection, a.key, a.limit, a.destination.address))
    waiting_.emplace(a.connection, Waiting{a, For::share});
  else
    open(a);
}

void OrderedConnections::open(const OpenConnection& a) {
  ipc::delivery::OpenConnection open{.connection = a.connection,
                                     .destination = a.destination,
                                     .nexthop = a.nexthop,
                                     .step_by_step = a.step_by_step,
                                     .clear_text = a.clear_text};
  if (around_.options.egress) around_.options.egress->fill(open);
  around_.ports.open_connection(a.destination.transport, open);
}

void OrderedConnections::close(const CloseConnection& a) {
  const auto at = waiting_.find(a.connection);
  if (at == waiting_.end()) return around_.ports.close_connection(a.transport, a.connection);
  if (at->second.what == For::share) around_.ports.release_share(a.connection);
  waiting_.erase(at);
  around_.ports.release_session(a.connection);
}

std::optional<OpenConnection> OrderedConnections::take(ConnectionNumber connection, For what) {
  const auto at = waiting_.find(connection);
  if (at == waiting_.end() || at->second.what != what) return std::nullopt;
  return std::move(waiting_.extract(at).mapped().ordered);
}

void OrderedConnections::session_answer(ConnectionNumber connection, bool granted) {
  const auto ordered = take(connection, For::session);
  if (!ordered) return;
  if (!granted) return around_.scheduler.session_refused(connection);
  around_.scheduler.session_granted(connection);
  ask_share(*ordered);
}

void OrderedConnections::share_answer(ConnectionNumber connection, bool granted) {
  const auto ordered = take(connection, For::share);
  if (!ordered) return;
  if (granted) return open(*ordered);
  around_.ports.release_session(connection);
  around_.scheduler.refused(connection);
}

}  // namespace pen::qmgr
