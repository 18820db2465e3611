#pragma once
/// The experiments of docs/scheduler-simulation.md: each runs simulations and returns a Markdown table with its plots.
///
/// Rules:   the same seed and size give the same text and plots; experiments that measure CPU time and memory say so.
#include <functional>
#include <string>
#include <vector>

#include "bench/scheduler/plot.h"
#include "bench/scheduler/simulation.h"

namespace pen::simulation {

struct Setting {
  std::uint64_t seed = 1;
  double size = 1;  // of the internet and of the work; 0.01 for a quick look
  std::vector<Kind> kinds{std::begin(kKinds), std::end(kKinds)};  // the schedulers that run
  bool less = false;  // what takes minutes or comes several times is left out
};

struct Report {
  std::string text;                                 // Markdown
  std::vector<std::pair<std::string, Plot>> plots;  // by file name, without its ending
};

struct Experiment {
  std::string name;
  std::string help;
  std::function<Report(const Setting&)> run;
};
const std::vector<Experiment>& experiments();

/// Of experiments that run with several, from that of the setting on.
inline std::uint64_t seeds_of(const Setting& setting) { return setting.less ? 2 : 6; }

// In files of their own.
Report drain(const Setting& setting);
Report drains(const Setting& setting);
Report seeds(const Setting& setting);
Report bursts(const Setting& setting);
Report beside_steady(const Setting& setting);
Report drain_light(const Setting& setting);
Report mix(const Setting& setting);
Report hostile(const Setting& setting);
Report tarpit(const Setting& setting);
Report dead_hosts(const Setting& setting);
Report session_classes(const Setting& setting);
Report scale(const Setting& setting);
Report million(const Setting& setting);

/// Shared by the experiments.
std::vector<double> means_beside_hostile(const Setting& setting);  // hostile(), with Penstock
Internet internet_of(const Setting& setting, const InternetParameters& like = {});
std::uint64_t scaled(const Setting& setting, std::uint64_t number);
/// A percentile, in s, for single-recipient messages that arrived in the time; share in [0, 1]. 0 if there are none.
double delay_percentile(const StreamOutcome& stream, double share, double from, double to);
double mean_delay(const StreamOutcome& stream, double from, double to);
/// Jain's index: 1 if all are equal, 1/n if one has all.
double jain(const std::vector<double>& values);
double since_start(SteadyTime t);

}  // namespace pen::simulation
