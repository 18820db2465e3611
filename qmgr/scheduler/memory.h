#pragma once
/// Memory: keeps in destdb what was learned of a destination (destdb::Facts), for the time when it is forgotten here.
#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/destination.h"

namespace pen::qmgr::scheduler {

class Memory {
 public:
  Memory(destdb::Table& table, const Clock& clock) : table_(table), clock_(clock) {}
  /// Its facts have changed.
  void keep(Destination& d) const {
    d.known = true;
    d.facts.used = clock_.wall;
    if (d.facts.shown.empty()) d.facts.shown = d.address.shown();
    table_.put(d.key, d.facts);
  }

 private:
  destdb::Table& table_;
  const Clock& clock_;
};

}  // namespace pen::qmgr::scheduler
