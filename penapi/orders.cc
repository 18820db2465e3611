// What pensuper and pendest do, for clients with a token. Each order is in the log.
#include <cerrno>
#include <nlohmann/json.hpp>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/queue_id.h"
#include "lib/queue/destdb/name.h"
#include "lib/queue/views/destinations.h"
#include "penapi/selection.h"
#include "penapi/server.h"
#include "penapi/views.h"

namespace pen::api {

using async::Task;
using ipc::queue::Outcome;
using ipc::queue::Verb;
using nlohmann::ordered_json;

namespace {

constexpr std::size_t kShownIds = 1000;  // of a dry run

std::string_view word_of(Verb verb) {
  switch (verb) {
    case Verb::remove:
      return "delete";
    case Verb::hold:
      return "hold";
    case Verb::release:
      return "release";
    case Verb::expire:
      return "expire";
    case Verb::flush:
      return "flush";
    default:
      return "order";
  }
}

/// An order that has no answer. A client that was not greeted has not given it.
Response unanswered(const Error& error) {
  if (error.is_errno(ETIMEDOUT) || error.is_errno(ECONNREFUSED) || error.is_errno(ENOENT))
    return failure(503, "the queue manager does not answer, nothing was done: " + error.message());
  return failure(503, "the queue manager went away; the order may have been carried out in part: " + error.message());
}

Task<Response> carry_out(Server& server, ipc::queue::Act act) {
  const std::string_view verb = word_of(act.verb);
  const bool dry_run = act.dry_run;
  const std::size_t named = act.queue_ids.size();
  ordered_json ids = ordered_json::array();
  if (!co_await server.listings.acquire({.deadline = server.loop.now() + Server::kPatience}))
    co_return failure(503, "others have gone through the queue all the time: nothing was done");
  const auto done = co_await server.ask(std::move(act), [&](ipc::queue::FromQmgr& m) {
    const auto* e = std::get_if<ipc::queue::Entry>(&m);
    if (e != nullptr && ids.size() < kShownIds) ids.push_back(e->queue_id);
    return true;
  });
  server.listings.release();
  if (!done || !*done) co_return unanswered(done ? Error(async::WaitError::closed) : done.error());
  const ipc::queue::Done& end = **done;
  if (!dry_run) log::info("order: {} ({}): {} messages", verb, named == 0 ? "by choice" : "by id", end.count);
  switch (end.outcome) {
    case Outcome::ok:
      break;
    case Outcome::not_found:
      co_return failure(404, "no such message in the queue");
    case Outcome::denied:
      co_return failure(403, end.text);
    case Outcome::no_space:
    case Outcome::failed:
      co_return failure(503, end.text);
  }
  ordered_json j;
  j["order"] = verb;
  j["count"] = end.count;
  if (dry_run) {
    j["dry_run"] = true;
    j["ids"] = std::move(ids);
  }
  co_return Response{.body = views::text_of(j)};
}

Task<Response> order(Server& server, Call call, Verb verb) {
  auto act = order_of(call.request.body, verb);
  if (!act) co_return failure(400, act.error());
  act->by = call.by;
  co_return co_await carry_out(server, *std::move(act));
}

constexpr std::size_t kMaxReason = 500;

/// A destination as pendest takes it.
std::expected<std::string, Response> destination_of(const Call& call) {
  auto name = destdb::destination_name(call.argument);
  if (!name) return std::unexpected(failure(400, "not a destination: a host, an address, a domain or .domain"));
  return *std::move(name);
}

Task<Response> order_destination(Server& server, ipc::destinations::Order order) {
  const bool suspends = order.verb == ipc::destinations::Verb::suspend;
  const std::string name = order.name;
  const auto done = co_await server.ask(std::move(order), [](ipc::destinations::FromQmgr&) { return true; });
  if (!done || !*done) co_return unanswered(done ? Error(async::WaitError::closed) : done.error());
  using ipc::destinations::Outcome;
  const ipc::destinations::Done& end = **done;
  log::info("order: {} {}", suspends ? "suspend" : "resume", printable(name));
  if (end.outcome == Outcome::not_found) co_return failure(404, "it was not suspended");
  if (end.outcome == Outcome::denied) co_return failure(403, end.text);
  if (end.outcome == Outcome::failed) co_return failure(503, end.text);
  ordered_json j;
  j["order"] = suspends ? "suspend" : "resume";
  j["destination"] = name;
  co_return Response{.body = views::text_of(j)};
}

}  // namespace

Task<Response> delete_message(Server& server, Call call) {
  if (!mail::is_queue_id(call.argument)) co_return failure(400, "not a queue id");
  ipc::queue::Act act;
  act.request = 1;
  act.verb = Verb::remove;
  act.queue_ids = {call.argument};
  act.by = call.by;
  co_return co_await carry_out(server, std::move(act));
}

Task<Response> hold_messages(Server& server, Call call) { return order(server, std::move(call), Verb::hold); }
Task<Response> release_messages(Server& server, Call call) { return order(server, std::move(call), Verb::release); }
Task<Response> delete_messages(Server& server, Call call) { return order(server, std::move(call), Verb::remove); }
Task<Response> expire_messages(Server& server, Call call) { return order(server, std::move(call), Verb::expire); }
Task<Response> flush_messages(Server& server, Call call) { return order(server, std::move(call), Verb::flush); }

Task<Response> suspend_destination(Server& server, Call call) {
  auto name = destination_of(call);
  if (!name) co_return name.error();
  ipc::destinations::Order order{.request = 1,
                                 .verb = ipc::destinations::Verb::suspend,
                                 .name = *std::move(name),
                                 .reason = {},
                                 .rate = {},
                                 .by = call.by};
  if (!call.request.body.empty()) {
    const auto j = nlohmann::json::parse(call.request.body, nullptr, false);
    if (!j.is_object()) co_return failure(400, "the body is no JSON object");
    for (const auto& [field, value] : j.items()) {
      if (field != "reason" || !value.is_string() || value.get_ref<const std::string&>().size() > kMaxReason)
        co_return failure(400, "\"reason\" alone, a text of at most 500 bytes");
      order.reason = value.get<std::string>();
    }
  }
  co_return co_await order_destination(server, std::move(order));
}

Task<Response> resume_destination(Server& server, Call call) {
  auto name = destination_of(call);
  if (!name) co_return name.error();
  co_return co_await order_destination(server, {.request = 1,
                                                .verb = ipc::destinations::Verb::resume,
                                                .name = *std::move(name),
                                                .reason = {},
                                                .rate = {},
                                                .by = call.by});
}

}  // namespace pen::api
