// What penapi knows by itself or from master: figures, health, services, settings, sessions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "lib/base/hidden.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/base/version.h"
#include "lib/queue/views/destinations.h"
#include "lib/suite/service/board.h"
#include "penapi/exposition.h"
#include "penapi/server.h"
#include "penapi/views.h"

namespace pen::api {

using async::Task;
using nlohmann::ordered_json;

namespace {

/// What master says of the services. Errors: as text, for the client.
std::expected<ordered_json, std::string> services(const Server& server) {
  if (!server.board()) return std::unexpected("master gave no state of its services");
  const auto text = service::read_board(server.board().get());
  if (!text) return std::unexpected("the state of the services cannot be read: " + text.error().message());
  auto j = ordered_json::parse(*text, nullptr, false);
  if (j.is_discarded()) return std::unexpected("the state of the services is not known yet");
  return j;
}

/// A disk is low when it has no room for the largest message, twice.
ordered_json disk_json(const Server& server, const Disk& disk, bool& healthy) {
  ordered_json j;
  j["name"] = disk.setting;
  if (!disk.problem.empty()) {
    j["problem"] = disk.problem;
    healthy = false;
    return j;
  }
  const std::uint64_t least = 2 * static_cast<std::uint64_t>(server.config.settings().message_size_limit);
  j["free_bytes"] = disk.free;
  j["free_files"] = disk.free_files;
  j["low"] = disk.free < least;
  healthy = healthy && disk.free >= least;
  return j;
}

Response json_response(const ordered_json& j, int status = 200) {
  return {.status = status, .body = views::text_of(j)};
}

}  // namespace

Task<Response> metrics_text(Server& server, Call call) {
  const auto form = call.request.query.find("compat");
  if (form != call.request.query.end() && form->second != "postfix")
    co_return failure(400, "compat: only \"postfix\" is known");
  if (call.request.query.size() > (form != call.request.query.end() ? 1U : 0U))
    co_return failure(400, "unknown parameter: compat is the only one");
  const auto sums = server.counted();
  if (!sums) co_return failure(503, sums.error().message());
  const Seen seen = co_await server.survey.look();
  const auto disks = co_await server.disks.look();
  Exposition out;
  if (form != call.request.query.end()) {
    write_as_postfix(out, *sums, seen);
  } else {
    write_counts(out, *sums);
    write_states(out, seen, server.loop.clock().wall_now());
    out.family("penstock_disk_free_bytes", "Free space on the disks of the mail system.", "gauge");
    for (const Disk& disk : disks)
      if (disk.problem.empty()) out.sample("penstock_disk_free_bytes", {{"directory", disk.setting}}, disk.free);
    out.family("penstock_build_info", "The version, as a label.", "gauge");
    out.sample("penstock_build_info", {{"version", std::string(version())}}, std::uint64_t{1});
  }
  co_return Response{.body = out.take(), .type = "text/plain; version=0.0.4; charset=utf-8"};
}

/// Together with the disks within a second, whatever hangs.
Task<Response> healthz(Server& server, Call) {
  bool healthy = true;
  ordered_json j;
  j["healthy"] = true;
  j["problems"] = ordered_json::array();
  bool has_queue = false;
  if (const auto state = services(server)) {
    for (const auto& s : state->value("services", ordered_json::array())) {
      has_queue = has_queue || s.value("service", "") == "qmgr/unix";
      if (s.value("state", "") != "waiting to restart") continue;
      healthy = false;
      j["problems"].push_back(fmt::format("service {} dies: {}", s.value("service", ""), s.value("last_end", "")));
    }
  } else {
    healthy = false;
    j["problems"].push_back(state.error());
  }
  // As penstock health judges: master sees no difference between one that works and one that hangs.
  if (has_queue) {
    if (const Answering state = co_await server.survey.answering(); !state.problem.empty()) {
      healthy = false;
      j["problems"].push_back("the queue manager does not answer: " + state.problem);
    }
  }
  const auto disks = co_await server.disks.look();
  j["disks"] = ordered_json::array();
  for (const Disk& disk : disks) {
    bool fine = true;
    j["disks"].push_back(disk_json(server, disk, fine));
    if (!fine) j["problems"].push_back(fmt::format("{}: too little space, or it cannot be looked at", disk.setting));
    healthy = healthy && fine;
  }
  if (const auto sums = server.counted()) {
    const auto& f = metrics::family(metrics::Id::queue_sync);
    const std::uint64_t count = count_of(*sums, metrics::Id::queue_syncs);
    j["syncs"] = count;
    if (count > 0)
      j["sync_mean_seconds"] =
          static_cast<double>((*sums)[f.first + f.slots_each() - 1]) / 1e6 / static_cast<double>(count);
  }
  j["healthy"] = healthy;
  co_return json_response(j, healthy ? 200 : 503);
}

Task<Response> readyz(Server& server, Call) {
  const Answering seen = co_await server.survey.answering();
  ordered_json j;
  const auto says = [&](const char* name) {
    const auto at = seen.qmgr.find(name);
    return at != seen.qmgr.end() && at->second == "yes";
  };
  const bool ready = says("accepting");
  j["ready"] = ready;
  j["accepting"] = says("accepting");
  j["recovered"] = says("recovered");
  if (!seen.problem.empty()) j["problem"] = "the queue manager does not answer: " + seen.problem;
  co_return json_response(j, ready ? 200 : 503);
}

Task<Response> list_services(Server& server, Call) {
  const auto state = services(server);
  if (!state) co_return failure(503, state.error());
  co_return json_response(*state);
}

namespace {
/// Values that are, or may hold, what lets somebody in. Of tables within main.cf the text is the content.
bool is_secret(std::string_view name, std::string_view value) {
  if (named_secret(name) || value.contains("inline:")) return true;
  const std::string lower = to_lower(value);
  return lower.contains("password") || lower.contains("secret") || lower.contains("token=");
}
}  // namespace

Task<Response> list_settings(Server& server, Call) {
  ordered_json j;
  j["settings"] = ordered_json::array();
  // Each process sets these for itself.
  constexpr auto kOwn = std::to_array<std::string_view>({"process_id", "process_name", "service_name"});
  for (const std::string& name : server.config.names_set()) {
    if (std::ranges::find(kOwn, name) != kOwn.end()) continue;
    const std::string written = server.config.written(name).value_or("");
    ordered_json one;
    one["name"] = name;
    if (is_secret(name, written)) {
      one["hidden"] = true;
    } else {
      one["value"] = without_user(written);  // not expanded: what a $name stands for may be secret
    }
    const config::Row* row = config::find_row(name);
    one["acts"] = row == nullptr || row->kind == config::Class::acts;
    j["settings"].push_back(std::move(one));
  }
  co_return json_response(j);
}

Task<Response> list_sessions(Server& server, Call) {
  const Seen seen = co_await server.survey.look();
  if (!seen.sessions_problem.empty()) co_return failure(503, "anvil does not answer: " + seen.sessions_problem);
  ordered_json j;
  j["classes"] = ordered_json::array();
  for (const auto& c : seen.sessions.classes) {
    j["classes"].push_back({{"class", c.mask},
                            {"total_limit", c.total},
                            {"refuse_limit", c.refuse},
                            {"incoming", c.incoming},
                            {"outgoing", c.outgoing},
                            {"refused", c.refused},
                            {"outgoing_waits", c.outgoing_waits}});
  }
  if (const auto sums = server.counted()) {
    const std::uint64_t begun = count_of(*sums, metrics::Id::smtpd_connections);
    const std::uint64_t ended = count_of(*sums, metrics::Id::smtpd_disconnections);
    j["begun"] = begun;
    j["ended"] = ended;
  }
  co_return json_response(j);
}

}  // namespace pen::api
