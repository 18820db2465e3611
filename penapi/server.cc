#include "penapi/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/log.h"
#include "lib/net/tls/session.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/sessions/classes.h"

namespace pen::api {

using async::Task;
using async::Until;

Server::Server(async::Loop& loop_in, const config::Config& config_in, Options options)
    : loop(loop_in),
      config(config_in),
      listings(loop_in, kListings),
      survey(*this),
      disks(loop_in, {{.setting = "queue_log_directory", .directory = config_in.settings().queue_log_directory},
                      {.setting = "spool_directory", .directory = config_in.settings().spool_directory},
                      {.setting = "data_directory", .directory = config_in.settings().data_directory}}),
      options_(std::move(options)),
      questions_(loop_in, kQuestions) {
  const auto& s = config.settings();
  if (!s.penapi_submission_service.empty()) submissions_ = std::make_unique<Submissions>(*this);
  if (!s.penapi_status_page) return;
  recorder_ = std::make_unique<Recorder>(*this, s.penapi_history_map);
  recorder_->start();
  events_ = std::make_unique<EventTail>(loop, path("public/event-stream"));
  events_->start();
}

std::string Server::path(std::string_view name) const {
  return config.settings().queue_directory + "/" + std::string(name);
}

Result<metrics::Sums> Server::counted() const {
  metrics::Sums sums(metrics::kSlots);
  for (const metrics::Reader& page : options_.pages) PEN_TRY(page.add_to(sums));
  return sums;
}

namespace {

bool was_closed(const Error& error) {
  return error.is(async::WaitError::closed) || error.is_errno(EPIPE) || error.is_errno(ECONNRESET);
}

/// One request and its answers over a connection of its own; its end tells qmgr that no more is wanted.
template <class From, class To, class Done>
Task<Result<std::optional<Done>>> converse(async::Loop& loop, std::string path, std::string_view conversation,
                                           To request, std::function<bool(From&)> see, seconds patience,
                                           std::uint32_t least_revision = 0) {
  const Until until{.deadline = loop.now() + patience};
  for (bool anew = true;; anew = false) {
    auto channel = co_await ipc::connect_channel<From, To>(
        loop, path, conversation, {.deadline = std::min(until.deadline, loop.now() + Server::kGreets)});
    // A reload replaces the queue manager: what it has not read, its successor is asked.
    if (!channel && anew && was_closed(channel.error())) continue;
    if (!channel && channel.error().is(async::WaitError::timed_out)) co_return fail_errno("its greeting", ETIMEDOUT);
    if (!channel) co_return fail(std::move(channel).error());
    if (channel->peer_revision() < least_revision)
      co_return fail(ipc::IpcError::wrong_version, "the queue manager that runs is an older one and knows no tenants");
    if (auto sent = std::visit([&](const auto& m) { return channel->send(m); }, request); !sent) {
      if (anew && was_closed(sent.error())) continue;
      co_return fail(std::move(sent).error());
    }
    for (;;) {
      auto received = co_await channel->receive(until);
      if (!received) co_return fail(std::move(received).error());
      if (auto* done = std::get_if<Done>(&received->message)) co_return std::optional<Done>(std::move(*done));
      if (!see(received->message)) co_return std::optional<Done>();
    }
  }
}

/// Gives a turn back, also where its question is given up.
struct Turn {
  async::Semaphore& of;
  explicit Turn(async::Semaphore& turns) : of(turns) {}
  ~Turn() { of.release(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
};

}  // namespace

template <class From, class To, class Done>
Task<Result<std::optional<Done>>> Server::question(std::string_view conversation, To request, See<From> see,
                                                   seconds patience, std::uint32_t least_revision) {
  std::optional<Turn> turn;
  bool waits = true;
  if constexpr (std::is_same_v<To, ipc::queue::ToQmgr>) waits = !std::holds_alternative<ipc::queue::AskStatus>(request);
  if (waits) {
    if (!co_await questions_.acquire({.deadline = loop.now() + patience}))
      co_return fail_errno("others ask it all the time", ETIMEDOUT);
    turn.emplace(questions_);
  }
  co_return co_await converse<From, To, Done>(loop, path(ipc::kQmgrSocket), conversation, std::move(request),
                                              std::move(see), patience, least_revision);
}

Task<Result<std::optional<ipc::queue::Done>>> Server::ask(ipc::queue::ToQmgr request, See<ipc::queue::FromQmgr> see,
                                                          seconds patience) {
  const auto* act = std::get_if<ipc::queue::Act>(&request);
  const auto* list = std::get_if<ipc::queue::List>(&request);
  const bool of_tenant =
      (act != nullptr && !act->filter.tenant.empty()) || (list != nullptr && !list->filter.tenant.empty());
  const std::uint32_t revision = of_tenant ? ipc::queue::kTenantRevision : 0;
  return question<ipc::queue::FromQmgr, ipc::queue::ToQmgr, ipc::queue::Done>(ipc::queue::kName, std::move(request),
                                                                              std::move(see), patience, revision);
}

Task<Result<std::optional<ipc::destinations::Done>>> Server::ask(ipc::destinations::ToQmgr request,
                                                                 See<ipc::destinations::FromQmgr> see) {
  return question<ipc::destinations::FromQmgr, ipc::destinations::ToQmgr, ipc::destinations::Done>(
      ipc::destinations::kName, std::move(request), std::move(see), kPatience, 0);
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
  for (bool first = true; co_await serve_request(stream, place, first); first = false) {
  }
  (void)co_await stream.shutdown({.deadline = loop.now() + seconds(5)});
}

namespace {
/// Reads on for a while where the rest of a request is not wanted: a client that is cut off while it sends does not see
/// the answer.
Task<void> hear_out(async::Stream& stream) {
  const Until until{.deadline = stream.loop().now() + seconds(5)};
  if (!co_await stream.shutdown(until)) co_return;
  while (co_await stream.read_some(std::size_t{64} << 10, until)) {
  }
}

/// The peer at the other end.
std::string peer_of(const async::Stream& stream, bool local) {
  if (local) {
    const auto who = async::peer_credentials(stream.fd());
    return who ? fmt::format("uid {}", who->uid) : std::string();
  }
  const auto address = async::peer_address(stream.fd());
  return address ? address->host : std::string();
}
}  // namespace

/// false: the connection ends.
Task<bool> Server::serve_request(async::Stream& stream, Place place, bool first) {
  bool quiet_end = false;
  RequestHead head(submissions_ ? submissions_->largest() : kMaxBody);
  const auto wrong = co_await read_request(stream, place, first, head, quiet_end);
  if (quiet_end) co_return false;
  const Request* request = &head.request();
  if (wrong) {
    (void)co_await write(stream, failure(wrong->status, wrong->text), false, true);
    if (hands_in_mail(*request)) co_await hear_out(stream);
    co_return false;
  }
  if (hands_in_mail(*request)) co_return co_await hand_in(stream, head, place);
  bool streams = false;
  const Response response = co_await answer(*request, place, peer_of(stream, place == Place::unix), streams);
  if (streams && request->method == "GET") co_return co_await stream_figures(stream);
  const bool draining = options_.draining != nullptr && options_.draining->raised();
  const bool keep_alive = request->keep_alive && !draining;
  co_return co_await write(stream, response, keep_alive, request->method != "HEAD") && keep_alive;
}

Task<std::optional<Refusal>> Server::read_request(async::Stream& stream, Place place, bool first_of_all,
                                                  RequestHead& head, bool& quiet_end) {
  // A client that was accepted just before a reload has asked this process, and would hear nothing.
  Until until{.deadline = loop.now() + config.settings().penapi_timeout,
              .cancel = first_of_all ? nullptr : options_.draining};
  for (bool first = true; !head.done(); first = false) {
    auto line = co_await stream.read_line(kMaxHeader, until);
    if (!line) {
      const bool late = line.error().is(async::WaitError::timed_out);
      if (line.error().is(async::WaitError::line_too_long)) co_return Refusal{431, "the header is too large"};
      if (!first && late) co_return Refusal{408, "the request took too long"};
      quiet_end = true;  // between requests anybody may go
      co_return Refusal{};
    }
    if (auto wrong = head.take(*line)) co_return wrong;
  }
  until.cancel = nullptr;  // what has begun is finished
  if (place != Place::unix && !is_own_host(head.request().host, config.settings().myhostname))
    co_return Refusal{421, "the Host field does not name this server"};
  if (head.length() > 0 && !hands_in_mail(head.request())) {
    if (head.expects_continue()) stream.write("HTTP/1.1 100 Continue\r\n\r\n");
    const auto body = co_await stream.read_exact(head.length(), until);
    if (!body && body.error().is(async::WaitError::timed_out)) co_return Refusal{408, "the request took too long"};
    if (!body) {
      quiet_end = true;
      co_return Refusal{};
    }
    head.request().body = *body;
  }
  co_return std::nullopt;
}

Task<bool> Server::hand_in(async::Stream& stream, const RequestHead& head, Place place) {
  Response response = failure(403, "no mail is taken here: penapi_submission_service is not set");
  bool read = head.length() == 0;
  if (submissions_) response = co_await submissions_->take(stream, head, place == Place::unix, read);
  const bool draining = options_.draining != nullptr && options_.draining->raised();
  const bool keep_alive = head.request().keep_alive && read && !draining;
  if (!co_await write(stream, response, keep_alive, true)) co_return false;
  if (!read) co_await hear_out(stream);
  co_return keep_alive;
}

Task<Response> Server::answer(const Request& request, Place place, std::string peer, bool& streams) {
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
  const auto token = wants_token ? options_.tokens.permit(request.authorization) : std::nullopt;
  if (wants_token && !token) {
    if (!request.authorization.empty()) log::warning("{} {}: a wrong token", request.method, match.route->pattern);
    co_return failure(401, "this needs a token: Authorization: Bearer TOKEN");
  }
  if (match.route->handler == nullptr) {
    streams = true;
    co_return Response{.body = {}, .type = "text/event-stream"};
  }
  std::string by = "penapi";
  if (token) by += fmt::format(", token of line {}", *token);
  if (!peer.empty()) by += ", " + peer;
  co_return co_await match.route->handler(*this, Call{request, match.argument, std::move(by)});
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
