/// Bursts to hosts that take their time (qmgr/scheduler/slow_peers.h): how soon they are through, over how many
/// connections, and what the model of Postfix makes of them.
#include <fmt/format.h>

#include "bench/scheduler/experiments.h"
#include "qmgr/scheduler/slow_peers.h"

namespace pen::simulation {

namespace {

namespace peers = qmgr::slow_peers;

/// Connections, messages on each, seconds.
std::string cells(std::uint64_t opened, double each, microseconds took) {
  return fmt::format("{} | {:.1f} | {:.2f}", opened, each, peers::seconds_of(took));
}

std::string cells(const peers::Outcome& o) { return cells(o.opened, o.per_connection(), o.took); }

std::string of_postfix(const peers::Burst& b) {
  const auto o = peers::postfix(b);
  return cells(o.opened, static_cast<double>(b.messages()) / static_cast<double>(o.opened), o.took);
}

}  // namespace

Report bursts(const Setting& setting) {
  Report report;
  report.text =
      "One host that waits before each reply; CHUNKING and PIPELINING offered; 20 connections at most. Known: it took "
      "mail before, and all connections have closed.\n\n"
      "| messages | reply, ms | round trip, ms | Postfix: connections | messages each | s | new host: connections | "
      "messages each | s | known host: connections | messages each | s |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const std::uint32_t messages : {5U, 20U, 60U, 300U, 3000U}) {
    for (const int trip : {0, 100}) {
      for (const int reply : {0, 10, 100}) {
        peers::Peer p;
        p.trip = trip == 0 ? microseconds(100) : microseconds(milliseconds(trip));
        p.greeting = p.ehlo = p.mail = p.rcpt = p.data = p.end_of_data =
            reply == 0 ? microseconds(50) : microseconds(milliseconds(reply));
        peers::Burst b = peers::burst(1, p, messages);
        b.seed = setting.seed;
        report.text +=
            fmt::format("| {} | {} | {} | {} | {} |", messages, reply, trip, of_postfix(b), cells(peers::run(b)));
        b.known = true;
        report.text += fmt::format(" {} |\n", cells(peers::run(b)));
      }
    }
  }
  return report;
}

Report beside_steady(const Setting& setting) {
  Report report;
  report.text =
      "Known hosts of one preference that take 71 ms for a message, with steady mail beside the burst; 20 connections "
      "to each at most.\n\n"
      "| hosts | round trip, ms | beside, messages/s | burst | connections opened for it | messages each | done after, "
      "s | Postfix, s |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  struct Row {
    std::size_t hosts;
    int trip;
    bool tls;
    std::uint32_t steady, messages;
  };
  for (const Row& r : {Row{1, 94, false, 0, 300}, Row{1, 94, false, 20, 300}, Row{2, 94, false, 0, 300},
                       Row{2, 94, false, 5, 300}, Row{2, 94, false, 20, 300}, Row{2, 30, true, 20, 300},
                       Row{1, 94, false, 40, 1000}, Row{5, 30, true, 40, 1000}, Row{5, 94, false, 40, 1000}}) {
    peers::Peer p;
    p.trip = milliseconds(r.trip);
    p.greeting = milliseconds(2);
    p.ehlo = r.tls ? 2 * p.trip + milliseconds(5) : microseconds(2000);
    p.end_of_data = milliseconds(71);
    p.window = 20;
    peers::Burst b = peers::burst(r.hosts, p, r.messages);
    b.known = true;
    b.steady = r.steady;
    b.seed = setting.seed;
    report.text += fmt::format("| {} | {}{} | {} | {} | {} | {:.2f} |\n", r.hosts, r.trip, r.tls ? ", TLS" : "",
                               r.steady, r.messages, cells(peers::run(b)), peers::seconds_of(peers::postfix(b).took));
  }
  return report;
}

}  // namespace pen::simulation
