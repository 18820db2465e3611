#include "lib/queue/views/destinations.h"

#include <nlohmann/json.hpp>

#include "lib/queue/destdb/name.h"

namespace pen::views {

using ipc::destinations::Backend;
using ipc::destinations::Class;
using ipc::destinations::ClassSeen;
using ipc::destinations::Entry;
using ipc::destinations::Explained;
using ipc::destinations::Rule;
using nlohmann::ordered_json;

namespace {

std::string_view rule_word(Rule rule) {
  static constexpr std::string_view kWords[] = {"room",   "idle", "unused", "closed",  "retry",
                                                "fewest", "ride", "wait",   "nothing", "unroutable"};
  return kWords[static_cast<std::size_t>(rule)];
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

void add_to(ordered_json& j, const ipc::destinations::Limit& l) {
  const auto text = [&j](const char* name, const std::string& value) {
    if (!value.empty()) j[name] = value;
  };
  text("group", l.group);
  text("source", l.source);
  text("sender_domain", l.domain);
  text("name", l.name);
  text("rate", l.rate);
  text("set", l.set);
  text("ordered", l.ordered);
  if (l.connections > 0) j["connections"] = l.connections;
  j["jobs_waiting"] = l.waiting;
  j["last_minute"] = l.last_minute;
  if (l.held.count() > 0) j["held_ms"] = l.held.count();
  if (l.complaints > 0) j["complaints"] = l.complaints;
  if (l.complained != WallTime{}) j["complained"] = unix_seconds(l.complained);
  text("rule", l.rule);
  text("reason", l.reason);
}

/// The quotas of the limit at this place.
void add_to(ordered_json& j, std::uint32_t limit, const std::vector<ipc::destinations::Quota>& quotas) {
  for (const auto& q : quotas) {
    if (q.limit != limit) continue;
    ordered_json one;
    one["rate"] = q.rate;
    one["most"] = q.most;
    one["used"] = q.used;
    if (q.opens.count() > 0) one["opens_ms"] = q.opens.count();
    j["quotas"].push_back(std::move(one));
  }
}

ordered_json json_of(const std::vector<ipc::destinations::Limit>& limits,
                     const std::vector<ipc::destinations::Quota>& quotas) {
  ordered_json list = ordered_json::array();
  for (std::uint32_t i = 0; i < limits.size(); ++i) {
    ordered_json& one = list.emplace_back(ordered_json::object());
    add_to(one, limits[i]);
    add_to(one, i, quotas);
  }
  return list;
}

ordered_json json_of(const Seen& d) {
  const destdb::Facts& f = d.facts;
  ordered_json j;
  j["destination"] = d.entry.shown;
  j["transport"] = d.entry.transport;
  if (!d.entry.source.empty()) j["source"] = d.entry.source;
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
  if (!d.entry.limits.empty()) j["limits"] = json_of(d.entry.limits, d.entry.quotas);
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

ordered_json to_json(const ipc::destinations::SourceSeen& s) {
  ordered_json j;
  j["type"] = "source";
  j["source"] = s.name;
  for (const auto& [name, value] : {std::pair{"address", s.address},
                                    {"address6", s.address6},
                                    {"helo", s.helo},
                                    {"proxy", s.proxy},
                                    {"suspended", s.suspended},
                                    {"resting", s.resting},
                                    {"warmup_begins", s.begins}})
    if (!value.empty()) j[name] = value;
  if (!s.resting.empty()) j["rests_until"] = unix_seconds(s.rests_until);
  j["pools"] = s.pools;
  j["connections"] = s.connections;
  j["warms_up"] = s.warms_up;
  return j;
}

ordered_json to_json(const ipc::destinations::SourceGroup& g) {
  ordered_json j;
  j["type"] = "source_group";
  j["source"] = g.source;
  j["group"] = g.group;
  if (g.stage > 0) {
    j["stage"] = g.stage;
    if (g.limit > 0) j["limit"] = g.limit;
    j["taken"] = g.taken;
    j["accepted"] = g.accepted;
  }
  if (!g.blocked.empty()) {
    j["blocked"] = g.blocked;
    j["blocked_until"] = unix_seconds(g.blocked_until);
  }
  return j;
}

ordered_json to_json(const ipc::destinations::LimitSeen& l) {
  ordered_json j;
  j["type"] = "limit";
  add_to(j, l.limit);
  add_to(j, 0, l.quotas);
  return j;
}

std::string text_of(const ordered_json& j) {
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string_view trouble_word(std::uint8_t trouble) {
  static constexpr std::string_view kWords[] = {"none",
                                                "connection refused",
                                                "timed out",
                                                "unreachable",
                                                "greeting 4xx",
                                                "greeting 5xx",
                                                "connection lost",
                                                "reply 421",
                                                "TLS",
                                                "local",
                                                "replaced",
                                                "source"};
  return trouble < std::size(kWords) ? kWords[trouble] : "unknown";
}

std::string order_name(const std::string& shown) {
  const auto parts = destdb::parse_shown(shown);
  if (parts.address.empty()) return parts.host;
  return "[" + parts.address + "]:" + std::to_string(parts.port);
}

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

ordered_json to_json(const Backend& b) {
  ordered_json j = {{"type", "backend"}};
  j.update(json_of(b));
  return j;
}

ordered_json to_json(const Seen& d) {
  ordered_json j = {{"type", "destination"}};
  j.update(json_of(d));
  return j;
}

ordered_json to_json(const destdb::Suspension& s) {
  ordered_json j = {{"type", "suspension"}};
  j["name"] = s.name;
  j["reason"] = s.reason;
  j["since"] = unix_seconds(s.since);
  return j;
}

ordered_json to_json(const Explained& e, const std::vector<Seen>& hosts, const Backend& backend) {
  ordered_json j = {{"type", "explanation"}};
  j["recipient"] = e.recipient;
  j["decision"] = e.suspended.empty() ? rule_word(e.rule) : std::string_view("suspended");
  if (e.rule == Rule::unroutable) {
    j["dsn"] = e.status;
    j["reason"] = e.text;
    return j;
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
  if (!e.limits.empty()) j["limits"] = json_of(e.limits, e.quotas);
  j["hosts"] = ordered_json::array();
  for (const Seen& d : hosts) {
    ordered_json one;
    one["level"] = d.entry.level + 1;
    one["chosen"] = d.entry.chosen;
    one.update(json_of(d));
    j["hosts"].push_back(std::move(one));
  }
  return j;
}

}  // namespace pen::views
