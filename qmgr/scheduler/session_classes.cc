#include "qmgr/scheduler/session_classes.h"

namespace pen::qmgr::scheduler {

SessionClass* SessionClasses::find(std::uint32_t number) const {
  const auto it = classes_.find(number);
  return it == classes_.end() ? nullptr : it->second.get();
}

void SessionClasses::enter(Destination& d) {
  if (!options_.session_class || d.address.address.empty()) return;
  const auto found = options_.session_class(d.address.host, d.address.address);
  if (!found) return;
  auto& slot = classes_[found->number];
  if (!slot) {
    slot = std::make_unique<SessionClass>();
    slot->number = found->number;
  }
  d.session_class = slot.get();
}

void SessionClasses::mark(SessionClass& c) {
  if (c.dirty) return;
  c.dirty = true;
  dirty_.push_back(&c);
}

SessionClass& SessionClasses::next_dirty() {
  SessionClass& c = *dirty_.back();
  dirty_.pop_back();
  c.dirty = false;
  return c;
}

void SessionClasses::wait(Destination& d, bool first) {
  if (d.in_class_line.linked()) return;
  SessionClass& c = *d.session_class;
  if (first)
    c.waiting.push_front(d.in_class_line);
  else
    c.waiting.push_back(d.in_class_line);
  ++c.waiting_count;
  mark(c);
}

void SessionClasses::leave_line(Destination& d) {
  if (!d.in_class_line.linked()) return;
  d.in_class_line.unlink();
  --d.session_class->waiting_count;
  mark(*d.session_class);
}

void SessionClasses::ask(Connection& c) {
  SessionClass* s = c.destination->session_class;
  if (s == nullptr) return;
  c.asks = true;
  ++s->asking;
  c.in_turn = s->turn == c.destination;
  if (c.in_turn) s->turn = nullptr;
}

void SessionClasses::answered(Connection& c) {
  if (!c.asks) return;
  c.asks = false;
  --c.destination->session_class->asking;
  mark(*c.destination->session_class);
}

void SessionClasses::has_room(SessionClass& c) {
  c.full = false;
  c.closing = 0;
  mark(c);
}

}  // namespace pen::qmgr::scheduler
