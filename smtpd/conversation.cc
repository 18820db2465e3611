#include "smtpd/conversation.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/suite/events/emitter.h"
#include "smtpd/attributes.h"
#include "smtpd/reply_footer.h"

namespace pen::smtpd {
namespace {

constexpr std::size_t kMaxReplyLine = 510;  // RFC 5321 section 4.5.3.1.5, without CRLF

bool refuses(std::string_view reply) {
  return reply.size() > 4 && (reply[0] == '4' || reply[0] == '5') && ascii_digit(reply[1]) && ascii_digit(reply[2]) &&
         reply[3] == ' ';
}

/// A line of a reply as it is sent: of a bounded length, ended where it says and nowhere else.
std::string reply_line(std::string_view text) {
  text = text.substr(0, kMaxReplyLine);
  std::string line;
  line.reserve(text.size() + 2);
  line += text;
  for (char& c : line) c = static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  line += "\r\n";
  return line;
}

/// For the count of refusals, where nobody has said why.
metrics::Reason reason_of(mail::ErrorClasses error) {
  using mail::ErrorClass;
  if (error.has(ErrorClass::protocol)) return metrics::Reason::protocol;
  if (error.has(ErrorClass::resource) || error.has(ErrorClass::data) || error.has(ErrorClass::software))
    return metrics::Reason::resources;
  return error.has(ErrorClass::bounce) ? metrics::Reason::content : metrics::Reason::policy;
}

Peer peer_at(const async::SocketAddress& from, const config::Settings& s) {
  Peer peer;
  peer.address = from.is_unix() ? std::string("127.0.0.1") : from.host;
  if (istarts_with(peer.address, "::ffff:") && peer.address.find('.') != std::string::npos)
    peer.address.erase(0, 7);  // IPv4 on an IPv6 socket
  peer.port = from.port;
  peer.show_port = s.smtpd_client_port_logging;
  return peer;
}

}  // namespace

Conversation::Conversation(Server& server_in, async::Stream stream_in, const async::SocketAddress& from)
    : policies_(server_in.policy()),
      policy_(policies_.get()),
      server(server_in),
      stream(std::move(stream_in)),
      client{.peer = peer_at(from, policy_->settings),
             .helo = {},
             .login = nullptr,
             .tls = nullptr,
             .forwarded = nullptr,
             .socket = stream.fd(),
             .session = events::next_session(),
             .reached = nullptr},
      watchers(server, client) {
  if (server.tell_postmaster && !policy_->told.empty()) watchers.keep_transcript();
}

std::string Conversation::replaced_reply(std::string_view text, const map::Value& found) const {
  const Subject about = subject();
  const std::string_view id = about.queue_id.empty() ? std::string_view("NOQUEUE") : about.queue_id;
  if (!found) log::warning("{}: smtpd_reject_filter_maps: {}", id, found.error().message());
  if (!found || !*found) return std::string(text);
  const std::string& next = **found;
  // A refusal stays one, and its status code is of the same class as its reply code.
  const bool status_differs = next.size() > 4 && ascii_digit(next[4]) && next[4] != next[0];
  if (!refuses(next) || status_differs) {
    log::warning("{}: ignoring invalid reject filter result: {}", id, printable(next, 200));
    return std::string(text);
  }
  log::info("{}: reject filter in: {}", id, printable(text, 500));
  log::info("{}: reject filter out: {}", id, printable(next, 500));
  return next;
}

async::Task<std::string> Conversation::filter_reply(std::string text) {
  if (policy_->reject_filter.empty() || !refuses(text)) co_return text;
  const map::Value found = co_await server.intake.tables.ask([&] { return policy_->reject_filter.lookup(text); });
  co_return replaced_reply(text, found);
}

void Conversation::reply(std::string_view text) {
  const auto& filter = policy_->reject_filter;
  // The end of a session does not wait for a table that another process serves.
  if (filter.empty() || !refuses(text) || filter.blocking()) return reply(text, settings().smtpd_reject_footer);
  reply(replaced_reply(text, filter.lookup(text)), settings().smtpd_reject_footer);
}

void Conversation::reply(std::string_view given, std::string_view footer, std::string_view filter) {
  if (!given.starts_with('4') && !given.starts_with('5')) return write_reply(reply_line(given));
  std::string text(given);
  if (settings().soft_bounce && text.starts_with('5')) {  // every refusal, whatever it is about
    text[0] = '4';
    if (text.size() > 5 && text[4] == '5' && text[5] == '.') text[4] = '4';
  }
  std::vector<std::string> lines = {text};
  if (refuses(text)) {
    metrics::smtpd_rejects.add(metrics::stage_of(last_command), metrics::code_of(text),
                               std::exchange(reason, std::nullopt).value_or(metrics::Reason::protocol));
    metrics::smtpd_rejects_by_status.add(metrics::enhanced_of(text));
  }
  if (refuses(text) && !footer.empty()) {
    Subject about = subject();
    if (transaction && !about.recipient) about.recipient = transaction->first_recipient();
    const config::Lookup names = [&](std::string_view name) {
      return session_attribute(name, about, settings(), server.loop.clock().wall_now());
    };
    lines = with_footer(text, footer, names, filter);
  }
  std::string out;
  for (const auto& line : lines) out += reply_line(line);
  write_reply(out);
}

void Conversation::write_reply(std::string_view lines) {
  watchers.said(lines);
  // The reply announces that the connection closes (RFC 5321 section 3.8, RFC 7504 section 2).
  hangs_up = hangs_up || lines.starts_with("421") || lines.starts_with("521");
  stream.write(lines);
}

async::Task<Flow> Conversation::refuse(std::string_view text, mail::ErrorClasses error) {
  went_wrong(error);
  if (!reason) reason = reason_of(error);
  failed = true;
  ++errors;
  ++server.counts.refused;
  const std::string own = co_await filter_reply(std::string(text));
  if (static_cast<int>(errors) > settings().smtpd_soft_error_limit &&
      settings().smtpd_error_sleep_time > milliseconds(0)) {
    (void)co_await stream.flush(until());
    (void)co_await server.loop.sleep(settings().smtpd_error_sleep_time, {.cancel = &server.stop_cancel()});
  }
  const std::string footer = co_await footer_of(own);
  reply(own, footer);
  co_return Flow::go_on;
}

async::Task<std::string> Conversation::footer_of(std::string text) {
  if (policy_->reject_footer_maps.empty()) co_return settings().smtpd_reject_footer;
  const map::Value found = co_await server.intake.tables.ask(
      [maps = policy_->reject_footer_maps, text = std::move(text)] { return maps.lookup(text); });
  if (!found) log::warning("smtpd_reject_footer_maps: {}", found.error().message());
  co_return found && *found ? **found : settings().smtpd_reject_footer;
}

async::Task<Flow> Conversation::answer(Response response) {
  for (const auto& line : response.before) reply(line);
  reason = response.reason;
  if (response.kind == Response::Kind::refused) co_return co_await refuse(response.text, response.error);
  if (response.kind == Response::Kind::put_off) {
    failed = true;
    went_wrong(response.error);
    if (response.counts) ++errors;
    const std::string text = co_await filter_reply(std::move(response.text));
    const std::string footer = co_await footer_of(text);
    reply(text, footer);
    co_return Flow::go_on;
  }
  reply(response.text);
  co_return Flow::go_on;
}

async::Task<void> Conversation::say_goodbye() {
  const async::Until soon{.deadline = server.loop.now() + seconds(5)};
  if (client.secured())
    (void)co_await stream.shutdown(soon);  // with close_notify
  else
    (void)co_await stream.flush(soon);
}

async::Task<Verdict> Conversation::ask(Checks::AtStage stage, Subject about) {
  Checks checks(*policy_, server.check_tools(), std::move(about));
  co_return co_await (checks.*stage)();
}

void Conversation::take_place() {
  if (server.stress) place_.emplace(*server.stress);
  policy_ = &current();
}

async::Until Conversation::patience(milliseconds limit) const {
  Stress* stress = strain();
  if (!stress || server.stopping()) return {.deadline = waiting_since + limit, .cancel = &server.stop_cancel()};
  if (!stress->on()) return {.deadline = waiting_since + limit, .cancel = &stress->begins()};
  // A client that waited when it began has that much time from then on.
  return {.deadline = std::max(waiting_since, stress->since()) + limit, .cancel = &server.stop_cancel()};
}

bool Conversation::still_waits(const Error& ended, SteadyTime deadline) const {
  if (server.stopping()) return false;
  return ended.is(async::WaitError::cancelled) ||
         (ended.is(async::WaitError::timed_out) && server.loop.now() < deadline);
}

Flow Conversation::read_failed(const Error& error) {
  const auto& s = settings();
  if (error.is(async::WaitError::timed_out)) {
    log::info("timeout after {} from {}", last_command, client.peer.shown());
    metrics::smtpd_timeouts.add(metrics::stage_of(last_command));
    reason = metrics::Reason::other;
    aborted = "timeout";
    reply(fmt::format("421 4.4.2 {} Error: timeout exceeded", s.myhostname));
  } else if (error.is(async::WaitError::cancelled)) {
    reason = metrics::Reason::other;
    reply(fmt::format("421 4.3.2 {} Service closing transmission channel", s.myhostname));
  } else {
    log::info("lost connection after {} from {}", last_command, client.peer.shown());
    metrics::smtpd_connections_lost.add(metrics::stage_of(last_command));
    aborted = "lost connection";
  }
  return Flow::close;
}

Flow Conversation::bare_newline() {
  const auto& s = settings();
  log::info("bare <LF> received after {} from {}", last_command, client.peer.shown());
  went_wrong(mail::ErrorClass::protocol);
  reply(fmt::format("{} 5.5.2 {} Error: bare <LF> received", s.smtpd_forbid_bare_newline_reject_code, s.myhostname));
  return Flow::close;
}

std::optional<async::SocketAddress> Conversation::own_end() const {
  if (client.reached) return *client.reached;
  if (auto own = async::local_address(stream.fd())) return *std::move(own);
  return std::nullopt;
}

}  // namespace pen::smtpd
