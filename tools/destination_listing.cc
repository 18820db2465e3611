#include "tools/destination_listing.h"

#include <fmt/core.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "lib/base/text.h"
#include "lib/destdb/name.h"
#include "lib/ipc/delivery.h"

namespace pen::tools {

using ipc::destinations::Backend;
using ipc::destinations::Class;
using ipc::destinations::ClassSeen;
using ipc::destinations::Entry;
using ipc::destinations::Explained;
using ipc::destinations::Rule;
using nlohmann::ordered_json;

namespace {

std::string when(WallTime t) {
  if (t == WallTime{}) return "-";
  const std::time_t at = unix_seconds(t);
  std::tm tm{};
  ::localtime_r(&at, &tm);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
  return text;
}

std::string milliseconds_of(microseconds t) { return fmt::format("{:.1f} ms", static_cast<double>(t.count()) / 1000); }

std::string limit_of(std::uint32_t n) { return n == 0 ? "no limit" : std::to_string(n); }

std::string_view trouble_word(std::uint8_t trouble) {
  static constexpr std::string_view kWords[] = {
      "none",         "connection refused", "timed out", "unreachable", "greeting 4xx",
      "greeting 5xx", "connection lost",    "reply 421", "TLS",         "local"};
  return trouble < std::size(kWords) ? kWords[trouble] : "unknown";
}

/// The reason for a destination's state, in a few words.
std::string why(const Seen& d) {
  if (!d.entry.suspended.empty()) return printable(d.entry.suspended);
  if (d.facts.failures > 0) return printable(d.facts.reason);
  return {};
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
      return "2: no connection has room and none can be opened: the job waits for one";
    case Rule::nothing:
      return "4: no host is to be tried now: deferred";
    case Rule::unroutable:
      return "routing: there is no route";
  }
  return {};
}

std::string_view rule_word(Rule rule) {
  static constexpr std::string_view kWords[] = {"room",   "idle", "unused", "closed",  "retry",
                                                "fewest", "ride", "wait",   "nothing", "unroutable"};
  return kWords[static_cast<std::size_t>(rule)];
}

std::string class_text(const ClassSeen& c) {
  const auto& n = c.counts;
  std::string text =
      fmt::format("{}: outgoing sessions wait at {}, clients are refused at {}", n.mask, n.total, n.refuse);
  if (!c.unknown.empty()) return text + "; its counts are not known: " + printable(c.unknown);
  text += fmt::format("; {} outgoing (leases of qmgr) and {} incoming now", n.outgoing, n.incoming);
  if (n.outgoing + n.incoming >= n.total) text += ": full";
  if (c.in_line > 0) text += fmt::format(", hosts in line for a session: {}", c.in_line);
  return text;
}

ordered_json json_of(const ClassSeen& c) {
  ordered_json j;
  j["class"] = c.counts.mask;
  j["total_limit"] = c.counts.total;
  j["refuse_limit"] = c.counts.refuse;
  if (c.unknown.empty()) {
    j["incoming"] = c.counts.incoming;
    j["outgoing"] = c.counts.outgoing;
  } else {
    j["unknown"] = c.unknown;
  }
  j["hosts_in_line"] = c.in_line;
  return j;
}

std::string dump(const ordered_json& j) {
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

ordered_json json_of(const Seen& d) {
  const destdb::Facts& f = d.facts;
  ordered_json j;
  j["destination"] = d.entry.shown;
  j["transport"] = d.entry.transport;
  j["state"] = class_word(d.entry.classification);
  if (!d.entry.suspended.empty()) j["suspended"] = d.entry.suspended;
  if (d.live) {
    j["connections"] = d.entry.connections;
    j["connection_limit"] = d.entry.limit;
    if (d.entry.shared) j["connections_elsewhere"] = d.entry.elsewhere;
    j["jobs_in_hand"] = d.entry.in_hand;
    j["jobs_waiting"] = d.entry.waiting;
    if (d.entry.paused.count() > 0) j["rate_delay_left_ms"] = d.entry.paused.count();
    if (!d.entry.session_class.empty()) {
      j["session_class"] = d.entry.session_class;
      j["waits_for_session"] = d.entry.in_line;
    }
  }
  j["failures"] = f.failures;
  if (f.failures > 0) {
    j["next_retry"] = unix_seconds(f.next_retry);
    j["trouble"] = trouble_word(f.trouble);
    j["dsn"] = f.dsn;
    j["reason"] = f.reason;
  }
  const auto time = [&](const char* name, WallTime t) {
    if (t != WallTime{}) j[name] = unix_seconds(t);
  };
  time("last_connect", f.last_connect);
  time("last_close", f.last_close);
  time("last_change", f.used);
  if (f.last_connect != WallTime{}) {
    j["pipelining"] = f.pipelining;
    j["chunking"] = f.chunking;
    j["starttls"] = f.starttls;
    j["size_limit"] = f.size_limit;
    j["connect_time_us"] = f.connect_time.count();
    j["round_trip_us"] = f.round_trip.count();
    j["service_time_us"] = f.service_time.count();
  }
  if (f.step_by_step_until != WallTime{}) j["step_by_step_until"] = unix_seconds(f.step_by_step_until);
  if (f.clear_text_until != WallTime{}) j["clear_text_until"] = unix_seconds(f.clear_text_until);
  if (f.asked_last_until != WallTime{}) j["asked_last_until"] = unix_seconds(f.asked_last_until);
  if (f.one_domain_until != WallTime{}) j["one_domain_until"] = unix_seconds(f.one_domain_until);
  if (f.messages_per_connection > 0) {
    j["messages_per_connection"] = f.messages_per_connection;
    j["messages_until"] = unix_seconds(f.messages_until);
  }
  if (f.tolerated_connections > 0) {
    j["tolerated_connections"] = f.tolerated_connections;
    j["tolerated_until"] = unix_seconds(f.tolerated_until);
  }
  if (f.paying_connections > 0) {
    j["paying_connections"] = f.paying_connections;
    j["paying_until"] = unix_seconds(f.paying_until);
  }
  return j;
}

}  // namespace

std::string_view class_word(Class c) {
  static constexpr std::string_view kWords[] = {"active", "idle", "closed", "unused", "retry", "failing", "suspended"};
  const auto i = static_cast<std::size_t>(c);
  return i < std::size(kWords) ? kWords[i] : "unknown";
}

Seen from_qmgr(Entry entry) {
  Seen d;
  if (auto facts = decode<destdb::Facts>(entry.facts)) d.facts = *std::move(facts);
  d.entry = std::move(entry);
  d.live = true;
  return d;
}

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
  return fmt::format("{:<10} {:>4} {:>4} {:>4} {:<19} {} ({}){}\n", class_word(d.entry.classification),
                     d.live ? std::to_string(d.entry.connections) : "-",
                     d.live ? std::to_string(d.entry.in_hand + d.entry.waiting) : "-", d.facts.failures,
                     d.facts.failures > 0 ? when(d.facts.next_retry) : "-", printable(d.entry.shown), d.entry.transport,
                     reason.empty() ? "" : " " + reason);
}

std::string list_line(const destdb::Suspension& s) {
  return fmt::format("{:<10} {:>4} {:>4} {:>4} {:<19} {} (by hand since {}){}\n", "suspended", "-", "-", "-", "-",
                     printable(s.name), when(s.since), s.reason.empty() ? "" : " " + printable(s.reason));
}

std::string show_text(const destdb::Suspension& s) {
  return fmt::format("{}\n  suspended by hand since {}{}\n", printable(s.name), when(s.since),
                     s.reason.empty() ? "" : ": " + printable(s.reason));
}

std::string show_text(const Seen& d) {
  const destdb::Facts& f = d.facts;
  std::string out = fmt::format("{} ({})\n", printable(d.entry.shown), d.entry.transport);
  const auto line = [&out](std::string_view name, const std::string& value) {
    out += fmt::format("  {:<22} {}\n", name, value);
  };
  line("state", std::string(class_word(d.entry.classification)));
  if (!d.entry.suspended.empty()) line("why", printable(d.entry.suspended));
  if (d.live) {
    line("connections", fmt::format("{}{} (limit now: {})", d.entry.connections,
                                    d.entry.shared ? fmt::format(" and {} of other hosts", d.entry.elsewhere) : "",
                                    limit_of(d.entry.limit)));
    line("jobs", fmt::format("{} in hand, {} waiting on its connections", d.entry.in_hand, d.entry.waiting));
    if (!d.entry.session_class.empty())
      line("session class", d.entry.session_class + (d.entry.in_line ? ": it waits for a session to end" : ""));
  }
  if (f.failures > 0) {
    line("failures in a row", fmt::format("{} ({})", f.failures, trouble_word(f.trouble)));
    line("next try", when(f.next_retry));
    line("last said", (f.dsn.empty() ? "" : f.dsn + " ") + printable(f.reason));
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
    return fmt::format("redis at {} since {}: {} hosts, this one is {}", printable(b.server), when(b.since), b.hosts,
                       printable(b.instance));
  return fmt::format("own knowledge of this host: redis at {} is not reached since {}: {}", printable(b.server),
                     when(b.since), printable(b.why));
}

std::string explain_text(const Explained& e, const std::vector<Seen>& hosts, const Backend& backend, WallTime now) {
  std::string out;
  const auto line = [&out](std::string_view name, const std::string& value) {
    out += fmt::format("{:<12} {}\n", name, value);
  };
  line("recipient", printable(e.recipient));
  if (e.rule == Rule::unroutable) {
    line("decision", rule_text(e));
    line("says", e.status + " " + printable(e.text));
    return out;
  }
  line("transport", e.transport + (e.transport_up ? "" : " (its program cannot be reached: jobs wait)"));
  line("next hop", printable(e.nexthop));
  if (!e.by_sender.empty()) line("by sender", e.by_sender);
  if (!e.tls.empty()) line("TLS", printable(e.tls));
  line("knowledge", backend_text(backend));
  line("route", fmt::format("good for {} s, then looked up again", e.valid_for.count()));
  line("limits", fmt::format("{} connections of {} (free: {}), {} a destination, {} recipients a delivery",
                             limit_of(e.workers), e.transport, e.workers == 0 ? "any" : std::to_string(e.free_workers),
                             limit_of(e.concurrency), limit_of(e.recipients)));
  if (e.rate_delay.count() > 0)
    line("rate delay",
         fmt::format("{} s between two deliveries to a destination", static_cast<double>(e.rate_delay.count()) / 1000));
  for (const auto& c : e.classes) line("class", class_text(c));
  if (e.pooled > 0) line("waiting", fmt::format("{} jobs for a connection to these hosts", e.pooled));
  for (const Seen& d : hosts) {
    const auto& entry = d.entry;
    std::string text =
        fmt::format("{} {:<9} {}", entry.chosen ? "*" : " ", class_word(entry.classification), printable(entry.shown));
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
    line("decision", "deferred: " + printable(e.suspended));
    return out;
  }
  std::string chosen;
  for (const Seen& d : hosts)
    if (d.entry.chosen) chosen += (chosen.empty() ? "" : ", ") + printable(d.entry.shown);
  line("decision", "rule " + rule_text(e) + (chosen.empty() ? "" : ": " + chosen));
  return out;
}

namespace {
ordered_json json_of(const Backend& b) {
  ordered_json j;
  j["backend"] = b.name;
  if (b.name != "redis") return j;
  j["server"] = b.server;
  j["reached"] = b.up;
  j["since"] = unix_seconds(b.since);
  if (!b.up) j["reason"] = b.why;
  if (b.up) j["hosts"] = b.hosts;
  j["instance"] = b.instance;
  return j;
}
}  // namespace

std::string json_line(const Backend& b) {
  ordered_json j = {{"type", "backend"}};
  j.update(json_of(b));
  return dump(j);
}

std::string json_line(const Seen& d) {
  ordered_json j = {{"type", "destination"}};
  j.update(json_of(d));
  return dump(j);
}

std::string json_line(const destdb::Suspension& s) {
  ordered_json j = {{"type", "suspension"}};
  j["name"] = s.name;
  j["reason"] = s.reason;
  j["since"] = unix_seconds(s.since);
  return dump(j);
}

std::string json_line(const Explained& e, const std::vector<Seen>& hosts, const Backend& backend) {
  ordered_json j = {{"type", "explanation"}};
  j["recipient"] = e.recipient;
  j["decision"] = e.suspended.empty() ? rule_word(e.rule) : std::string_view("suspended");
  if (e.rule == Rule::unroutable) {
    j["dsn"] = e.status;
    j["reason"] = e.text;
    return dump(j);
  }
  if (!e.suspended.empty()) j["suspended"] = e.suspended;
  if (!backend.name.empty()) j["knowledge"] = json_of(backend);
  j["transport"] = e.transport;
  j["transport_up"] = e.transport_up;
  j["nexthop"] = e.nexthop;
  if (!e.tls.empty()) j["tls"] = e.tls;
  if (!e.by_sender.empty()) j["by_sender"] = e.by_sender;
  j["valid_for"] = e.valid_for.count();
  j["process_limit"] = e.workers;
  j["free_workers"] = e.free_workers;
  j["destination_concurrency_limit"] = e.concurrency;
  j["destination_recipient_limit"] = e.recipients;
  j["destination_rate_delay_ms"] = e.rate_delay.count();
  j["jobs_waiting_for_connection"] = e.pooled;
  for (const auto& c : e.classes) j["session_classes"].push_back(json_of(c));
  j["hosts"] = ordered_json::array();
  for (const Seen& d : hosts) {
    ordered_json one;
    one["level"] = d.entry.level + 1;
    one["chosen"] = d.entry.chosen;
    one.update(json_of(d));
    j["hosts"].push_back(std::move(one));
  }
  return dump(j);
}

}  // namespace pen::tools
