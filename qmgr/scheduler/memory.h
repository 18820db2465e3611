#pragma once
/// Memory: keeps in destdb what was learned of a destination (destdb::Facts), for when it is forgotten here; and
/// shares the facts of a host among the sources that mail goes there from.
#include "lib/queue/destdb/host_facts.h"
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
    if (d.host_key.empty()) return;
    destdb::Facts host = table_.find(d.host_key).value_or(destdb::Facts());
    destdb::copy_host_facts(d.facts, host);
    host.used = clock_.wall;
    if (host.shown.empty()) host.shown = d.address.shown();
    table_.put(d.host_key, host);
  }
  /// Takes over what was learned of its host from other sources.
  void refresh(Destination& d) const {
    if (d.host_key.empty()) return;
    if (const auto host = table_.find(d.host_key)) destdb::copy_host_facts(*host, d.facts);
  }

 private:
  destdb::Table& table_;
  const Clock& clock_;
};

}  // namespace pen::qmgr::scheduler
