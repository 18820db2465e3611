/// What some mail does to other mail: a hostile sender, a tarpit, dead hosts. Each runs with and without, all else
/// equal.
#include <fmt/format.h>

#include <algorithm>

#include "bench/scheduler/experiments.h"

namespace pen::simulation {

namespace {

constexpr double kFrom = 60, kTo = 360;  // s: the time that is compared
constexpr long kDeadUntil = 360;         // s: dead hosts are learned in the first minutes

Parameters parameters_of(const Setting& setting) {
  Parameters p;
  p.seed = setting.seed;
  p.limits.workers = static_cast<std::uint32_t>(std::max<std::uint64_t>(10, scaled(setting, 300)));
  p.until = seconds(static_cast<long>(kTo) + 240);
  p.rounds = 1;
  return p;
}

/// Recipients of the stream that were delivered per second of the time.
double throughput(const Outcome& o, std::size_t stream, double from, double to) {
  std::uint64_t before = 0, after = 0;
  for (const Sample& s : o.samples) {
    if (s.at <= static_cast<float>(from)) before = s.delivered[stream];
    if (s.at <= static_cast<float>(to)) after = s.delivered[stream];
  }
  return static_cast<double>(after - before) / (to - from);
}

std::string delays(const StreamOutcome& s) {
  return fmt::format("{:.3f} | {:.3f} | {:.2f} | {:.1f}", mean_delay(s, kFrom, kTo),
                     delay_percentile(s, 0.5, kFrom, kTo), delay_percentile(s, 0.99, kFrom, kTo),
                     delay_percentile(s, 1, kFrom, kTo));
}

/// Others' mail with nobody else, beside an envelope, and beside a sender of many messages.
std::vector<std::pair<std::string, std::vector<Stream>>> beside_hostile(const Setting& setting) {
  const double rate = 300 * setting.size;
  const Stream others{"others", seconds(0), static_cast<std::uint64_t>(rate * kTo), rate};
  const auto envelope_size = static_cast<std::uint32_t>(scaled(setting, 50'000));
  const Stream envelope{"envelope", seconds(60), 1, 0, envelope_size};
  Stream sender{"sender", seconds(60), scaled(setting, 10'000), 0};
  sender.one_sender = true;
  return {{"nobody else", {others}},
          {fmt::format("one envelope of {} recipients", envelope_size), {others, envelope}},
          {fmt::format("{} messages at once", sender.messages), {others, sender}}};
}

}  // namespace

std::vector<double> means_beside_hostile(const Setting& setting) {
  const Internet net = internet_of(setting);
  std::vector<double> means;
  for (const auto& [name, streams] : beside_hostile(setting)) {
    const Outcome o = Simulation(Kind::penstock, net, streams, parameters_of(setting)).run();
    means.push_back(mean_delay(o.streams[0], kFrom, kTo));
  }
  return means;
}

Report hostile(const Setting& setting) {
  const Internet net = internet_of(setting);
  const Parameters p = parameters_of(setting);
  Report report;
  report.text = fmt::format(
      "{} workers, {:.4g} messages/s of others; delays of those that arrive from {} s, when the "
      "hostile mail does, "
      "to {} s.\n\n"
      "| scheduler | beside | mean delay of others, s | half | 99 % | worst |\n| --- | --- | --- | "
      "--- | --- | --- |\n",
      p.limits.workers, 300 * setting.size, kFrom, kTo);
  for (const Kind kind : setting.kinds) {
    for (const auto& [name, streams] : beside_hostile(setting)) {
      const Outcome o = Simulation(kind, net, streams, p).run();
      report.text += fmt::format("| {} | {} | {} |\n", short_name(kind), name, delays(o.streams[0]));
    }
  }
  return report;
}

Report tarpit(const Setting& setting) {
  const Internet net = internet_of(setting);
  Parameters p = parameters_of(setting);
  const double rate = 300 * setting.size;
  const Stream others{"others", seconds(0), static_cast<std::uint64_t>(rate * kTo), rate};
  Stream slow{"tarpit", seconds(60), scaled(setting, 50'000), 0};
  slow.to = Stream::To::tarpit;
  Report report;
  report.text = fmt::format(
      "{} workers, {:.4g} messages/s of others; {} messages for one tarpit at {} s.\n\n"
      "| scheduler | active messages at most | beside | others delivered/s | mean delay, s | half "
      "| 99 % | worst |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
      p.limits.workers, rate, slow.messages, kFrom);
  for (const Kind kind : setting.kinds) {
    for (const std::size_t active : {scaled(setting, 100'000), scaled(setting, 20'000), scaled(setting, 1000)}) {
      p.limits.active_messages = active;
      for (const bool with : {false, true}) {
        const Outcome o =
            Simulation(kind, net, with ? std::vector<Stream>{others, slow} : std::vector<Stream>{others}, p).run();
        report.text +=
            fmt::format("| {} | {} | {} | {:.2f} | {} |\n", short_name(kind), active, with ? "the tarpit's" : "nobody",
                        throughput(o, 0, kFrom, kTo), delays(o.streams[0]));
      }
    }
  }
  return report;
}

Report dead_hosts(const Setting& setting) {
  Report report;
  report.text =
      "More mail than can be delivered, to hosts that answer; beside it nothing, or three sevenths "
      "as much for domains "
      "whose hosts are all dead.\n\n"
      "| hosts, three in ten of them dead | workers | scheduler | live mail delivered/s alone | "
      "beside dead hosts' mail | "
      "lost |\n| --- | --- | --- | --- | --- | --- |\n";
  for (const auto& [hosts, domains] : {std::pair(100U, 1000U), {1000U, 10'000U}, {100'000U, 1'000'000U}}) {
    InternetParameters like;
    like.hosts = hosts;
    like.domains = domains;
    like.dead = 0.3;
    const Internet net = internet_of(setting, like);
    Parameters p = parameters_of(setting);
    p.until = seconds(kDeadUntil);
    const double rate = 5000 * setting.size;
    Stream live{"live", seconds(0), static_cast<std::uint64_t>(rate * kDeadUntil), rate};
    live.to = Stream::To::reachable;
    Stream dead{"dead", seconds(0), static_cast<std::uint64_t>(rate * kDeadUntil * 3 / 7), rate * 3 / 7};
    dead.to = Stream::To::dead;
    p.keep_delays = false;
    for (const Kind kind : setting.kinds) {
      const double alone = throughput(Simulation(kind, net, {live}, p).run(), 0, kFrom, kDeadUntil);
      const double beside = throughput(Simulation(kind, net, {live, dead}, p).run(), 0, kFrom, kDeadUntil);
      report.text += fmt::format("| {} | {} | {} | {:.0f} | {:.0f} | {:.1f} % |\n", net.hosts(), p.limits.workers,
                                 short_name(kind), alone, beside, 100 * (1 - beside / alone));
    }
  }
  return report;
}

}  // namespace pen::simulation
