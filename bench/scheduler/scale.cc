/// CPU time and memory per job: with few and with a million jobs in hand, for all schedulers.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>

#include "bench/scheduler/experiments.h"

namespace pen::simulation {

namespace {

constexpr std::size_t kEnough = 50'000;  // in hand: with fewer, other memory weighs more

constexpr std::uint64_t kRepeated = 1'000'000;  // jobs at most

struct Cost {
  Outcome outcome;
  std::uint64_t jobs = 0;
  std::size_t held = 0, memory = 0;  // with most jobs in hand
  double own() const { return 1e6 * outcome.own_cpu / static_cast<double>(jobs); }
  double all() const { return 1e6 * outcome.cpu / static_cast<double>(jobs); }
  std::string bytes() const {
    if (held < kEnough) return "";
    return fmt::format("{:.0f}", static_cast<double>(memory) / static_cast<double>(held));
  }
};

Cost run_once(Kind kind, const Internet& net, std::uint64_t seed, std::uint64_t jobs, std::size_t in_hand,
              bool share_limit = true) {
  Parameters p;
  p.seed = seed;
  p.limits.workers = 1000;
  p.rounds = 1;
  p.limits.active_messages = std::min<std::size_t>(jobs, in_hand);
  p.limits.share_limit = share_limit;
  p.keep_delays = false;
  p.measure_memory = true;
  p.sample = seconds(20);
  ::malloc_trim(0);  // so that memory left by earlier runs is not counted for this one
  const std::size_t before = resident_memory();
  Simulation simulation(kind, net, {{"all", seconds(0), jobs, 0}}, p);
  Cost c;
  c.jobs = jobs;
  c.outcome = simulation.run();
  for (const Sample& s : c.outcome.samples) {
    if (s.active < c.held) continue;
    c.held = s.active;
    c.memory = s.memory - std::min(s.memory, before);
  }
  return c;
}

/// The cheapest of three runs, because the machine does other things too. One run must do for the largest case.
Cost cost_of(Kind kind, const Internet& net, const Setting& setting, std::uint64_t jobs, std::size_t in_hand) {
  Cost best = run_once(kind, net, setting.seed, jobs, in_hand);
  for (int again = 0; again < 2 && jobs <= kRepeated && !setting.less; ++again) {
    Cost c = run_once(kind, net, setting.seed, jobs, in_hand);
    if (c.own() < best.own()) best = std::move(c);
  }
  return best;
}

}  // namespace

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
  const std::size_t in_hand = scaled(setting, 1'000'000);
  const std::size_t compared = scaled(setting, 100'000);  // more would take the slots scheduler hours
  std::string others;
  for (const auto& [hosts, domains] : {std::pair(50U, 1000U), {100'000U, 1'000'000U}}) {
    InternetParameters like;
    like.hosts = hosts;
    like.domains = domains;
    like.seed = setting.seed;
    if (hosts == 50) like.dead = like.tarpits = like.greylisting = like.closing = 0;
    const Internet net(like);
    Plot::Line line{fmt::format("{} domains on {} hosts", domains, hosts), {}};
    const auto row = [&](const Cost& c, std::string_view note) {
      report.text += fmt::format("| {} | {} | {}{} | {} | {:.0f} | {:.2f} | {:.2f} | {:.2f} | {} |\n", hosts, domains,
                                 c.jobs, note, std::min<std::size_t>(c.jobs, in_hand), since_start(c.outcome.end),
                                 c.outcome.jobs_per_connection(), c.own(), c.all(), c.bytes());
      line.points.emplace_back(static_cast<double>(c.jobs), c.own());
    };
    const std::uint64_t most = scaled(setting, 10'000'000U);
    for (const std::uint64_t size : {10'000U, 100'000U, 1'000'000U})
      row(cost_of(Kind::penstock, net, setting, scaled(setting, size), in_hand), "");
    if (setting.less) {
      // Ten million jobs take minutes.
    } else if (hosts == 50) {
      // A message that waits for 6,000 s is parked and admitted again some ten times, each of which costs as much as
      // a new job.
      row(run_once(Kind::penstock, net, setting.seed, most, in_hand, false), ", none parked");
      const Cost parked = run_once(Kind::penstock, net, setting.seed, most, in_hand);
      const std::size_t before = line.points.size();
      row(parked, "");
      line.points.resize(before);
    } else {
      row(cost_of(Kind::penstock, net, setting, most, in_hand), "");
    }
    plot.lines.push_back(std::move(line));
    for (const Kind kind : setting.kinds) {
      const Cost c = cost_of(kind, net, setting, compared, compared);
      others += fmt::format("| {} | {} | {} | {} | {:.2f} | {:.2f} | {} |\n", hosts, domains, compared,
                            short_name(kind), c.own(), c.all(), c.bytes());
    }
  }
  report.text +=
      "\n| hosts | domains | jobs, all in hand at once | scheduler | its own CPU, µs a job | with "
      "the simulator, µs a job | its memory, bytes a job in hand |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n" +
      others;
  report.plots = {{"scale", plot}};
  return report;
}

Report million(const Setting& setting) {
  constexpr int kRuns = 3;
  Report report;
  report.text =
      "Single messages, all there from the start.\n\n"
      "| run | scheduler's own CPU, µs a job | with the simulator, µs a job | scheduler's memory, "
      "bytes a job in hand |\n| --- | --- | --- | --- |\n";
  const Internet net = internet_of(setting);
  const std::uint64_t jobs = scaled(setting, kRepeated);
  for (int run = 1; run <= kRuns; ++run) {
    const Cost c = run_once(Kind::penstock, net, setting.seed, jobs, jobs);
    report.text += fmt::format("| {} | {:.2f} | {:.2f} | {} |\n", run, c.own(), c.all(), c.bytes());
  }
  return report;
}

}  // namespace pen::simulation
