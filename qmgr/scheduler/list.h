#pragma once
/// Intrusive doubly linked list: every object carries one Node per list that it can be in.
///
/// A node leaves its list by itself when its object dies. All operations are O(1).
#include <cstddef>

namespace pen::qmgr {

template <class T>
struct Node {
  explicit Node(T* owner) : self(owner) {}
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() { unlink(); }
  bool linked() const { return next != this; }
  void unlink() {
    prev->next = next;
    next->prev = prev;
    prev = next = this;
  }
  T* self;
  Node* prev = this;
  Node* next = this;
};

template <class T>
class List {
 public:
  List() = default;
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  ~List() {
    while (!empty()) head_.next->unlink();
  }
  bool empty() const { return !head_.linked(); }
  T* front() const { return empty() ? nullptr : head_.next->self; }
  void push_back(Node<T>& node) { insert_before(head_, node); }
  void push_front(Node<T>& node) { insert_before(*head_.next, node); }
  T* pop_front() {
    T* first = front();
    if (first != nullptr) head_.next->unlink();
    return first;
  }
  /// Round robin: the first becomes the last.
  void rotate() {
    if (!empty()) push_back(*head_.next);
  }
  template <class F>
  void for_each(F&& f) const {  // f may not change the list
    for (Node<T>* n = head_.next; n != &head_; n = n->next) f(*n->self);
  }

 private:
  static void insert_before(Node<T>& at, Node<T>& node) {
    if (&at == &node) return;
    node.unlink();
    node.prev = at.prev;
    node.next = &at;
    at.prev->next = &node;
    at.prev = &node;
  }
  Node<T> head_{nullptr};
};

}  // namespace pen::qmgr
