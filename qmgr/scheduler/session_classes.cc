/// Session classes: connections to hosts of a class need a lease each, which somebody else gives.
///
/// A connection is made, and asks; its jobs wait on it for the answer. Refused: it goes as if it had not been, its
/// jobs look for another place, and the class is full until there is said to be room. The destinations that want a
/// connection meanwhile stand in line; when there is room they try one after the other, each after the answer to the
/// one before it: one question at a time, however many wait. While the class is full its idle connections are closed,
/// as many as wait. Source: docs/session-classes.md.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

void Model::enter_class(Destination& d) {
  if (!options.session_class || d.address.address.empty()) return;
  const auto found = options.session_class(d.address.host, d.address.address);
  if (!found) return;
  auto& slot = session_classes[found->number];
  if (!slot) {
    slot = std::make_unique<SessionClass>();
    slot->number = found->number;
  }
  d.session_class = slot.get();
}

bool Model::session_possible(const Destination& d) const {
  const SessionClass* c = d.session_class;
  return c == nullptr || (!c->full && (c->waiting.empty() || c->turn == &d));
}

void Model::mark_class(SessionClass& c) {
  if (c.dirty) return;
  c.dirty = true;
  dirty_classes.push_back(&c);
}

void Model::wait_for_session(Destination& d, bool first) {
  if (d.in_class_line.linked()) return;
  SessionClass& c = *d.session_class;
  if (first)
    c.waiting.push_front(d.in_class_line);
  else
    c.waiting.push_back(d.in_class_line);
  ++c.waiting_count;
  mark_class(c);
}

void Model::wait_for_session(const std::vector<std::unique_ptr<Member>>& level) {
  for (const auto& m : level) {
    Destination& d = *m->destination;
    if (!session_possible(d) && !dead(d) && !full(d) && !must_pause(d) && !holds_its_share(d)) wait_for_session(d);
  }
}

bool Model::wants_more(Destination& d) {
  if (dead(d) || full(d) || must_pause(d) || holds_its_share(d)) return false;
  return !d.starved.empty();
}

void Model::leave_class_line(Destination& d) {
  if (!d.in_class_line.linked()) return;
  d.in_class_line.unlink();
  --d.session_class->waiting_count;
  mark_class(*d.session_class);
}

void Model::ask_for_session(Connection& c) {
  SessionClass* s = c.destination->session_class;
  if (s == nullptr) return;
  c.asks = true;
  ++s->asking;
  c.in_turn = s->turn == c.destination;
  if (c.in_turn) s->turn = nullptr;
}

void Model::session_answered(Connection& c) {
  if (!c.asks) return;
  c.asks = false;
  --c.destination->session_class->asking;
  mark_class(*c.destination->session_class);
}

void Model::session_refused(Connection& c) {
  Destination& d = *c.destination;
  d.session_class->full = true;
  session_answered(c);
  std::vector<Job*> again;
  while (ConnectionShare* s = c.round.front()) {
    Job& j = *s->waiting.front();
    unassign(j);
    again.push_back(&j);
  }
  --figures.connections_opened;
  ++d.references;  // stays while its jobs move
  wait_for_session(d, c.in_turn);
  erase(c);
  for (Job* j : again) schedule(*j);
  if (d.hungry.empty()) leave_class_line(d);  // they found another place
  --d.references;
  drop_if_unused(d);
}

bool Model::close_idle_of(SessionClass& c) {
  Connection* idle = c.idle.front();
  if (idle == nullptr) return false;
  retire(*idle);
  return true;
}

void Model::serve_classes() {
  while (!dirty_classes.empty()) {
    SessionClass& c = *dirty_classes.back();
    dirty_classes.pop_back();
    c.dirty = false;
    while (c.full && c.closing < c.waiting_count && close_idle_of(c)) ++c.closing;
    while (!c.full && c.asking == 0 && !draining) {
      Destination* const d = c.waiting.front();
      if (d == nullptr) break;
      leave_class_line(*d);
      ++d->references;
      c.turn = d;
      unblock(*d);
      pump_workers();
      const bool used = c.turn == nullptr;
      c.turn = nullptr;  // what had nothing to open after all leaves its turn to the next
      if (used && wants_more(*d)) wait_for_session(*d);
      --d->references;
      drop_if_unused(*d);
    }
  }
}

}  // namespace pen::qmgr::scheduler

namespace pen::qmgr {

using namespace scheduler;

void Scheduler::session_granted(ConnectionNumber number) {
  Model& s = *model_;
  if (const auto it = s.connections.find(number); it != s.connections.end()) {
    s.session_answered(*it->second);
    it->second->opened_at = s.now;  // it begins now
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
  const auto it = s.session_classes.find(number);
  if (it == s.session_classes.end()) return;
  SessionClass& c = *it->second;
  c.full = false;
  c.closing = 0;
  s.mark_class(c);
  s.settle();
}

bool Scheduler::yield_session(std::uint32_t number) {
  Model& s = *model_;
  const auto it = s.session_classes.find(number);
  const bool closing = it != s.session_classes.end() && s.close_idle_of(*it->second);
  s.settle();
  return closing;
}

}  // namespace pen::qmgr
