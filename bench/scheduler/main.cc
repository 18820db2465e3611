// penscheduler_bench: the schedulers in a simulated internet. docs/scheduler-simulation.md says what the figures mean.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "bench/scheduler/experiments.h"

int main(int argc, char** argv) {
  using namespace pen::simulation;
  CLI::App app{
      "Runs a scheduling experiment in virtual time and prints its table in Markdown.\n"
      "Same seed and size: same figures, but for CPU time and memory."};
  Setting setting;
  std::string name, plots;
  std::string names = "the experiment:";
  for (const Experiment& e : experiments()) names += "\n  " + e.name + ": " + e.help;
  app.add_option("experiment", name, names)->required();
  app.add_option("--seed", setting.seed, "of everything random (1)");
  app.add_option("--size", setting.size, "of the internet and the work, as a share (1)")
      ->check(CLI::Range(0.001, 10.0));
  std::vector<std::string> only;
  app.add_option("--scheduler", only, "only this one: fcfs, equal, slots or penstock; may be repeated")
      ->check(CLI::IsMember({"fcfs", "equal", "slots", "penstock"}));
  app.add_flag("--less", setting.less, "fewer seeds, no ten million jobs, and no run again: to compare the rest");
  app.add_option("--plots", plots, "an existing directory where the plots are written as SVG");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 64;
  }
  if (!only.empty()) {
    std::erase_if(setting.kinds,
                  [&](Kind kind) { return std::find(only.begin(), only.end(), short_name(kind)) == only.end(); });
  }
  for (const Experiment& e : experiments()) {
    if (e.name != name) continue;
    const Report report = e.run(setting);
    std::printf("Seed %llu, size %g. %s", static_cast<unsigned long long>(setting.seed), setting.size,
                report.text.c_str());
    for (const auto& [file, plot] : report.plots) {
      if (plots.empty()) break;
      const auto path = std::filesystem::path(plots) / (file + ".svg");
      std::ofstream out(path);
      out << plot.svg();
      out.close();
      if (!out) {
        std::fprintf(stderr, "%s: cannot be written; --plots wants a directory that exists\n", path.c_str());
        return 73;
      }
    }
    return 0;
  }
  std::fprintf(stderr, "no experiment \"%s\": see --help\n", name.c_str());
  return 64;
}
