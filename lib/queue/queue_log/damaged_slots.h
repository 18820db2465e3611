#pragma once
/// The slots of segments with lost bytes: they are not used again, but set aside under another name, for a person to
/// look at. Private to lib/queue/queue_log.
///
/// Use:     pool.damaged().keep(slot);                      // damage was met in it
///          if (!pool.damaged().put_aside(slot)) free it;   // nothing needs it any more
///          for (Slot slot : pool.damaged().take_aside()) … // with the next save: a batch renames it
///          pool.damaged().forget(slot);                    // it is gone
#include <set>
#include <utility>
#include <vector>

#include "lib/queue/queue_log/breakage.h"
#include "lib/queue/queue_log/format.h"

namespace pen::queue_log {

class DamagedSlots {
 public:
  void keep(Slot slot) { slots_.insert(slot); }
  bool contains(Slot slot) const { return slots_.contains(slot); }
  const std::set<Slot>& all() const { return slots_; }
  /// A slot that nothing needs any more: true when it is damaged, and will be set aside instead of used again.
  bool put_aside(Slot slot) {
    if (!contains(slot) || broken(Breakage::recycle_damaged)) return false;
    aside_.push_back(slot);
    return true;
  }
  /// Slots to be set aside once positions that need them no more are saved.
  std::vector<Slot> take_aside() { return std::exchange(aside_, {}); }
  void forget(Slot slot) { slots_.erase(slot); }

 private:
  std::set<Slot> slots_;
  std::vector<Slot> aside_;  // of these, set aside with the next save
};

}  // namespace pen::queue_log
