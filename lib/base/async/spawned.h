#pragma once
/// A task that nobody awaits, as Loop::spawn and Gate::spawn make it. Internal to lib/base/async.
///
/// The object owns itself: it is deleted when the task ends, or by abandon(). It is in the loop's list of all spawned
/// tasks and, if a gate started it, in the gate's list too.
#include <string>

#include "lib/base/async/loop.h"

namespace pen::async::detail {

struct Spawned {
  struct Node : Link {
    explicit Node(Spawned* o) : owner(o) {}
    Spawned* owner;
  };
  /// Starts the task through the ready list. ended(context) is called when the task has ended by itself, not after
  /// abandon().
  static Spawned* start(Loop& loop, std::string name, Task<void> task, void (*ended)(void*), void* context);
  /// Destroys the task where it is suspended. The task must not call this itself.
  void abandon();
  std::string describe() const;  // name and age
  static Spawned& of(Link& link) { return *static_cast<Node&>(link).owner; }

  Loop& loop;
  std::string name;
  SteadyTime started;
  void (*ended)(void*);
  void* context;
  ReadyNode ready;
  Node in_loop{this};
  Node in_gate{this};
};

Link& spawned_list(Loop& loop);
void count_spawned(Loop& loop, int by);

}  // namespace pen::async::detail
