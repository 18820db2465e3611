#include "penapi/routes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "penapi/views.h"

namespace pen::api {
namespace {

constexpr Route kRoutes[] = {
    {"GET", "/", Access::open, page_html},
    {"GET", "/page.css", Access::open, page_style},
    {"GET", "/page.js", Access::open, page_script},
    {"GET", "/icon.svg", Access::open, page_icon},
    {"GET", "/metrics", Access::read, metrics_text},
    {"GET", "/healthz", Access::open, healthz},
    {"GET", "/readyz", Access::open, readyz},
    {"GET", "/api/v1/overview", Access::read, show_overview},
    {"GET", "/api/v1/history", Access::read, show_history},
    {"GET", "/api/v1/events", Access::read, list_events},
    {"GET", "/api/v1/stream", Access::read, nullptr},  // Server::stream_figures()
    {"GET", "/api/v1/queue", Access::read, list_queue},
    {"GET", "/api/v1/queue/{id}", Access::read, show_message},
    {"DELETE", "/api/v1/queue/{id}", Access::order, delete_message},
    {"POST", "/api/v1/queue/hold", Access::order, hold_messages},
    {"POST", "/api/v1/queue/release", Access::order, release_messages},
    {"POST", "/api/v1/queue/delete", Access::order, delete_messages},
    {"POST", "/api/v1/queue/expire", Access::order, expire_messages},
    {"POST", "/api/v1/queue/flush", Access::order, flush_messages},
    {"GET", "/api/v1/destinations", Access::read, list_destinations},
    {"GET", "/api/v1/trouble", Access::read, list_troubled},
    {"GET", "/api/v1/destinations/{name}", Access::read, show_destination},
    {"POST", "/api/v1/destinations/{name}/suspend", Access::order, suspend_destination},
    {"POST", "/api/v1/destinations/{name}/resume", Access::order, resume_destination},
    {"GET", "/api/v1/suppressed", Access::read, list_suppressed},
    {"POST", "/api/v1/suppressed", Access::order, add_suppressed},
    {"GET", "/api/v1/suppressed/{address}", Access::read, show_suppressed},
    {"DELETE", "/api/v1/suppressed/{address}", Access::order, remove_suppressed},
    {"GET", "/api/v1/explain", Access::read, explain_recipient},
    {"POST", "/api/v1/messages", Access::submit, nullptr},  // Submissions::take()
    {"GET", "/api/v1/messages/{id}/explain", Access::read, explain_message},
    {"GET", "/api/v1/sessions", Access::read, list_sessions},
    {"GET", "/api/v1/services", Access::read, list_services},
    {"GET", "/api/v1/settings", Access::read, list_settings},
};

/// Whether the path fits the pattern; `argument` is what stands for {…}.
bool fits(std::string_view pattern, const std::vector<std::string>& path, std::string& argument) {
  pattern.remove_prefix(1);
  if (pattern.empty()) return path.empty() || (path.size() == 1 && path.front().empty());
  for (std::size_t i = 0;; ++i) {
    const auto end = std::min(pattern.find('/'), pattern.size());
    const std::string_view segment = pattern.substr(0, end);
    if (i == path.size()) return false;
    if (segment.starts_with('{'))
      argument = path[i];
    else if (segment != path[i])
      return false;
    if (end == pattern.size()) return i + 1 == path.size();
    pattern.remove_prefix(end + 1);
  }
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

Match find_route(const Request& request) {
  const std::string_view method = request.method == "HEAD" ? std::string_view("GET") : request.method;
  Match match;
  for (const Route& route : kRoutes) {
    std::string argument;
    if (!fits(route.pattern, request.path, argument)) continue;
    if (route.method == method) {
      // A whole word wins over {…}: an order is not the id of a message.
      if (match.route == nullptr || !route.pattern.contains('{')) {
        match.route = &route;
        match.argument = std::move(argument);
      }
    } else if (!match.allow.contains(route.method)) {
      if (!match.allow.empty()) match.allow += ", ";
      match.allow += route.method;
    }
  }
  return match;
}

Response failure(int status, std::string_view text) {
  nlohmann::ordered_json j;
  j["error"] = text;
  return {.status = status, .body = j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"};
}

}  // namespace pen::api
