/// CPU time and memory of a job, with few and with a million jobs in hand.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>

#include "bench/scheduler/experiments.h"

namespace pen::simulation {

Report scale(const Setting& setting) {
  Report report;
  report.text =
      "Single messages, all there from the start. CPU time differs from run to run and machine to "
      "machine.\n\n"
      "| hosts | domains | jobs | in hand at most | virtual time, s | deliveries per connection | "
      "scheduler's own CPU, "
      "µs a job | with the simulator, µs a job | scheduler's memory, bytes a job in hand |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  Plot plot;
  plot.title = "The scheduler's own CPU time";
  plot.x = {"jobs", true};
  plot.y = {"µs a job", false};
  for (const auto& [hosts, domains] : {std::pair(50U, 1000U), {100'000U, 1'000'000U}}) {
    InternetParameters like;
    like.hosts = hosts;
    like.domains = domains;
    like.seed = setting.seed;
    if (hosts == 50) like.dead = like.tarpits = like.greylisting = like.closing = 0;
    const Internet net(like);
    Plot::Line line{fmt::format("{} domains on {} hosts", domains, hosts), {}};
    for (const std::uint64_t size : {10'000U, 100'000U, 1'000'000U, 10'000'000U}) {
      const std::uint64_t jobs = scaled(setting, size);
      Parameters p;
      p.seed = setting.seed;
      p.limits.workers = 1000;
      p.rounds = 1;
      p.limits.active_messages = std::min<std::size_t>(jobs, scaled(setting, 1'000'000));
      p.keep_delays = false;
      p.measure_memory = true;
      p.sample = seconds(20);
      ::malloc_trim(0);  // what earlier runs left is not taken for this one's
      Simulation simulation(Kind::penstock, net, {{"all", seconds(0), jobs, 0}}, p);
      const std::size_t before = resident_memory();
      const Outcome o = simulation.run();
      std::size_t most = 0, held = 0;  // memory with most in hand
      for (const Sample& s : o.samples) {
        if (s.active < held) continue;
        held = s.active;
        most = s.memory;
      }
      const double own = 1e6 * o.own_cpu / static_cast<double>(jobs);
      const std::string bytes =  // of fewer, other things weigh more
          held < 50'000 ? ""
                        : fmt::format("{:.0f}", static_cast<double>(most - std::min(most, before)) /
                                                    static_cast<double>(held));
      report.text +=
          fmt::format("| {} | {} | {} | {} | {:.0f} | {:.2f} | {:.2f} | {:.2f} | {} |\n", hosts,
                      domains, jobs, p.limits.active_messages, since_start(o.end),
                      o.jobs_per_connection(), own, 1e6 * o.cpu / static_cast<double>(jobs), bytes);
      line.points.emplace_back(static_cast<double>(jobs), own);
    }
    plot.lines.push_back(std::move(line));
  }
  report.plots = {{"scale", plot}};
  return report;
}

}  // namespace pen::simulation
