#pragma once
/// What pentop shows: values that stay as they are. tools/top_source.h asks for them, tools/top_view.h shows them.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/queue/views/destinations.h"
#include "lib/suite/ipc/queue.h"
#include "lib/suite/ipc/sessions.h"

namespace pen::tools {

/// Counts that only grow, by name: of qmgr's status and of the programs' pages.
using Counts = std::map<std::string, std::uint64_t>;

struct TopQueue {
  std::uint64_t messages = 0, bytes = 0;
  WallTime oldest{};  // arrival; none: there are no messages
};

/// A message of those that wait longest.
struct TopMessage {
  std::string queue_id, sender, domains;
  ipc::queue::Place place = ipc::queue::Place::deferred;
  WallTime arrival{}, next_try{};
  std::uint64_t size = 0;
};

inline constexpr std::size_t kTopPlaces = std::size(ipc::queue::kPlaceNames);

/// What takes a look at every message and destination; renewed seldom (TopSource).
struct TopSurvey {
  WallTime looked{};  // none: not yet
  std::array<TopQueue, kTopPlaces> places;
  std::vector<TopMessage> oldest;  // bounded
};

struct TopSnapshot {
  WallTime at{};
  std::string problem;  // qmgr does not answer, and why; empty: it does
  Counts counts;
  std::string pages_problem;  // the programs' counters cannot be read, and why
  bool accepting = true;
  TopSurvey survey;
  std::vector<views::Seen> destinations;  // the busiest, slowest and those in trouble; bounded
  std::uint64_t destinations_in_all = 0;
  std::vector<ipc::sessions::ClassStatus> classes;
};

/// Between two snapshots, in a second.
double rate(const TopSnapshot& before, const TopSnapshot& now, const std::string& count);
/// The mean of a sum and a number of events between two snapshots, in seconds; below zero: there were none.
double mean(const TopSnapshot& before, const TopSnapshot& now, const std::string& sum, const std::string& events);

}  // namespace pen::tools
