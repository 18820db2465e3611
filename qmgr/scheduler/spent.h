#pragma once
/// What has gone within the times of quotas, kept over a restart and over the rest of a destination without mail.
///
/// Use:     spent.used(g) for each message; spent.recall(g) whenever the rates of a gate with windows were set, for it
///          fills those that are new; spent.leaves(g) for a gate that goes, or has no windows any more. For each of
///          take_changes() the caller writes or removes a record; load() at a start.
/// Writes:  the caller's, now and then. What went between the last of them and a kill is not known: a record that was
///          written while messages went says so, and then as many count as could go in kUnwritten at the gate's rate.
/// Bounds:  kMost records of gates that are not in memory; what comes beyond them is not kept.
/// Pure; time is a parameter. Thread: the scheduler's.
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"
#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr::scheduler {

struct Gate;

class SpentQuotas {
 public:
  static constexpr std::size_t kMost = 100'000;
  static constexpr seconds kUnwritten{10};  // twice what is between two writes

  explicit SpentQuotas(const Clock& clock) : clock_(clock) {}

  /// A message went through a gate with windows.
  void used(Gate& g);
  /// Windows that it has not seen before begin with what is known of them; one that it has seen stays as it is. Where
  /// there is no new one nothing is looked up. The gate's bucket knows the rate.
  void recall(Gate& g);
  /// Its windows go, and what they say stays.
  void leaves(Gate& g);

  /// last: nothing goes after this.
  std::vector<Spent> take_changes(bool last);
  /// False: the value says nothing that still counts, or is no such value.
  bool load(std::string_view key, std::string_view value);

 private:
  struct Kept {
    std::string value;
    WallTime until{};  // it says something
    bool untold = false;
  };
  static std::string key_of(const Gate& g);
  Kept encoded(const Gate& g, bool more) const;

  const Clock& clock_;
  std::set<Gate*> gates_;  // whose windows are not empty
  std::map<std::string, Kept, std::less<>> kept_;
};

}  // namespace pen::qmgr::scheduler
