#include "tools/destination_listing.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/queue/destdb/name.h"
#include "lib/queue/views/limits.h"
#include "lib/suite/ipc/delivery.h"

namespace pen::tools {

using ipc::destinations::Backend;
using ipc::destinations::Class;
using ipc::destinations::ClassSeen;
using ipc::destinations::Entry;
using ipc::destinations::Explained;
using ipc::destinations::Rule;
using views::class_word;
using views::trouble_word;

namespace {

std::string when(WallTime t) { return t == WallTime{} ? "-" : local_text(t); }

std::string milliseconds_of(microseconds t) { return fmt::format("{:.1f} ms", static_cast<double>(t.count()) / 1000); }

std::string limit_of(std::uint32_t n) { return n == 0 ? "no limit" : std::to_string(n); }

/// The reason for a destination's state, in a few words.
std::string why(const Seen& d) {
  if (!d.entry.suspended.empty()) return readable(d.entry.suspended);
  if (d.facts.failures > 0) return readable(d.facts.reason);
  return readable(views::limits_why(d.entry.limits, d.entry.quotas));
}

/// The rule that decides, by its number in docs/scheduler.md.
std::string rule_text(const Explained& e) {
  switch (e.rule) {
    case Rule::room:
      return "1: an active connection with room, the most recent first";
    case Rule::idle:
      return "3: the most recent idle connection";
    case Rule::unused:
      return "3: a new connection, to a host not met yet, at random";
    case Rule::closed:
      return "3: a new connection, to the host whose last one was closed longest ago";
    case Rule::retry:
      return "3: a new connection to a host that failed and whose retry time has come, at random";
    case Rule::fewest:
      return "3: a further connection to a host with the fewest";
    case Rule::ride:
      return "2: no new connection is possible: a free ride on one that is busy";
    case Rule::wait:
      if (e.pooled > 0) return fmt::format("2: {} jobs wait for these hosts already: it stands behind them", e.pooled);
      return "2: no connection has room and none can be opened: the job waits for one";
    case Rule::nothing:
      return "4: no host is to be tried now: deferred";
    case Rule::unroutable:
      return "routing: there is no route";
  }
  return {};
}

/// "google of a.example: 10/m (learned), 5 jobs wait, 8 in the last minute; rests for 300 s: reason".
std::string limit_text(const ipc::destinations::Limit& l, std::uint32_t place,
                       const std::vector<ipc::destinations::Quota>& quotas) {
  std::string text = readable(views::limit_subject(l)) + ": ";
  std::string limits = l.rate;
  if (l.connections > 0) limits += fmt::format("{}{} connections", limits.empty() ? "" : ", ", l.connections);
  text += limits.empty() ? "no rate" : limits;
  if (!l.set.empty()) text += " (set: " + l.set + ")";
  if (!l.ordered.empty()) text += " (ordered: " + l.ordered + ")";
  text += fmt::format(", {} in the last minute", l.last_minute);
  for (const auto& q : quotas)
    if (q.limit == place) text += ", " + views::quota_text(q);
  if (l.waiting > 0) text += fmt::format(", {} jobs wait", l.waiting);
  if (l.held.count() > 0) text += fmt::format(", rests for {} s", (l.held.count() + 999) / 1000);
  if (l.complaints > 0) text += fmt::format(", {} complaints", l.complaints);
  if (!l.reason.empty())
    text += fmt::format("; last {} by rule {}: {}", when(l.complained), readable(l.rule), readable(l.reason));
  return text;
}

std::string class_text(const ClassSeen& c) {
  const auto& n = c.counts;
  std::string text =
      fmt::format("{}: outgoing sessions wait at {}, clients are refused at {}", n.mask, n.total, n.refuse);
  if (!c.unknown.empty()) return text + "; its counts are not known: " + readable(c.unknown);
  text += fmt::format("; {} outgoing (leases of qmgr) and {} incoming now", n.outgoing, n.incoming);
  if (n.outgoing + n.incoming >= n.total) text += ": full";
  if (c.in_line > 0) text += fmt::format(", hosts in line for a session: {}", c.in_line);
  return text;
}

}  // namespace

Seen from_file(const std::string& key, const destdb::Facts& facts, const destdb::Suspensions& suspensions,
               WallTime now) {
  Seen d;
  d.facts = facts;
  d.entry.key = key;
  d.entry.shown = facts.shown;
  d.entry.transport = key.substr(0, key.find('\0'));
  d.entry.classification = facts.failures == 0 ? Class::closed : facts.next_retry > now ? Class::failing : Class::retry;
  const auto shown = destdb::parse_shown(facts.shown);
  for (const auto& name : destdb::names_of(shown.host, shown.address, shown.port)) {
    const auto it = suspensions.find(name);
    if (it == suspensions.end()) continue;
    d.entry.classification = Class::suspended;
    d.entry.suspended =
        "delivery to " + name + " is suspended" + (it->second.reason.empty() ? "" : ": " + it->second.reason);
    break;
  }
  return d;
}

std::string list_header() { return "STATE      CONN JOBS FAIL NEXT TRY            DESTINATION (TRANSPORT) REASON\n"; }

std::string list_line(const Seen& d) {
  const std::string reason = why(d);
  return fmt::format("{:<10} {:>4} {:>4} {:>4} {:<19} {} ({}){}{}\n", class_word(d.entry.classification),
                     d.live ? std::to_string(d.entry.connections) : "-",
                     d.live ? std::to_string(d.entry.in_hand + d.entry.waiting) : "-", d.facts.failures,
                     d.facts.failures > 0 ? when(d.facts.next_retry) : "-", readable(d.entry.shown), d.entry.transport,
                     d.entry.source.empty() ? "" : " from " + d.entry.source, reason.empty() ? "" : " " + reason);
}

std::string limit_line(const ipc::destinations::LimitSeen& l) {
  return "           " + limit_text(l.limit, 0, l.quotas) + "\n";
}

std::string source_header() { return "STATE      CONN SOURCE           FROM, BY NAME, THROUGH; POOLS; REASON\n"; }

std::string source_line(const ipc::destinations::SourceSeen& s) {
  const char* state = !s.suspended.empty() ? "suspended"
                      : !s.resting.empty() ? "rests"
                      : !s.begins.empty()  ? "to come"
                      : s.warms_up         ? "warms up"
                                           : "in use";
  std::vector<std::string> from;
  for (const auto& word : {s.address, s.address6, s.helo, s.proxy})
    if (!word.empty()) from.push_back(word);
  std::string reason = readable(s.suspended.empty() ? s.resting : s.suspended);
  if (s.suspended.empty() && !s.resting.empty()) reason += ", until " + when(s.rests_until);
  if (reason.empty() && !s.begins.empty()) reason = "from " + s.begins + " on";
  return fmt::format("{:<10} {:>4} {:<16} {}; {}{}\n", state, s.connections, s.name,
                     from.empty() ? "any address" : join(from, ", "),
                     s.pools.empty() ? "in no pool" : join(s.pools, ", "), reason.empty() ? "" : "; " + reason);
}

std::string source_line(const ipc::destinations::SourceGroup& g) {
  std::string text;
  if (g.limit > 0)
    text = fmt::format("stage {}: {} of {} today, {} accepted", g.stage, g.taken, g.limit, g.accepted);
  else if (g.stage > 0)
    text = "warm";
  if (!g.blocked.empty())
    text +=
        (text.empty() ? "" : "; ") + fmt::format("blocked until {}: {}", when(g.blocked_until), readable(g.blocked));
  return fmt::format("{:<10} {:>4}   {} {}\n", "", "", readable(g.group), text.empty() ? "nothing" : text);
}

std::string list_line(const destdb::Suspension& s) {
  return fmt::format("{:<10} {:>4} {:>4} {:>4} {:<19} {} (by hand since {}){}\n", "suspended", "-", "-", "-", "-",
                     readable(s.name), when(s.since), s.reason.empty() ? "" : " " + readable(s.reason));
}

std::string show_text(const destdb::Suspension& s) {
  return fmt::format("{}\n  suspended by hand since {}{}\n", readable(s.name), when(s.since),
                     s.reason.empty() ? "" : ": " + readable(s.reason));
}

std::string show_text(const Seen& d) {
  const destdb::Facts& f = d.facts;
  std::string out = fmt::format("{} ({})\n", readable(d.entry.shown), d.entry.transport);
  const auto line = [&out](std::string_view name, const std::string& value) {
    out += fmt::format("  {:<22} {}\n", name, value);
  };
  line("state", std::string(class_word(d.entry.classification)));
  if (!d.entry.suspended.empty()) line("why", readable(d.entry.suspended));
  if (d.live) {
    line("connections", fmt::format("{}{} (limit now: {})", d.entry.connections,
                                    d.entry.shared ? fmt::format(" and {} of other hosts", d.entry.elsewhere) : "",
                                    limit_of(d.entry.limit)));
    line("jobs", fmt::format("{} in hand, {} waiting on its connections", d.entry.in_hand, d.entry.waiting));
    if (!d.entry.session_class.empty())
      line("session class", d.entry.session_class + (d.entry.in_line ? ": it waits for a session to end" : ""));
    for (std::uint32_t i = 0; i < d.entry.limits.size(); ++i)
      line("limit", limit_text(d.entry.limits[i], i, d.entry.quotas));
  }
  if (f.failures > 0) {
    line("failures in a row", fmt::format("{} ({})", f.failures, trouble_word(f.trouble)));
    line("next try", when(f.next_retry));
    line("last said", (f.dsn.empty() ? "" : f.dsn + " ") + readable(f.reason));
  }
  line("last connected", when(f.last_connect));
  line("last closed", when(f.last_close));
  if (f.last_connect != WallTime{}) {
    std::string offers;
    for (const auto& [has, name] :
         {std::pair{f.pipelining, "PIPELINING"}, {f.chunking, "CHUNKING"}, {f.starttls, "STARTTLS"}})
      if (has) offers += (offers.empty() ? "" : " ") + std::string(name);
    if (f.size_limit > 0) offers += fmt::format("{}SIZE {}", offers.empty() ? "" : " ", f.size_limit);
    line("offers", offers.empty() ? "nothing" : offers);
    line("connecting takes", milliseconds_of(f.connect_time));
    line("round trip", milliseconds_of(f.round_trip));
    line("a job takes", milliseconds_of(f.service_time));
  }
  if (f.tolerated_connections > 0)
    line("tolerates",
         fmt::format("{} connections; one more is tried after {}", f.tolerated_connections, when(f.tolerated_until)));
  if (f.paying_connections > 0)
    line("more do not pay",
         fmt::format("than {} connections; some more are tried after {}", f.paying_connections, when(f.paying_until)));
  if (f.step_by_step_until != WallTime{})
    line("broke when pipelined", fmt::format("one command at a time until {}", when(f.step_by_step_until)));
  if (f.clear_text_until != WallTime{})
    line("TLS broke", fmt::format("clear text until {}, where the policy permits it", when(f.clear_text_until)));
  if (f.asked_last_until != WallTime{})
    line("took nothing",
         fmt::format("{} times in a row; other hosts come first until {}", f.deferrals, when(f.asked_last_until)));
  if (f.one_domain_until != WallTime{})
    line("takes", fmt::format("one domain in a transaction, until {}", when(f.one_domain_until)));
  if (f.messages_per_connection > 0)
    line("closes after",
         fmt::format("{} messages; more are tried after {}", f.messages_per_connection, when(f.messages_until)));
  return out;
}

std::string backend_text(const Backend& b) {
  if (b.name != "redis") return "own knowledge of this host (destdb_backend = lmdb)";
  if (b.up)
    return fmt::format("redis at {} since {}: {} hosts, this one is {}", readable(b.server), when(b.since), b.hosts,
                       readable(b.instance));
  return fmt::format("own knowledge of this host: redis at {} is not reached since {}: {}", readable(b.server),
                     when(b.since), readable(b.why));
}

std::string explain_text(const Explained& e, const std::vector<Seen>& hosts, const Backend& backend, WallTime now) {
  std::string out;
  const auto line = [&out](std::string_view name, const std::string& value) {
    out += fmt::format("{:<12} {}\n", name, value);
  };
  line("recipient", readable(e.recipient));
  if (e.rule == Rule::unroutable) {
    line("decision", rule_text(e));
    line("says", e.status + " " + readable(e.text));
    return out;
  }
  line("transport", e.transport + (e.transport_up ? "" : " (its program cannot be reached: jobs wait)"));
  line("next hop", readable(e.nexthop));
  if (!e.by_sender.empty()) line("by sender", e.by_sender);
  if (!e.tls.empty()) line("TLS", readable(e.tls));
  line("knowledge", backend_text(backend));
  line("route", fmt::format("good for {} s, then looked up again", e.valid_for.count()));
  line("limits", fmt::format("{} connections of {} (free: {}), {} a destination, {} recipients a delivery",
                             limit_of(e.workers), e.transport, e.workers == 0 ? "any" : std::to_string(e.free_workers),
                             limit_of(e.concurrency), limit_of(e.recipients)));
  if (e.rate_delay.count() > 0)
    line("rate delay",
         fmt::format("{} s between two deliveries to a destination", static_cast<double>(e.rate_delay.count()) / 1000));
  for (std::uint32_t i = 0; i < e.limits.size(); ++i) line("limit", limit_text(e.limits[i], i, e.quotas));
  for (const auto& c : e.classes) line("class", class_text(c));
  if (e.pooled > 0) line("waiting", fmt::format("{} jobs for a connection to these hosts", e.pooled));
  for (const Seen& d : hosts) {
    const auto& entry = d.entry;
    std::string text =
        fmt::format("{} {:<9} {}", entry.chosen ? "*" : " ", class_word(entry.classification), readable(entry.shown));
    if (entry.connections > 0)
      text += fmt::format(", {} connections with {} jobs", entry.connections, entry.in_hand + entry.waiting);
    if (entry.shared && entry.elsewhere > 0) text += fmt::format(", {} connections of other hosts", entry.elsewhere);
    text += ", limit " + limit_of(entry.limit);
    if (!entry.session_class.empty()) text += ", session class " + entry.session_class;
    if (entry.in_line) text += " (waits for a session to end)";
    if (entry.paused.count() > 0)
      text += fmt::format(", next delivery in {} s by its rate delay", (entry.paused.count() + 999) / 1000);
    if (d.facts.failures > 0) {
      const auto left = std::chrono::ceil<seconds>(d.facts.next_retry - now);
      text += fmt::format(", {} failures, next try {}", d.facts.failures,
                          left.count() > 0 ? fmt::format("in {} s", left.count()) : "now");
    }
    if (const std::string reason = why(d); !reason.empty()) text += ": " + reason;
    line(fmt::format("level {}", entry.level + 1), text);
  }
  if (!e.suspended.empty()) {
    line("decision", "deferred: " + readable(e.suspended));
    return out;
  }
  std::string chosen;
  for (const Seen& d : hosts)
    if (d.entry.chosen) chosen += (chosen.empty() ? "" : ", ") + readable(d.entry.shown);
  line("decision", "rule " + rule_text(e) + (chosen.empty() ? "" : ": " + chosen));
  return out;
}

std::string json_line(const ipc::destinations::SourceSeen& s) { return views::text_of(views::to_json(s)); }
std::string json_line(const ipc::destinations::SourceGroup& g) { return views::text_of(views::to_json(g)); }
std::string json_line(const ipc::destinations::LimitSeen& l) { return views::text_of(views::to_json(l)); }
std::string json_line(const Backend& b) { return views::text_of(views::to_json(b)); }
std::string json_line(const Seen& d) { return views::text_of(views::to_json(d)); }
std::string json_line(const destdb::Suspension& s) { return views::text_of(views::to_json(s)); }
std::string json_line(const Explained& e, const std::vector<Seen>& hosts, const Backend& backend) {
  return views::text_of(views::to_json(e, hosts, backend));
}

}  // namespace pen::tools
