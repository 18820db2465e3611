// What qmgr knows of destinations, as pendest list, show and explain have it.
#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/mail/queue_id.h"
#include "lib/queue/destdb/name.h"
#include "lib/queue/views/destinations.h"
#include "lib/queue/views/story.h"
#include "penapi/selection.h"
#include "penapi/server.h"
#include "penapi/views.h"

namespace pen::api {

using async::Task;
using namespace ipc::destinations;
using nlohmann::ordered_json;

namespace {

constexpr std::uint64_t kDefaultPage = 100;
constexpr std::uint64_t kMaxPage = 1000;
constexpr std::uint64_t kDefaultTroubled = 20;
constexpr std::size_t kMaxAddress = 1000;
constexpr std::size_t kMaxHosts = 1000;      // of an explanation
constexpr std::size_t kToldRecipients = 20;  // of a message: each is asked for by itself

Response unanswered(const Error& error) {
  return failure(503, "the queue manager does not answer: " + error.message());
}

std::optional<ordered_json> json_of(FromQmgr m) {
  if (auto* e = std::get_if<Entry>(&m)) return views::to_json(views::from_qmgr(std::move(*e)));
  if (const auto* s = std::get_if<Suspended>(&m)) {
    destdb::Suspension suspension;
    suspension.name = s->name;
    suspension.reason = s->reason;
    suspension.since = s->since;
    return views::to_json(suspension);
  }
  return std::nullopt;
}

}  // namespace

Task<Response> list_destinations(Server& server, Call call) {
  auto query = call.request.query;
  const auto limit = take_number(query, "limit", kDefaultPage, kMaxPage);
  if (!limit) co_return failure(400, limit.error());
  const auto offset = take_number(query, "offset", 0, 1'000'000);
  if (!offset) co_return failure(400, offset.error());
  if (!query.empty()) co_return failure(400, "unknown parameter: " + query.begin()->first);
  ordered_json list = ordered_json::array();
  std::uint64_t seen = 0;
  bool more = false;
  const auto done = co_await server.ask(Find{.request = 1, .name = {}}, [&](FromQmgr& m) {
    if (!std::holds_alternative<Entry>(m) && !std::holds_alternative<Suspended>(m)) return true;
    if (seen++ < *offset) return true;
    if (list.size() == *limit) {
      more = true;
      return false;
    }
    list.push_back(*json_of(std::move(m)));
    return true;
  });
  if (!done) co_return unanswered(done.error());
  ordered_json j;
  j["offset"] = *offset;
  j["limit"] = *limit;
  if (more) j["next_offset"] = *offset + list.size();
  j["destinations"] = std::move(list);
  co_return Response{.body = views::text_of(j)};
}

Task<Response> list_troubled(Server& server, Call call) {
  auto query = call.request.query;
  const auto limit = take_number(query, "limit", kDefaultTroubled, Survey::kMostTroubled);
  if (!limit) co_return failure(400, limit.error());
  if (!query.empty()) co_return failure(400, "unknown parameter: " + query.begin()->first);
  const auto found = co_await server.survey.troubled();
  if (!found->problem.empty()) co_return failure(503, "the queue manager does not answer: " + found->problem);
  ordered_json list = ordered_json::array();
  for (const FromQmgr& m : found->worst) {
    if (list.size() == *limit) break;
    if (auto one = json_of(m)) list.push_back(*std::move(one));
  }
  ordered_json j;
  j["in_trouble"] = found->all;
  j["destinations"] = std::move(list);
  co_return Response{.body = views::text_of(j)};
}

Task<Response> show_destination(Server& server, Call call) {
  auto name = destdb::destination_name(call.argument);
  if (!name) co_return failure(400, "not a destination: a host, an address, a domain or .domain");
  ordered_json list = ordered_json::array();
  const auto done = co_await server.ask(Find{.request = 1, .name = *std::move(name)}, [&](FromQmgr& m) {
    if (auto one = json_of(std::move(m))) list.push_back(*std::move(one));
    return list.size() < kMaxPage;
  });
  if (!done) co_return unanswered(done.error());
  if (list.empty()) co_return failure(404, "nothing is known of that destination now");
  ordered_json j;
  j["destinations"] = std::move(list);
  co_return Response{.body = views::text_of(j)};
}

namespace {
/// Where mail for a recipient of a message goes now.
Task<views::Route> route_of(Server& server, std::string recipient, std::string sender, std::string tenant) {
  views::Route route;
  Explain request{
      .request = 1, .recipient = std::move(recipient), .sender = std::move(sender), .tenant = std::move(tenant)};
  const auto done = co_await server.ask(std::move(request), [&](FromQmgr& m) {
    if (auto* x = std::get_if<Explained>(&m)) route.explained = std::move(*x);
    if (auto* e = std::get_if<Entry>(&m); e != nullptr && route.hosts.size() < kMaxHosts)
      route.hosts.push_back(views::from_qmgr(std::move(*e)));
    return true;
  });
  if (!done)
    route.unknown = "the queue manager cannot be reached: " + done.error().message();
  else if (*done && (*done)->outcome != Outcome::ok)
    route.unknown = (*done)->text;
  co_return route;
}
}  // namespace

/// As penstock explain has it.
Task<Response> explain_message(Server& server, Call call) {
  if (!mail::is_queue_id(call.argument)) co_return failure(400, "not a queue id");
  ipc::queue::List list;
  list.request = 1;
  list.queue_ids = {call.argument};
  std::optional<ipc::queue::Entry> message;
  const auto done = co_await server.ask(list, [&](ipc::queue::FromQmgr& m) {
    auto* e = std::get_if<ipc::queue::Entry>(&m);
    if (e == nullptr) return true;
    if (!message) {
      message = std::move(*e);
      return true;
    }
    std::ranges::move(e->recipients, std::back_inserter(message->recipients));
    std::ranges::move(e->bounced, std::back_inserter(message->bounced));
    return true;
  });
  if (!done) co_return unanswered(done.error());
  if (!message) co_return failure(404, "no such message in the queue");
  std::map<std::string, views::Route> routes;
  const bool goes = message->place != ipc::queue::Place::hold && message->place != ipc::queue::Place::maildrop;
  for (std::size_t i = 0; goes && i < message->recipients.size() && i < kToldRecipients; ++i) {
    const std::string& address = message->recipients[i].address;
    if (!routes.contains(address))
      routes.emplace(address, co_await route_of(server, address, message->sender, message->tenant));
  }
  const auto& s = server.config.settings();
  const views::Lifetimes lifetimes{.message = s.maximal_queue_lifetime, .notice = s.bounce_queue_lifetime};
  const auto story = views::tell(*message, routes, lifetimes, server.loop.clock().wall_now(), kToldRecipients);
  co_return Response{.body = views::text_of(views::to_json(story))};
}

Task<Response> explain_recipient(Server& server, Call call) {
  auto query = call.request.query;
  const auto value = [&](const char* name) {
    return query.contains(name) ? query.extract(name).mapped() : std::string();
  };
  Explain request{.request = 1, .recipient = value("recipient"), .sender = value("sender")};
  const auto at = request.recipient.rfind('@');
  if (at == std::string::npos || at == 0 || at + 1 == request.recipient.size() ||
      request.recipient.size() > kMaxAddress || request.sender.size() > kMaxAddress)
    co_return failure(400, "recipient: an address, user@domain");
  if (!query.empty()) co_return failure(400, "unknown parameter: " + query.begin()->first);
  std::optional<Explained> explained;
  std::vector<views::Seen> hosts;
  Backend backend;
  const auto done = co_await server.ask(std::move(request), [&](FromQmgr& m) {
    if (auto* x = std::get_if<Explained>(&m)) explained = std::move(*x);
    if (auto* b = std::get_if<Backend>(&m)) backend = std::move(*b);
    if (auto* e = std::get_if<Entry>(&m); e != nullptr && hosts.size() < kMaxHosts)
      hosts.push_back(views::from_qmgr(std::move(*e)));
    return true;
  });
  if (!done) co_return unanswered(done.error());
  if (!explained) co_return failure(503, *done ? (*done)->text : "the queue manager gave no answer");
  co_return Response{.body = views::text_of(views::to_json(*explained, hosts, backend))};
}

}  // namespace pen::api
