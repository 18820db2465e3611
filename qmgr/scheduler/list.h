#pragma once
/// Intrusive list with owners: every object carries one Node per list that it can be in (lib/base/link.h).
///
/// A node leaves its list by itself when its object dies. All operations are O(1).
#include "lib/base/link.h"

namespace pen::qmgr {

template <class T>
struct Node : Link {
  explicit Node(T* owner) : self(owner) {}
  T* self;
};

template <class T>
class List {
 public:
  ~List() {
    while (!empty()) head_.next->unlink();
  }
  bool empty() const { return !head_.linked(); }
  T* front() const { return empty() ? nullptr : of(head_.next); }
  T* back() const { return empty() ? nullptr : of(head_.prev); }
  /// The first will be looked at soon: what lies beside its node comes into the cache meanwhile.
  void prefetch_front() const {
    const char* const at = reinterpret_cast<const char*>(head_.next);
    __builtin_prefetch(at - 64);
    __builtin_prefetch(at);
  }
  void push_back(Node<T>& node) { head_.push_back(node); }
  void push_front(Node<T>& node) { head_.push_front(node); }
  T* pop_front() {
    T* first = front();
    if (first != nullptr) head_.next->unlink();
    return first;
  }
  /// Round robin: the first becomes the last.
  void rotate() {
    if (!empty()) head_.push_back(*head_.next);
  }
  template <class F>
  void for_each(F&& f) const {  // f may not change the list
    for (const Link* l = head_.next; l != &head_; l = l->next) f(*of(l));
  }

 private:
  static T* of(const Link* link) { return static_cast<const Node<T>*>(link)->self; }
  Link head_;
};

}  // namespace pen::qmgr
