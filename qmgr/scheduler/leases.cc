/// Connections that need a lease: what follows when one is given, refused, or wanted back (session_classes.h).
#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

void Model::wait_for_session(const std::vector<std::unique_ptr<Member>>& level) {
  for (const auto& m : level) {
    Destination& d = *m->destination;
    if (!SessionClasses::possible(d) && !back_off.dead(d) && !limits.full(d) && !rate_delay.must_pause(d) &&
        !shares.holds_its_share(d))
      session_classes.wait(d);
  }
}

bool Model::wants_more(const Destination& d) const {
  if (back_off.dead(d) || limits.full(d) || rate_delay.must_pause(d) || shares.holds_its_share(d)) return false;
  return !d.starved.empty();
}

void Model::session_refused(Connection& c) {
  Destination& d = *c.destination;
  d.session_class->full = true;
  session_classes.answered(c);
  const std::vector<Job*> again = take_waiting(c);
  --figures.connections_opened;
  ++d.references;  // stays while its jobs move
  session_classes.wait(d, c.in_turn);
  erase(c);
  for (Job* j : again) schedule(*j);
  if (d.hungry.empty()) session_classes.leave_line(d);  // they found another place
  --d.references;
  routes.drop_if_unused(d);
}

bool Model::close_idle_of(SessionClass& c) {
  Connection* idle = c.idle.front();
  if (idle == nullptr) return false;
  retire(*idle);
  return true;
}

void Model::serve_classes() {
  while (session_classes.any_dirty()) {
    SessionClass& c = session_classes.next_dirty();
    while (c.full && c.closing < c.waiting_count && close_idle_of(c)) ++c.closing;
    while (!c.full && c.asking == 0 && !draining) {
      Destination* const d = c.waiting.front();
      if (d == nullptr) break;
      session_classes.leave_line(*d);
      ++d->references;
      c.turn = d;
      unblock(*d);
      pump_workers();
      const bool used = c.turn == nullptr;
      c.turn = nullptr;  // what had nothing to open after all leaves its turn to the next
      if (used && wants_more(*d)) session_classes.wait(*d);
      --d->references;
      routes.drop_if_unused(*d);
    }
  }
}

}  // namespace pen::qmgr::scheduler

namespace pen::qmgr {

using namespace scheduler;

void Scheduler::session_granted(ConnectionNumber number) {
  Model& s = *model_;
  if (const auto it = s.connections.find(number); it != s.connections.end()) {
    s.session_classes.answered(*it->second);
    it->second->opened_at = s.clock.now;  // it begins now
  }
  s.settle();
}

void Scheduler::session_refused(ConnectionNumber number) {
  Model& s = *model_;
  const auto it = s.connections.find(number);
  if (it != s.connections.end() && it->second->asks) s.session_refused(*it->second);
  s.settle();
}

void Scheduler::session_room(std::uint32_t number) {
  Model& s = *model_;
  SessionClass* const c = s.session_classes.find(number);
  if (c == nullptr) return;
  s.session_classes.has_room(*c);
  s.settle();
}

bool Scheduler::yield_session(std::uint32_t number) {
  Model& s = *model_;
  SessionClass* const c = s.session_classes.find(number);
  const bool closing = c != nullptr && s.close_idle_of(*c);
  s.settle();
  return closing;
}

}  // namespace pen::qmgr
