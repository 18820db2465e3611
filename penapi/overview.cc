#include "penapi/overview.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/text.h"
#include "lib/queue/views/destinations.h"
#include "lib/suite/events/event.h"
#include "lib/suite/ipc/destinations.h"
#include "penapi/exposition.h"
#include "penapi/views.h"

namespace pen::api {

using async::Task;
using metrics::Id;
using nlohmann::ordered_json;

namespace {

std::uint64_t all_of(const metrics::Sums& sums, Id id) {
  const auto& f = metrics::family(id);
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < f.series; ++i) n += sums[f.first + i];
  return n;
}

std::uint64_t number(const Seen& seen, const char* name) {
  const auto at = seen.qmgr.find(name);
  return at == seen.qmgr.end() ? 0 : std::strtoull(at->second.c_str(), nullptr, 10);
}

ordered_json point_json(const Point& p) {
  return {unix_seconds(p.end), p.seconds, p.accepted, p.delivered, p.deferred, p.bounced,    p.rejected, p.syncs,
          p.sync_microseconds, p.active,  p.waiting,  p.held,      p.sessions, p.connections};
}

/// Whether penevents answers, and programs tell it anything.
bool events_come(const Server& server) {
  const auto& s = server.config.settings();
  const bool told = !s.event_log_file.empty() || !s.event_accounting_file.empty() || !s.event_webhooks.empty();
  return told && server.events() != nullptr && server.events()->connected();
}

Response json_response(const ordered_json& j) { return {.body = views::text_of(j)}; }

}  // namespace

Reading reading_of(const metrics::Sums& sums, const Seen& seen) {
  Reading out;
  out.accepted = count_of(sums, Id::queue_messages_accepted);
  const auto fate = [&](metrics::Fate f) { return count_of(sums, Id::deliveries, {static_cast<std::size_t>(f)}); };
  out.delivered = fate(metrics::Fate::delivered);
  out.bounced = fate(metrics::Fate::bounced) + fate(metrics::Fate::expired);
  for (std::size_t agent = 0; agent < metrics::Label<metrics::Agent>::values.size(); ++agent)
    out.deferred += count_of(sums, Id::delivery_attempts, {agent, static_cast<std::size_t>(metrics::Fate::deferred)});
  out.rejected = all_of(sums, Id::smtpd_rejects);
  out.syncs = count_of(sums, Id::queue_syncs);
  const auto& sync = metrics::family(Id::queue_sync);
  out.sync_microseconds = sums[sync.first + sync.slots_each() - 1];
  const auto state = [&](ipc::queue::Place place) {
    return seen.queue ? seen.queue->states[static_cast<std::size_t>(place)].messages : 0;
  };
  out.active = number(seen, "active");
  out.waiting = state(ipc::queue::Place::deferred);
  out.held = state(ipc::queue::Place::hold);
  const std::uint64_t begun = count_of(sums, Id::smtpd_connections);
  const std::uint64_t ended = count_of(sums, Id::smtpd_disconnections);
  out.sessions = begun > ended ? begun - ended : 0;
  out.connections = number(seen, "connections");
  return out;
}

ordered_json overview(Server& server, const Seen& seen) {
  ordered_json j;
  const WallTime now = server.loop.clock().wall_now();
  j["time"] = unix_seconds(now);
  j["host"] = server.config.settings().myhostname;
  j["version"] = PEN_VERSION;
  j["up"] = !seen.qmgr.empty();
  if (!seen.qmgr_problem.empty()) j["problem"] = seen.qmgr_problem;
  const auto says = [&](const char* name) {
    const auto at = seen.qmgr.find(name);
    return at != seen.qmgr.end() && at->second == "yes";
  };
  j["accepting"] = says("accepting");
  j["recovered"] = says("recovered");
  if (seen.queue && seen.queue->looked != WallTime{}) {
    j["surveyed"] = unix_seconds(seen.queue->looked);
    for (std::size_t i = 0; i < kPlaces; ++i) {
      const QueueState& s = seen.queue->states[i];
      auto& state = j["queue"][std::string(ipc::queue::kPlaceNames[i])];
      state["messages"] = s.messages;
      state["bytes"] = s.bytes;
      if (s.messages > 0) state["oldest"] = unix_seconds(s.oldest);
    }
    for (std::size_t i = 0; i < seen.queue->by_class.size(); ++i)
      j["destinations"][std::string(views::class_word(static_cast<ipc::destinations::Class>(i)))] =
          seen.queue->by_class[i];
  }
  if (const auto sums = server.counted()) {
    const Reading r = reading_of(*sums, seen);
    j["counts"] = {{"accepted", r.accepted},
                   {"delivered", r.delivered},
                   {"deferred", r.deferred},
                   {"bounced", r.bounced},
                   {"rejected", r.rejected},
                   {"syncs", r.syncs},
                   {"sync_microseconds", r.sync_microseconds}};
    j["sessions"] = r.sessions;
    j["connections"] = r.connections;
    j["active"] = r.active;
  }
  for (const auto* name : {"jobs", "jobs_in_hand", "routing"}) j["scheduler"][name] = number(seen, name);
  j["classes"] = ordered_json::array();
  for (const auto& c : seen.sessions.classes)
    j["classes"].push_back({{"class", c.mask},
                            {"incoming", c.incoming},
                            {"outgoing", c.outgoing},
                            {"total_limit", c.total},
                            {"refused", c.refused},
                            {"outgoing_waits", c.outgoing_waits}});
  j["disks"] = ordered_json::array();
  for (const Disk& disk : server.disks.known()) {
    if (!disk.problem.empty()) continue;
    std::string name = disk.setting;
    name.resize(name.size() - std::string_view("_directory").size());
    std::ranges::replace(name, '_', ' ');
    j["disks"].push_back({{"name", name}, {"free", disk.free}, {"size", disk.size}});
  }
  j["events"] = events_come(server);
  return j;
}

Task<Response> show_overview(Server& server, Call) {
  const Seen seen = co_await server.survey.look();
  co_return json_response(overview(server, seen));
}

Task<Response> show_history(Server& server, Call call) {
  if (server.history() == nullptr) co_return failure(404, "penapi_status_page is off: no history is kept");
  auto query = call.request.query;
  const auto wanted = query.contains("range") ? query.extract("range").mapped() : std::string("hour");
  if (!query.empty()) co_return failure(400, "unknown parameter: " + query.begin()->first);
  for (std::size_t i = 0; i < kRanges.size(); ++i) {
    if (kRanges[i].name != wanted) continue;
    ordered_json j;
    j["range"] = wanted;
    j["step"] = kRanges[i].step.count();
    j["columns"] = {"end",   "seconds",           "accepted", "delivered", "deferred", "bounced",  "rejected",
                    "syncs", "sync_microseconds", "active",   "waiting",   "held",     "sessions", "connections"};
    j["points"] = ordered_json::array();
    for (const Point& p : server.history()->history().points(static_cast<Range>(i)))
      j["points"].push_back(point_json(p));
    co_return json_response(j);
  }
  co_return failure(400, "range: hour, day or week");
}

Task<Response> list_events(Server& server, Call call) {
  constexpr std::size_t kMost = 1000;
  auto query = call.request.query;
  const auto take = [&](const char* name) {
    return query.contains(name) ? query.extract(name).mapped() : std::string();
  };
  const std::string types = take("types"), queue_id = take("queue_id"), text = take("text"), limit = take("limit");
  if (!query.empty()) co_return failure(400, "unknown parameter: " + query.begin()->first);
  const auto most = limit.empty() ? std::optional<unsigned long long>(100) : parse_unsigned(limit);
  if (!most || *most == 0 || *most > kMost) co_return failure(400, "limit: 1 to 1000");
  for (const auto type : split(types, ", "))
    if (!events::type_named(type)) co_return failure(400, "types: there is no type " + printable(type, 60));
  ordered_json j;
  const EventTail* tail = server.events();
  j["connected"] = events_come(server);
  // Lines are JSON already; they are read again only if something is asked of their fields.
  std::vector<ordered_json> found;
  if (tail != nullptr) {
    for (auto at = tail->recent().rbegin(); at != tail->recent().rend() && found.size() < *most; ++at) {
      if (!queue_id.empty() && !at->text.contains(queue_id)) continue;
      if (!text.empty() && !to_lower(at->text).contains(to_lower(text))) continue;
      auto event = ordered_json::parse(at->text, nullptr, false);
      if (event.is_discarded() || !event.is_object()) continue;
      if (!queue_id.empty() && event.value("queue_id", "") != queue_id) continue;
      if (!types.empty() && !list_contains(types, event.value("type", ""))) continue;
      found.push_back(std::move(event));
    }
  }
  j["events"] = ordered_json::array();
  for (auto at = found.rbegin(); at != found.rend(); ++at) j["events"].push_back(std::move(*at));
  co_return json_response(j);
}

}  // namespace pen::api
