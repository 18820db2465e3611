// The suppression list, as pensuppress shows and changes it (docs/suppression.md).
#include <nlohmann/json.hpp>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/queue/views/destinations.h"
#include "lib/queue/views/suppression.h"
#include "lib/suite/ipc/ask_once.h"
#include "lib/suite/ipc/suppression.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/suppression/words.h"
#include "penapi/selection.h"
#include "penapi/server.h"
#include "penapi/views.h"

namespace pen::api {

using async::Task;
using namespace ipc::suppression;
using nlohmann::ordered_json;

namespace {

constexpr std::uint64_t kDefaultPage = 100, kMaxPage = 500;  // as anvil gives
constexpr std::size_t kMaxAddress = 500;
constexpr std::int64_t kLastYear = 4'102'444'800;  // 2100: an end beyond it is a mistake

Response unanswered(const Error& error) { return failure(503, "anvil does not answer: " + error.message()); }

/// One request, and its answer.
template <class Wanted>
Task<Result<Wanted>> ask(Server& server, OrderToAnvil request) {
  const SteadyTime now = server.loop.now();
  co_return co_await (ipc::ask_once<OrderFromAnvil, OrderToAnvil, Wanted>(
      server.loop, server.path(ipc::kAnvilSocket), kOrdersName, std::move(request),
      {.until = {.deadline = now + Server::kPatience}, .greeted_by = now + Server::kGreets}));
}

/// Takes a text out of the query.
std::string take(std::map<std::string, std::string>& query, const char* name) {
  const auto at = query.find(name);
  if (at == query.end()) return {};
  std::string value = std::move(at->second);
  query.erase(at);
  return value;
}

bool is_address(const std::string& text) { return text.contains('@') && text.size() <= kMaxAddress; }

Response done(const char* order, const std::string& address) {
  ordered_json j;
  j["order"] = order;
  j["address"] = readable(address);
  return Response{.body = views::text_of(j)};
}

}  // namespace

Task<Response> list_suppressed(Server& server, Call call) {
  auto query = call.request.query;
  const auto limit = take_number(query, "limit", kDefaultPage, kMaxPage);
  if (!limit) co_return failure(400, limit.error());
  const auto watched = take_number(query, "watched", 0, 1);
  if (!watched) co_return failure(400, watched.error());
  List request;
  request.request = 1;
  request.tenant = take(query, "after_tenant");
  request.address = take(query, "after");
  request.watched = *watched == 1;
  request.most = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, *limit));
  if (!query.empty()) co_return failure(400, "unknown parameter: " + query.begin()->first);
  if (!request.address.empty() && !is_address(request.address)) co_return failure(400, "after: no address");
  const auto listed = co_await ask<Listed>(server, std::move(request));
  if (!listed) co_return unanswered(listed.error());
  if (!listed->error.empty()) co_return failure(503, listed->error);
  ordered_json j;
  j["addresses"] = ordered_json::array();
  for (const Entry& e : listed->entries) j["addresses"].push_back(views::to_json(e));
  if (listed->more) {
    j["after_tenant"] = readable(listed->after_tenant);
    j["after"] = readable(listed->after_address);
  }
  co_return Response{.body = views::text_of(j)};
}

Task<Response> show_suppressed(Server& server, Call call) {
  auto query = call.request.query;
  List request;
  request.request = 1;
  request.tenant = take(query, "tenant");
  request.address = call.argument;
  request.only = true;
  if (!query.empty()) co_return failure(400, "unknown parameter: " + query.begin()->first);
  if (!is_address(request.address)) co_return failure(400, "not an address");
  const auto listed = co_await ask<Listed>(server, std::move(request));
  if (!listed) co_return unanswered(listed.error());
  if (!listed->error.empty()) co_return failure(503, listed->error);
  if (listed->entries.empty()) co_return failure(404, "nothing is known of this address");
  co_return Response{.body = views::text_of(views::to_json(listed->entries.front()))};
}

Task<Response> add_suppressed(Server& server, Call call) {
  const auto j = nlohmann::json::parse(call.request.body, nullptr, false);
  if (!j.is_object()) co_return failure(400, "the body is no JSON object");
  Add add;
  add.request = 1;
  add.entry.listed = true;
  add.entry.reason = Reason::order;
  for (const auto& [field, value] : j.items()) {
    if (field == "expires") {
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kLastYear)
        co_return failure(400, "\"expires\": seconds since 1970, or 0");
      add.entry.expires = value.get<std::int64_t>();
      continue;
    }
    if (!value.is_string()) co_return failure(400, "\"" + printable(field, 40) + "\" is no text");
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() > kMaxAddress) co_return failure(400, "\"" + printable(field, 40) + "\" is too long");
    if (field == "address") {
      add.entry.address = text;
    } else if (field == "tenant") {
      add.entry.tenant = text;
    } else if (field == "text") {
      add.entry.text = text;
    } else if (field == "reason") {
      const auto reason = suppression::reason_named(text);
      if (!reason) co_return failure(400, "\"reason\": none of bounce, returned, complaint, order");
      add.entry.reason = *reason;
    } else {
      co_return failure(400, "unknown field: " + printable(field, 40));
    }
  }
  if (!is_address(add.entry.address)) co_return failure(400, "\"address\": not an address");
  const std::string address = add.entry.address;
  const auto end = co_await ask<Done>(server, std::move(add));
  if (!end) co_return unanswered(end.error());
  if (!end->error.empty()) co_return failure(409, end->error);
  log::info("order: suppress {}", printable(address));
  co_return done("suppress", address);
}

Task<Response> remove_suppressed(Server& server, Call call) {
  auto query = call.request.query;
  Remove remove{.request = 1, .tenant = take(query, "tenant"), .address = call.argument};
  if (!query.empty()) co_return failure(400, "unknown parameter: " + query.begin()->first);
  if (!is_address(remove.address)) co_return failure(400, "not an address");
  const auto end = co_await ask<Done>(server, std::move(remove));
  if (!end) co_return unanswered(end.error());
  if (!end->error.empty()) co_return failure(409, end->error);
  if (!end->known) co_return failure(404, "it is not on the list");
  log::info("order: unsuppress {}", printable(call.argument));
  co_return done("unsuppress", call.argument);
}

}  // namespace pen::api
