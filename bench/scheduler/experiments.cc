/// The comparison of the four schedulers: a big envelope among single messages, and a mix of all sizes.
#include "bench/scheduler/experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pen::simulation {

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> all = {
      {"drain", "a 100,000-recipient envelope while single messages load the system heavily", drain},
      {"drains", "drain with six seeds, Penstock alone", drains},
      {"light", "the same envelope under a light load of single messages", drain_light},
      {"mix", "messages of 1 to 100,000 recipients and a burst", mix},
      {"hostile", "one sender's 50,000-recipient envelope and 10,000 messages", hostile},
      {"tarpit", "50,000 messages that wait for a tarpit", tarpit},
      {"classes", "session classes: a customer's hosts and all others share a slow line", session_classes},
      {"dead", "a third of the mail goes to hosts that are dead", dead_hosts},
      {"bursts", "bursts to one host, new or known, and how many connections they take", bursts},
      {"beside", "bursts beside steady mail to a route of several hosts", beside_steady},
      {"seeds", "a little of all with six seeds, Penstock alone: to see whether the page is true", seeds},
      {"scale", "CPU time and memory of a job with up to a million in hand and ten million done", scale},
      {"million",
       "CPU time of a job with a million in hand on the whole internet, run by run: to profile, and to compare two "
       "builds in turns",
       million},
  };
  return all;
}

Internet internet_of(const Setting& setting, const InternetParameters& like) {
  InternetParameters p = like;
  p.seed = setting.seed;
  p.hosts = static_cast<std::uint32_t>(std::max<std::uint64_t>(100, scaled(setting, p.hosts)));
  p.domains = static_cast<std::uint32_t>(std::max<std::uint64_t>(1000, scaled(setting, p.domains)));
  return Internet(p);
}

std::uint64_t scaled(const Setting& setting, std::uint64_t number) {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(number) * setting.size));
}

double since_start(SteadyTime t) { return std::chrono::duration<double>(t.time_since_epoch()).count(); }

namespace {

std::vector<float> delays_between(const StreamOutcome& stream, double from, double to) {
  std::vector<float> out;
  for (const auto& d : stream.delays) {
    const auto arrival = static_cast<double>(d.arrival);
    if (arrival >= from && arrival < to) out.push_back(d.delay);
  }
  return out;
}

double share_of(std::vector<float> values, double share) {
  if (values.empty()) return 0;
  const auto at = std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return static_cast<double>(values[at]);
}

}  // namespace

double delay_percentile(const StreamOutcome& stream, double share, double from, double to) {
  return share_of(delays_between(stream, from, to), share);
}

double mean_delay(const StreamOutcome& stream, double from, double to) {
  const auto delays = delays_between(stream, from, to);
  double sum = 0;
  for (const float d : delays) sum += static_cast<double>(d);
  return delays.empty() ? 0 : sum / static_cast<double>(delays.size());
}

double jain(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double v : values) {
    sum += v;
    squares += v * v;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(values.size()) * squares);
}

namespace {

constexpr double kEnvelopeAt = 60;  // s

std::pair<double, double> mean_use(const Outcome& o, double from, double to) {
  double held = 0, serving = 0, n = 0;
  for (const Sample& s : o.samples) {
    if (s.at < static_cast<float>(from) || s.at > static_cast<float>(to)) continue;
    held += s.held;
    serving += s.serving;
    ++n;
  }
  return n == 0 ? std::pair(0.0, 0.0) : std::pair(held / n, serving / n);
}

Plot::Line cumulative(const std::string& name, std::vector<float> values) {
  std::sort(values.begin(), values.end());
  Plot::Line line{name, {}};
  const std::size_t step = std::max<std::size_t>(1, values.size() / 190);
  for (std::size_t i = 0; i < values.size(); i += step) {
    line.points.emplace_back(values[i], 100.0 * static_cast<double>(i + 1) / static_cast<double>(values.size()));
  }
  return line;
}

Parameters usual_parameters(const Setting& setting) {
  Parameters p;
  p.seed = setting.seed;
  p.limits.workers = static_cast<std::uint32_t>(std::max<std::uint64_t>(10, scaled(setting, 300)));
  return p;
}

/// An envelope among single messages.
struct Drain {
  Drain(const Setting& setting, double singles_per_second)
      : rate(singles_per_second * setting.size),
        recipients(static_cast<std::uint32_t>(scaled(setting, 100'000))),
        streams({{"singles", seconds(0), static_cast<std::uint64_t>(rate * 600), rate},
                 {"envelope", seconds(static_cast<long>(kEnvelopeAt)), 1, 0, recipients}}) {}
  double rate;
  std::uint32_t recipients;
  std::vector<Stream> streams;
};

/// What became of it.
struct Drained {
  explicit Drained(const Outcome& o)
      : ninety(since_start(o.streams[1].ninety)), half(since_start(o.streams[1].half)), outcome(o) {}
  /// The delay of singles meanwhile that so many of them did not exceed.
  double delay(double share) const { return delay_percentile(outcome.streams[0], share, kEnvelopeAt, ninety); }
  std::string cells() const {
    const auto [held, serving] = mean_use(outcome, kEnvelopeAt, ninety);
    return fmt::format("{:.2f} | {:.2f} | {:.2f} | {:.1f} | {:.1f} | {:.1f} | {:.0f} | {:.0f} | {:.2f} | {:.2f} |",
                       delay(0.5), delay(0.9), delay(0.99), delay(1), half - kEnvelopeAt, ninety - kEnvelopeAt, held,
                       serving,
                       static_cast<double>(outcome.counts.attempts) / static_cast<double>(outcome.counts.deliveries),
                       outcome.jobs_per_connection());
  }
  static constexpr const char* kHead =
      "delay of singles meanwhile, s: half | 90 % | 99 % | worst | envelope delivered, s: half | 90 % | workers held | "
      "of them at work | connections opened per delivery | deliveries per connection |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  double ninety, half;
  const Outcome& outcome;
};

std::string described(const Drain& d, const Internet& net, const Parameters& p) {
  return fmt::format(
      "{} hosts, {} domains, {} workers; {:.4g} single messages/s for 600 s; {} recipients in one "
      "envelope at {} s.\n\n",
      net.hosts(), net.domains(), p.limits.workers, d.rate, d.recipients, kEnvelopeAt);
}

Report drain_with(const Setting& setting, double rate, const std::string& file) {
  const Internet net = internet_of(setting);
  const Parameters p = usual_parameters(setting);
  const Drain drain(setting, rate);
  const double recipients = drain.recipients;
  Report report;
  report.text = described(drain, net, p) + "| scheduler | " + Drained::kHead;
  Plot delays, rest, use;
  delays.title = "Single messages that arrive while the envelope drains";
  delays.x = {"delay, s", true, 0.05, 1000};
  delays.y = {"share delivered by then, %", false, 0, 100};
  rest.title = "What is left of the envelope";
  rest.x = {"s after its arrival", true, 1, 2000};
  rest.y = {"recipients not delivered, %", false, 0, 100};
  use.title = "Workers on which a host is serving a delivery";
  use.x = {"s after the envelope's arrival", false, -50, 400};
  use.y = {fmt::format("of {}", p.limits.workers), false, 0, static_cast<double>(p.limits.workers)};
  for (const Kind kind : setting.kinds) {
    const Outcome o = Simulation(kind, net, drain.streams, p).run();
    const Drained drained(o);
    report.text += fmt::format("| {} | {}\n", short_name(kind), drained.cells());
    delays.lines.push_back(cumulative(long_name(kind), delays_between(o.streams[0], kEnvelopeAt, drained.ninety)));
    Plot::Line left{long_name(kind), {}}, serves{long_name(kind), {}};
    double written = 200;
    for (const Sample& s : o.samples) {
      const double t = static_cast<double>(s.at) - kEnvelopeAt;
      const double share = 100 - 100.0 * static_cast<double>(s.delivered[1]) / recipients;
      if (t >= 1 && std::abs(share - written) >= 0.5) left.points.emplace_back(t, written = share);
      if (t >= -50 && t <= 400 && static_cast<long>(t) % 3 == 0) serves.points.emplace_back(t, s.serving);
    }
    rest.lines.push_back(std::move(left));
    use.lines.push_back(std::move(serves));
  }
  report.plots = {{file + "-delays", delays}};
  if (file == "drain") {  // under a light load they show nothing new
    report.plots.emplace_back(file + "-envelope", rest);
    report.plots.emplace_back(file + "-workers", use);
  }
  return report;
}

}  // namespace

Report drain(const Setting& setting) { return drain_with(setting, 500, "drain"); }
Report drain_light(const Setting& setting) { return drain_with(setting, 50, "light"); }

Report drains(const Setting& setting) {
  Report report;
  for (std::uint64_t seed = setting.seed; seed < setting.seed + seeds_of(setting); ++seed) {
    const Setting one{seed, setting.size, {}};
    const Internet net = internet_of(one);
    const Parameters p = usual_parameters(one);
    const Drain drain(one, 500);
    if (report.text.empty())
      report.text = "And the next ones. " + described(drain, net, p) + "| seed | " + Drained::kHead;
    const Outcome o = Simulation(Kind::penstock, net, drain.streams, p).run();
    report.text += fmt::format("| {} | {}\n", seed, Drained(o).cells());
  }
  return report;
}

namespace {

std::vector<Stream> mixed(const Setting& setting) {
  const auto of = [&](double rate, std::uint32_t least, std::uint32_t most, const char* label) {
    Stream s{label, seconds(0), 0, rate, least, most};
    s.messages = std::max<std::uint64_t>(2, static_cast<std::uint64_t>(rate * 600));
    return s;
  };
  std::vector<Stream> streams = {of(150 * setting.size, 1, 0, "1"), of(2 * setting.size, 10, 100, "10 - 99"),
                                 of(0.2 * setting.size, 100, 1000, "100 - 999"),
                                 of(0.02, 1000, 10'000, "1,000 - 9,999"),
                                 of(0.005, 10'000, 100'000, "10,000 - 99,999")};
  for (std::size_t i = 3; i < streams.size(); ++i) {
    streams[i].recipients = static_cast<std::uint32_t>(scaled(setting, streams[i].recipients));
    streams[i].recipients_most = static_cast<std::uint32_t>(scaled(setting, streams[i].recipients_most));
  }
  streams.push_back({"burst of 5,000", seconds(300), scaled(setting, 5000), 0});
  return streams;
}

/// The median slowdown of a stream's messages; and how fair they are.
double slowdown(const StreamOutcome& s) {
  std::vector<float> ratios;
  for (const auto& x : s.slowdowns) ratios.push_back(x.ratio);
  return share_of(ratios, 0.5);
}

double fairness(const Outcome& o) {
  std::vector<double> speed;
  for (const StreamOutcome& s : o.streams) {
    const double its = slowdown(s);
    speed.push_back(its > 0 ? std::min(1.0, 1 / its) : 0);
  }
  return jain(speed);
}

}  // namespace

Report mix(const Setting& setting) {
  const Internet net = internet_of(setting);
  const Parameters p = usual_parameters(setting);
  const std::vector<Stream> streams = mixed(setting);
  Report report;
  report.text = fmt::format("{} hosts, {} domains, {} workers.\n\n| recipients of a message | messages |", net.hosts(),
                            net.domains(), p.limits.workers);
  std::vector<std::vector<double>> table;
  std::vector<double> index, per_connection, end;
  std::vector<std::uint64_t> messages;
  for (const Kind kind : setting.kinds) {
    const Outcome o = Simulation(kind, net, streams, p).run();
    report.text += fmt::format(" {} |", short_name(kind));
    auto& column = table.emplace_back();
    messages.clear();
    for (const StreamOutcome& s : o.streams) {
      column.push_back(slowdown(s));
      messages.push_back(s.messages);
    }
    index.push_back(fairness(o));
    per_connection.push_back(o.jobs_per_connection());
  }
  report.text += "\n| --- | --- |";
  for (std::size_t kind = 0; kind < setting.kinds.size(); ++kind) report.text += " --- |";
  report.text += "\n";
  for (std::size_t row = 0; row < streams.size(); ++row) {
    report.text += fmt::format("| {} | {} |", streams[row].label, messages[row]);
    for (const auto& column : table) report.text += fmt::format(" {:.2f} |", column[row]);
    report.text += "\n";
  }
  const auto last = [&](const char* label, const std::vector<double>& values) {
    report.text += fmt::format("| {} |  |", label);
    for (const double v : values) report.text += fmt::format(" {:.2f} |", v);
    report.text += "\n";
  };
  last("Jain's index of the rows above", index);
  last("deliveries per connection", per_connection);
  return report;
}

Report seeds(const Setting& setting) {
  Report report;
  report.text =
      "And the next ones.\n\n"
      "| seed | heavy load: singles' 99 %, s | envelope's 90 %, s | deliveries per connection | light load: envelope's "
      "90 %, s | deliveries per connection | all sizes: Jain's index | deliveries per connection | mean of others, s | "
      "beside an envelope | beside a sender |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (std::uint64_t seed = setting.seed; seed < setting.seed + seeds_of(setting); ++seed) {
    const Setting one{seed, setting.size, {Kind::penstock}, setting.less};
    const Internet net = internet_of(one);
    const Parameters p = usual_parameters(one);
    const auto run = [&](const std::vector<Stream>& streams) {
      return Simulation(Kind::penstock, net, streams, p).run();
    };
    const Outcome heavy = run(Drain(one, 500).streams), light = run(Drain(one, 50).streams), all = run(mixed(one));
    report.text += fmt::format("| {} | {:.2f} | {:.1f} | {:.2f} | {:.1f} | {:.2f} | {:.2f} | {:.2f} |", seed,
                               Drained(heavy).delay(0.99), Drained(heavy).ninety - kEnvelopeAt,
                               heavy.jobs_per_connection(), Drained(light).ninety - kEnvelopeAt,
                               light.jobs_per_connection(), fairness(all), all.jobs_per_connection());
    for (const double mean : means_beside_hostile(one)) report.text += fmt::format(" {:.3f} |", mean);
    report.text += "\n";
  }
  return report;
}

}  // namespace pen::simulation
