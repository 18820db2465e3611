#pragma once
/// Session classes: connections to hosts of a class need a lease each, which anvil gives.
///
/// A connection is made, and asks; its jobs wait on it for the answer. If it is refused, it goes as if it had never
/// been, its jobs look for another place, and the class is full until room is reported. The destinations that want a
/// connection meanwhile stand in line; when there is room they try one after the other, each after the answer to the
/// one before it: one question at a time, however many wait. While the class is full its idle connections are closed,
/// as many as wait.
///
/// Use:     here are the classes and their lines; Model::serve_classes() opens and closes connections for each class
///          that next_dirty() returns.
/// Source:  docs/session-classes.md.
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "qmgr/scheduler/scheduler.h"
#include "qmgr/scheduler/session_class.h"

namespace pen::qmgr::scheduler {

class SessionClasses {
 public:
  explicit SessionClasses(const Options& options) : options_(options) {}
  bool exist() const { return static_cast<bool>(options_.session_class); }
  /// The class of a number that was met; nullptr: none of its hosts was.
  SessionClass* find(std::uint32_t number) const;
  /// A destination is met: its class, if it belongs to one, is noted in it.
  void enter(Destination& d);
  /// Whether another connection to it may ask for a lease.
  static bool possible(const Destination& d) {
    const SessionClass* c = d.session_class;
    return c == nullptr || (!c->full && (c->waiting.empty() || c->turn == &d));
  }
  /// The destination, which has a class, stands in line for a connection. first: before the others.
  void wait(Destination& d, bool first = false);
  void leave_line(Destination& d);
  /// A connection that is made wants a lease, if its destination has a class.
  void ask(Connection& c);
  /// The answer came, or is not awaited any more.
  void answered(Connection& c);
  /// There is room again.
  void has_room(SessionClass& c);
  void mark(SessionClass& c);
  bool any_dirty() const { return !dirty_.empty(); }
  /// A class that may be served now, which is then dirty no more. There must be one.
  SessionClass& next_dirty();

 private:
  const Options& options_;
  std::map<std::uint32_t, std::unique_ptr<SessionClass>> classes_;  // outlive their destinations
  std::vector<SessionClass*> dirty_;
};

}  // namespace pen::qmgr::scheduler
