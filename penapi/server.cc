#include "penapi/server.h"

#include "lib/base/log.h"
#include "lib/ipc/channel.h"
#include "lib/net/tls/session.h"
#include "lib/sessions/classes.h"

namespace pen::api {

using async::Task;
using async::Until;

Server::Server(async::Loop& loop_in, const config::Config& config_in, Options options)
    : loop(loop_in), config(config_in), listings(loop_in, kListings), survey(*this), options_(std::move(options)) {}

std::string Server::path(std::string_view name) const {
  return config.settings().queue_directory + "/" + std::string(name);
}

Result<metrics::Sums> Server::counted() const {
  metrics::Sums sums(metrics::kSlots);
  for (const metrics::Reader& page : options_.pages) PEN_TRY(page.add_to(sums));
  return sums;
}

namespace {

/// One request and its answers over a connection of its own, whose end tells qmgr that no more is wanted.
template <class From, class To, class Done>
Task<Result<std::optional<Done>>> converse(async::Loop& loop, std::string path, std::string_view conversation,
                                           To request, std::function<bool(From&)> see) {
  const Until until{.deadline = loop.now() + Server::kPatience};
  auto channel = co_await ipc::connect_channel<From, To>(loop, std::move(path), conversation, until);
  if (!channel) co_return fail(std::move(channel).error());
  PEN_CO_TRY(std::visit([&](const auto& m) { return channel->send(m); }, request));
  for (;;) {
    auto received = co_await channel->receive(until);
    if (!received) co_return fail(std::move(received).error());
    if (auto* done = std::get_if<Done>(&received->message)) co_return std::optional<Done>(std::move(*done));
    if (!see(received->message)) co_return std::optional<Done>();
  }
}

}  // namespace

Task<Result<std::optional<ipc::queue::Done>>> Server::ask(ipc::queue::ToQmgr request, See<ipc::queue::FromQmgr> see) {
  return converse<ipc::queue::FromQmgr, ipc::queue::ToQmgr, ipc::queue::Done>(
      loop, path(ipc::kQmgrSocket), ipc::queue::kName, std::move(request), std::move(see));
}

Task<Result<std::optional<ipc::destinations::Done>>> Server::ask(ipc::destinations::ToQmgr request,
                                                                 See<ipc::destinations::FromQmgr> see) {
  return converse<ipc::destinations::FromQmgr, ipc::destinations::ToQmgr, ipc::destinations::Done>(
      loop, path(ipc::kQmgrSocket), ipc::destinations::kName, std::move(request), std::move(see));
}

Task<void> Server::serve(async::Stream stream) {
  const auto own = async::local_address(stream.fd());
  Place place = Place::network;
  if (own && own->is_unix()) place = Place::unix;
  if (own && !own->is_unix() && sessions::is_loopback(parse_ip(own->host))) place = Place::loopback;
  if (place == Place::network) {
    if (!options_.tls) co_return;  // start() has refused such a socket
    const Until until{.deadline = loop.now() + config.settings().penapi_timeout, .cancel = options_.draining};
    if (auto done = co_await tls::accept(stream, options_.tls, until); !done) {
      log::info("TLS: {}", done.error().message());
      co_return;
    }
  }
  while (co_await serve_request(stream, place)) {
  }
  (void)co_await stream.shutdown({.deadline = loop.now() + seconds(5)});
}

/// false: the connection ends.
Task<bool> Server::serve_request(async::Stream& stream, Place place) {
  bool quiet_end = false;
  const auto request = co_await read_request(stream, place, quiet_end);
  if (quiet_end) co_return false;
  if (!request) {
    const Response no = failure(request.error().status, request.error().text);
    (void)co_await write(stream, no, false, true);
    co_return false;
  }
  const Response response = co_await answer(*request, place);
  const bool draining = options_.draining != nullptr && options_.draining->raised();
  const bool keep_alive = request->keep_alive && !draining;
  co_return co_await write(stream, response, keep_alive, request->method != "HEAD") && keep_alive;
}

Task<std::expected<Request, Refusal>> Server::read_request(async::Stream& stream, Place place, bool& quiet_end) {
  Until until{.deadline = loop.now() + config.settings().penapi_timeout, .cancel = options_.draining};
  RequestHead head;
  for (bool first = true; !head.done(); first = false) {
    auto line = co_await stream.read_line(kMaxHeader, until);
    if (!line) {
      const bool late = line.error().is(async::WaitError::timed_out);
      if (line.error().is(async::WaitError::line_too_long))
        co_return std::unexpected(Refusal{431, "the header is too large"});
      if (!first && late) co_return std::unexpected(Refusal{408, "the request took too long"});
      quiet_end = true;  // between requests anybody may go
      co_return std::unexpected(Refusal{});
    }
    if (auto wrong = head.take(*line)) co_return std::unexpected(*std::move(wrong));
  }
  until.cancel = nullptr;  // what has begun is finished
  if (place != Place::unix && !is_own_host(head.request().host, config.settings().myhostname))
    co_return std::unexpected(Refusal{421, "the Host field does not name this server"});
  if (head.length() > 0) {
    if (head.expects_continue()) stream.write("HTTP/1.1 100 Continue\r\n\r\n");
    const auto body = co_await stream.read_exact(head.length(), until);
    if (!body && body.error().is(async::WaitError::timed_out))
      co_return std::unexpected(Refusal{408, "the request took too long"});
    if (!body) {
      quiet_end = true;
      co_return std::unexpected(Refusal{});
    }
    head.request().body = *body;
  }
  co_return std::move(head.request());
}

Task<Response> Server::answer(const Request& request, Place place) {
  const Match match = find_route(request);
  if (match.route == nullptr && match.allow.empty()) co_return failure(404, "there is no such path: see docs/api.md");
  if (match.route == nullptr) {
    Response no = failure(405, "this path does not take that method");
    no.allow = match.allow;
    co_return no;
  }
  const Access access = match.route->access;
  const bool wants_token =
      access == Access::order ||
      (access == Access::read && (place == Place::network || config.settings().penapi_require_token));
  if (wants_token && options_.tokens.empty())
    co_return failure(403, "this needs a token, and penapi_token_file names none");
  if (wants_token && !options_.tokens.permit(request.authorization)) {
    if (!request.authorization.empty()) log::warning("{} {}: a wrong token", request.method, match.route->pattern);
    co_return failure(401, "this needs a token: Authorization: Bearer TOKEN");
  }
  co_return co_await match.route->handler(*this, Call{request, match.argument});
}

Task<bool> Server::write(async::Stream& stream, const Response& response, bool keep_alive, bool with_body) {
  const std::string head = response_head(response, keep_alive);
  const Until until{.deadline = loop.now() + config.settings().penapi_timeout};
  if (!with_body) {
    stream.write(head);
    co_return (co_await stream.flush(until)).has_value();
  }
  const Bytes pieces[] = {as_bytes(head), as_bytes(response.body)};
  co_return (co_await stream.write_all(pieces, until)).has_value();
}

}  // namespace pen::api
