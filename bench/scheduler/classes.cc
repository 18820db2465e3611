/// Session classes as in docs/origins.md: a customer inside, all others over a slow line.
#include <fmt/format.h>

#include "bench/scheduler/experiments.h"
#include "lib/base/check.h"

namespace pen::simulation {

namespace {
constexpr const char* kClasses = "*.customer.fr 8 8, * 3 3";  // docs/origins.md, "Session classes"
constexpr double kTo = 600;                                   // s: mail and calls arrive until then
}  // namespace

Report session_classes(const Setting& setting) {
  InternetParameters like;
  like.hosts = 2000;
  like.domains = 20'000;
  like.customer = 40;
  const Internet net = internet_of({setting.seed, 1, {}}, like);  // the limits do not scale with the size
  auto parsed = sessions::Classes::parse(kClasses);
  PEN_CHECK(parsed.has_value());
  const auto classes = std::make_shared<const sessions::Classes>(*std::move(parsed));
  const auto messages = [&](double rate) {
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rate * kTo * setting.size));
  };
  const auto until = seconds(static_cast<long>(kTo * setting.size));
  Stream inside{"inside", seconds(0), messages(5), 5};
  inside.to = Stream::To::customer;
  Stream outside{"outside", seconds(0), messages(1.5), 1.5};
  outside.to = Stream::To::ordinary;
  Report report;
  report.text = fmt::format(
      "session_classes = {}; mail for {} hosts of the customer (5/s) and for all others (1.5/s), "
      "beside clients of "
      "both (0.3/s and 0.2/s, for 5 s each).\n\n"
      "| session classes | mail | messages | delivered | deferred | mean delay, s | half | 99 % | "
      "class | sessions at once at "
      "most | of them outgoing | at its limit, s | clients taken | refused |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
      kClasses, net.customer().size());
  for (const bool with : {false, true}) {
    Parameters p;
    p.seed = setting.seed;
    p.limits.workers = 100;
    if (with) {
      p.limits.session_classes = classes;
      p.callers = {{"pc1.customer.fr", "192.0.2.1", 0.3, seconds(5), until},
                   {"mx.elsewhere.example", "198.51.100.1", 0.2, seconds(5), until}};
    }
    const Outcome o = Simulation(Kind::penstock, net, {inside, outside}, p).run();
    for (std::size_t n = 0; n < 2; ++n) {
      const StreamOutcome& s = o.streams[n];
      report.text +=
          fmt::format("| {} | {} | {} | {} | {} | {:.2f} | {:.2f} | {:.2f} |", with ? "as above" : "none",
                      n == 0 ? "inside" : "outside", s.messages, s.delivered, s.deferred, mean_delay(s, 0, kTo),
                      delay_percentile(s, 0.5, 0, kTo), delay_percentile(s, 0.99, 0, kTo));
      if (with) {
        const Sessions::Seen& seen = o.sessions[n];
        report.text += fmt::format(" {} | {} | {} | {:.0f} | {} | {} |\n", classes->list()[n].mask, seen.most,
                                   seen.most_outgoing, seen.full, seen.calls_taken, seen.calls_refused);
      } else {
        report.text += "  |  |  |  |  |  |\n";
      }
    }
  }
  return report;
}

}  // namespace pen::simulation
