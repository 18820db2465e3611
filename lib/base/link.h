#pragma once
/// Intrusive doubly linked list. A node withdraws itself when destroyed, and so does a list head: whichever dies
/// first, the rest of the ring stays valid. Nodes never own what they link.

namespace pen {

struct Link {
  Link* prev = this;
  Link* next = this;
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() { unlink(); }
  bool linked() const { return next != this; }
  void unlink() {
    prev->next = next;
    next->prev = prev;
    prev = next = this;
  }
  /// Puts node at the tail of the list whose head is *this.
  void push_back(Link& node) {
    node.unlink();
    node.prev = prev;
    node.next = this;
    prev->next = &node;
    prev = &node;
  }
  /// Puts node at the head of that list.
  void push_front(Link& node) {
    if (&node != next) next->push_back(node);
  }
  /// Moves all nodes of the list headed by from to the tail of the list headed by *this.
  void splice_back(Link& from) {
    if (!from.linked()) return;
    from.next->prev = prev;
    prev->next = from.next;
    from.prev->next = this;
    prev = from.prev;
    from.prev = from.next = &from;
  }
};

}  // namespace pen
