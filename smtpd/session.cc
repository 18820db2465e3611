#include "smtpd/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/metrics/metrics.h"
#include "lib/base/text.h"
#include "smtpd/arrival.h"
#include "smtpd/lists_ahead.h"
#include "smtpd/refused_session.h"
#include "smtpd/session_tls.h"

namespace pen::smtpd {
namespace {

// a client that does not read its replies waits here
constexpr std::size_t kUnreadReplies = 64 * 1024;

using mail::Verb;

}  // namespace

Session::Session(Server& server, async::Stream stream, const async::SocketAddress& from)
    : talk_(server, std::move(stream), from), limits_(server, talk_.policy().settings, talk_.client.peer) {}

void Session::log_disconnect() {
  const std::string line = "disconnect from " + talk_.client.peer.shown() + counts_.text();
  log::info("{}", line);
  talk_.watchers.disconnected(talk_.aborted, line);
  metrics::smtpd_disconnections.add();
}

async::Task<void> Session::serve(Server& server, async::Stream stream, async::SocketAddress from,
                                 [[maybe_unused]] async::Listener::Slot slot) {
  ++server.counts.sessions;
  ++server.counts.live;
  {
    const std::unique_ptr<Session> session(new Session(server, std::move(stream), from));
    co_await session->run();
  }
  --server.counts.live;
}

async::Task<void> Session::run() {
  const bool screened = talk_.server.screener && !talk_.policy().tls.wrapper;
  const bool proxied = screened ? talk_.server.screener->screening().upstream_proxy : talk_.policy().upstream_proxy;
  const bool known = !proxied || co_await ask_proxy(talk_, limits_);
  talk_.watchers.connected();
  if (!screened) talk_.take_place();
  if (known && screened) screened_ = Screened::begin(talk_);
  bool serves = !screened_ || co_await screened_->test() == Flow::go_on;
  if (serves && doomed()) {
    co_await RefusedSession::serve(talk_, *screened_);
    serves = false;
  }
  if (serves)
    co_await welcome(known);
  else
    co_await talk_.say_goodbye();
  if (screened_) screened_->end();
}

async::Task<void> Session::welcome(bool known) {
  if (known) co_await ask_lists_about_address(talk_);
  if (known && talk_.settings().smtpd_peername_lookup) {
    ClientName name = co_await talk_.server.names.client(talk_.client.peer.address, talk_.until());
    talk_.client.peer.name_state = name.verified;
    talk_.client.peer.reverse_state = name.reverse;
    talk_.client.peer.forward_state = name.forward;
    if (name.reverse == NameState::ok && name.verified != NameState::ok) {
      log::warning("hostname {} does not resolve to address {}", printable(name.reverse_name),
                   talk_.client.peer.address);
      metrics::smtpd_unconfirmed_names.add();
    }
    if (name.verified == NameState::ok) talk_.client.peer.name = std::move(name.name);
    if (name.reverse == NameState::ok) talk_.client.peer.reverse_name = std::move(name.reverse_name);
  }
  log::info("connect from {}", talk_.client.peer.shown());
  if (!talk_.policy().traced.empty()) co_await talk_.look_whether_to_log();
  metrics::smtpd_connections.add();
  talk_.watchers.client_known();
  if (known) co_await serve_client();
  log_disconnect();
}

async::Task<void> Session::serve_client() {
  const auto& s = talk_.settings();
  co_await learn_standing();
  if (const auto own = talk_.own_end())
    talk_.client.peer.own_address = own->is_unix() || own->host == talk_.client.peer.address;

  if (co_await too_many_connections()) {
    // refused there
  } else if (const auto place = co_await limits_.class_place(); !place.granted) {
    log::warning("Session limit exceeded: {} sessions or more in class {} from {} for service {}",
                 place.refused_by->refuse, place.refused_by->mask, talk_.client.peer.shown(), talk_.server.service);
    talk_.went_wrong(mail::ErrorClass::policy);
    talk_.reason = metrics::Reason::rate;
    if (!talk_.policy().tls.wrapper) talk_.reply(fmt::format("421 4.7.0 {} Error: too many sessions", s.myhostname));
  } else if (talk_.policy().tls.wrapper && co_await wrap(talk_, limits_) == Flow::close) {
    // said by wrap()
  } else if (co_await greet() == Flow::go_on) {
    co_await commands();
  }
  talk_.watchers.tell_postmaster(talk_.policy().told, talk_.aborted);
  if (talk_.filters) co_await talk_.filters->quit();
  co_await talk_.say_goodbye();
}

async::Task<bool> Session::too_many_connections() {
  const bool too_many = co_await limits_.too_many_connections();
  talk_.client.connections = limits_.connections();
  if (!too_many) co_return false;
  talk_.went_wrong(mail::ErrorClass::policy);
  talk_.reason = metrics::Reason::rate;
  // No handshake for a refusal; in clear text the client would not understand the reply.
  if (!talk_.policy().tls.wrapper || talk_.client.secured())
    talk_.reply(fmt::format("421 4.7.0 {} Error: too many connections from {}", talk_.settings().myhostname,
                            talk_.client.peer.address));
  co_return true;
}

async::Task<void> Session::learn_standing() {
  talk_.standing = co_await Standing::look_up(talk_.server, talk_.policy(), talk_.settings(), talk_.client.peer);
  limits_.exempt(talk_.standing.may_xclient || talk_.standing.unlimited);
  if (talk_.policy().named_lists && asked_ahead(talk_.client)) {
    if (talk_.client.peer.name_state == NameState::ok)
      ask_ahead_about_name(talk_.server.lists, talk_.policy().named_lists->client_name, talk_.client.peer.name);
    if (talk_.client.peer.reverse_state == NameState::ok)
      ask_ahead_about_name(talk_.server.lists, talk_.policy().named_lists->reverse_name,
                           talk_.client.peer.reverse_name);
  }
}

async::Task<Flow> Session::greet() {
  // Early talker: bytes before the greeting (RFC 5321 section 4.3.1).
  if (talk_.stream.poll_input() && improper_pipelining(Verb::helo, "CONNECT")) co_return Flow::close;
  const Verdict verdict = co_await talk_.ask(&Checks::client, talk_.subject());
  if (verdict.rejected()) {
    access_denied_ = verdict.reply;
    const Flow flow = co_await talk_.refuse(verdict);
    co_return talk_.hangs_up ? Flow::close : flow;  // QUIT is still answered (RFC 5321 section 3.1)
  }
  if (talk_.policy().milters && talk_.policy().milters->smtpd_filters()) co_return co_await greet_by_filters();
  talk_.reply("220 " + talk_.settings().smtpd_banner);
  co_return Flow::go_on;
}

async::Task<Flow> Session::greet_by_filters() {
  if (talk_.filters) co_await talk_.filters->quit();  // XCLIENT: for the filters another client connects
  talk_.filters = co_await SessionFilters::open(talk_.server, talk_.policy(), talk_.client);
  if (talk_.filters)
    if (auto no = co_await talk_.filters->connect()) {
      access_denied_ = no->text;
      const Flow flow = co_await talk_.answer(*std::move(no));
      co_return talk_.hangs_up ? Flow::close : flow;
    }
  talk_.reply("220 " + talk_.settings().smtpd_banner);
  co_return Flow::go_on;
}

async::Task<void> Session::commands() {
  talk_.waiting_since = talk_.server.loop.now();
  for (;;) {
    if (!talk_.transaction) {
      talk_.watchers.limit(static_cast<std::uint64_t>(talk_.settings().smtpd_history_flush_threshold),
                           talk_.policy().told);
      talk_.renew_policy();
    }
    const auto& s = talk_.settings();
    if (static_cast<int>(talk_.errors) >= s.smtpd_hard_error_limit) {
      log::info("too many errors after {} from {}", talk_.last_command, talk_.client.peer.shown());
      talk_.went_wrong(mail::ErrorClass::protocol);
      talk_.aborted = "too many errors";
      talk_.reply(fmt::format("421 4.7.0 {} Error: too many errors", s.myhostname));
      co_return;
    }
    if (talk_.stream.queued() > kUnreadReplies) {
      if (auto flushed = co_await talk_.stream.flush(talk_.until()); !flushed) {
        talk_.read_failed(flushed.error());
        co_return;
      }
    }
    auto line = co_await talk_.stream.read_raw_line(static_cast<std::size_t>(s.line_length_limit),
                                                    talk_.patience(s.smtpd_timeout));
    if (!line) {
      if (talk_.still_waits(line.error(), talk_.patience(talk_.settings().smtpd_timeout).deadline)) continue;
      if (line.error().is(async::WaitError::line_too_long)) {
        if (auto skipped = co_await talk_.stream.discard_line(talk_.until()); !skipped) {
          talk_.read_failed(skipped.error());
          co_return;
        }
        talk_.watchers.heard("(a line that is too long)");
        counts_.add(Verb::unknown, false);
        talk_.last_command = "UNKNOWN";
        if (co_await talk_.refuse("500 5.5.2 Error: line too long") == Flow::close) co_return;
        talk_.waiting_since = talk_.server.loop.now();
        continue;
      }
      talk_.read_failed(line.error());
      co_return;
    }
    if (co_await command(*line) == Flow::close || talk_.hangs_up) co_return;
    if (doomed()) {
      co_await RefusedSession::serve(talk_, *screened_);
      co_return;
    }
    talk_.waiting_since = talk_.server.loop.now();
  }
}

}  // namespace pen::smtpd
