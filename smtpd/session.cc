#include "smtpd/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/events/emitter.h"
#include "lib/mail/address.h"
#include "lib/mail/charset.h"
#include "lib/mail/client_attributes.h"
#include "lib/metrics/metrics.h"
#include "smtpd/attributes.h"
#include "smtpd/lists_ahead.h"
#include "smtpd/reply_footer.h"

namespace pen::smtpd {
namespace {

constexpr std::size_t kMaxReplyLine = 510;  // RFC 5321 section 4.5.3.1.5, without CRLF
// a client that does not read its replies waits here
constexpr std::size_t kUnreadReplies = 64 * 1024;

using mail::Verb;

bool refuses(std::string_view reply) {
  return reply.size() > 4 && (reply[0] == '4' || reply[0] == '5') && ascii_digit(reply[1]) && ascii_digit(reply[2]) &&
         reply[3] == ' ';
}

}  // namespace

namespace {

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

Session::Session(Server& server, async::Stream stream, const async::SocketAddress& from)
    : server_(server),
      policies_(server.policy()),
      policy_(policies_.get()),
      stream_(std::move(stream)),
      client_{.peer = peer_at(from, policy_->settings),
              .helo = {},
              .login = nullptr,
              .tls = nullptr,
              .forwarded = nullptr,
              .socket = stream_.fd(),
              .session = events::next_session(),
              .reached = nullptr},
      watchers_(server_, client_),
      limits_(server_, policy_->settings, client_.peer) {
  if (server_.tell_postmaster && !policy_->told.empty()) watchers_.keep_transcript();
}

void Server::tell_short_memory(const std::string& client) {
  if (told_short_ != SteadyTime::min() && loop.now() < told_short_ + seconds(60)) return;
  told_short_ = loop.now();
  log::warning("recipients of all sessions together take {} bytes: further ones are put off, now of {}",
               intake.memory.used(), client);
}

std::string Session::replaced_reply(std::string_view text, const map::Value& found) const {
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

async::Task<std::string> Session::filter_reply(std::string text) {
  if (policy_->reject_filter.empty() || !refuses(text)) co_return text;
  const map::Value found = co_await server_.intake.tables.ask([&] { return policy_->reject_filter.lookup(text); });
  co_return replaced_reply(text, found);
}

void Session::reply(std::string_view text) {
  const auto& filter = policy_->reject_filter;
  // The end of a session does not wait for a table that another process serves.
  if (filter.empty() || !refuses(text) || filter.blocking()) return reply(text, settings().smtpd_reject_footer);
  reply(replaced_reply(text, filter.lookup(text)), settings().smtpd_reject_footer);
}

void Session::reply(std::string_view given, std::string_view footer, std::string_view filter) {
  std::string text(given);
  if (settings().soft_bounce && text.starts_with('5')) {  // every refusal, whatever it is about
    text[0] = '4';
    if (text.size() > 5 && text[4] == '5' && text[5] == '.') text[4] = '4';
  }
  std::vector<std::string> lines = {text};
  if (refuses(text)) {
    metrics::smtpd_rejects.add(metrics::stage_of(last_command_), metrics::code_of(text),
                               std::exchange(reason_, std::nullopt).value_or(metrics::Reason::protocol));
    metrics::smtpd_rejects_by_status.add(metrics::enhanced_of(text));
  }
  if (refuses(text) && !footer.empty()) {
    Subject about = subject();
    if (transaction_ && !about.recipient) about.recipient = transaction_->first_recipient();
    const config::Lookup names = [&](std::string_view name) {
      return session_attribute(name, about, settings(), server_.loop.clock().wall_now());
    };
    lines = with_footer(text, footer, names, filter);
  }
  std::string out;
  for (const auto& line : lines) {
    for (const char c : std::string_view(line).substr(0, kMaxReplyLine))
      out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
    out += "\r\n";
  }
  write_reply(out);
}

metrics::Reason Session::reason_of(mail::ErrorClasses error) {
  using mail::ErrorClass;
  if (error.has(ErrorClass::protocol)) return metrics::Reason::protocol;
  if (error.has(ErrorClass::resource) || error.has(ErrorClass::data) || error.has(ErrorClass::software))
    return metrics::Reason::resources;
  return error.has(ErrorClass::bounce) ? metrics::Reason::content : metrics::Reason::policy;
}

void Session::write_reply(std::string_view lines) {
  watchers_.said(lines);
  // The reply announces that the connection closes (RFC 5321 section 3.8, RFC 7504 section 2).
  hang_up_ = hang_up_ || lines.starts_with("421") || lines.starts_with("521");
  stream_.write(lines);
}

async::Task<Session::Flow> Session::refuse(std::string_view text, mail::ErrorClasses error) {
  went_wrong(error);
  if (!reason_) reason_ = reason_of(error);
  failed_ = true;
  ++errors_;
  ++server_.counts.refused;
  const std::string own = co_await filter_reply(std::string(text));
  if (static_cast<int>(errors_) > settings().smtpd_soft_error_limit &&
      settings().smtpd_error_sleep_time > milliseconds(0)) {
    (void)co_await stream_.flush(until());
    (void)co_await server_.loop.sleep(settings().smtpd_error_sleep_time, {.cancel = &server_.stop_cancel()});
  }
  const std::string footer = co_await footer_of(own);
  reply(own, footer);
  co_return Flow::go_on;
}

async::Task<std::string> Session::footer_of(std::string text) {
  if (policy_->reject_footer_maps.empty()) co_return settings().smtpd_reject_footer;
  const map::Value found = co_await server_.intake.tables.ask(
      [maps = policy_->reject_footer_maps, text = std::move(text)] { return maps.lookup(text); });
  if (!found) log::warning("smtpd_reject_footer_maps: {}", found.error().message());
  co_return found && *found ? **found : settings().smtpd_reject_footer;
}

void Session::count(Verb verb, bool ok) {
  const auto i = static_cast<std::size_t>(verb);
  if (!counts_) counts_ = std::make_unique<Counts>();
  ++counts_->tried[i];
  if (ok) ++counts_->succeeded[i];
}

void Session::log_disconnect() {
  std::string line = "disconnect from " + client_.peer.shown();
  std::uint32_t tried = 0, succeeded = 0;
  const auto add = [&](std::string_view name, std::uint32_t ok, std::uint32_t all) {
    if (ok == all)
      line += fmt::format(" {}={}", name, all);
    else
      line += fmt::format(" {}={}/{}", name, ok, all);
  };
  for (std::size_t i = 0; counts_ && i < mail::kVerbs; ++i) {
    if (counts_->tried[i] == 0) continue;
    add(to_lower(mail::verb_name(static_cast<Verb>(i))), counts_->succeeded[i], counts_->tried[i]);
    tried += counts_->tried[i];
    succeeded += counts_->succeeded[i];
  }
  add("commands", succeeded, tried);
  log::info("{}", line);
  watchers_.disconnected(aborted_, line);
  metrics::smtpd_disconnections.add();
}

async::Task<void> Session::serve(Server& server, async::Stream stream, async::SocketAddress from,
                                 async::Listener::Slot slot) {
  ++server.counts.sessions;
  ++server.counts.live;
  {
    const std::unique_ptr<Session> session(new Session(server, std::move(stream), from));
    co_await session->run();
  }
  --server.counts.live;
}

async::Task<void> Session::run() {
  const bool screened = server_.screener && !policy_->tls.wrapper;
  const bool proxied = screened ? server_.screener->screening().upstream_proxy : policy_->upstream_proxy;
  const bool known = !proxied || co_await ask_proxy();
  watchers_.connected();
  if (!screened) take_place();
  if (known && screened && co_await screen() == Flow::close) {
    co_await say_goodbye();
  } else {
    co_await welcome(known);
  }
  end_screening();
}

async::Task<void> Session::welcome(bool known) {
  if (known) co_await ask_lists_about_address();
  if (known && settings().smtpd_peername_lookup) {
    ClientName name = co_await server_.names.client(client_.peer.address, until());
    client_.peer.name_state = name.verified;
    client_.peer.reverse_state = name.reverse;
    client_.peer.forward_state = name.forward;
    if (name.reverse == NameState::ok && name.verified != NameState::ok) {
      log::warning("hostname {} does not resolve to address {}", printable(name.reverse_name), client_.peer.address);
      metrics::smtpd_unconfirmed_names.add();
    }
    if (name.verified == NameState::ok) client_.peer.name = std::move(name.name);
    if (name.reverse == NameState::ok) client_.peer.reverse_name = std::move(name.reverse_name);
  }
  log::info("connect from {}", client_.peer.shown());
  if (!policy_->traced.empty()) co_await watchers_.look_whether_to_log(*policies_);
  metrics::smtpd_connections.add();
  watchers_.client_known();
  if (known) co_await serve_client();
  log_disconnect();
}

async::Task<void> Session::serve_client() {
  const auto& s = settings();
  co_await learn_standing();
  if (const auto own = own_end()) client_.peer.own_address = own->is_unix() || own->host == client_.peer.address;

  if (co_await too_many_connections()) {
    // refused there
  } else if (const auto place = co_await limits_.class_place(); !place.granted) {
    log::warning("Session limit exceeded: {} sessions or more in class {} from {} for service {}",
                 place.refused_by->refuse, place.refused_by->mask, client_.peer.shown(), server_.service);
    went_wrong(mail::ErrorClass::policy);
    reason_ = metrics::Reason::rate;
    if (!policy_->tls.wrapper) reply(fmt::format("421 4.7.0 {} Error: too many sessions", s.myhostname));
  } else if (policy_->tls.wrapper && co_await wrap() == Flow::close) {
    // said by wrap()
  } else if (co_await greet() == Flow::go_on) {
    co_await commands();
  }
  watchers_.tell_postmaster(policy_->told, aborted_);
  if (filters_) co_await filters_->quit();
  co_await say_goodbye();
}

async::Task<bool> Session::too_many_connections() {
  const bool too_many = co_await limits_.too_many_connections();
  client_.connections = limits_.connections();
  if (!too_many) co_return false;
  went_wrong(mail::ErrorClass::policy);
  reason_ = metrics::Reason::rate;
  // No handshake for a refusal; in clear text the client would not understand the reply.
  if (!policy_->tls.wrapper || client_.secured())
    reply(fmt::format("421 4.7.0 {} Error: too many connections from {}", settings().myhostname, client_.peer.address));
  co_return true;
}

async::Task<Session::Flow> Session::answer(Response response) {
  for (const auto& line : response.before) reply(line);
  reason_ = response.reason;
  if (response.kind == Response::Kind::refused) co_return co_await refuse(response.text, response.error);
  if (response.kind == Response::Kind::put_off) {
    failed_ = true;
    went_wrong(response.error);
    if (response.counts) ++errors_;
    const std::string text = co_await filter_reply(std::move(response.text));
    const std::string footer = co_await footer_of(text);
    reply(text, footer);
    co_return Flow::go_on;
  }
  reply(response.text);
  co_return Flow::go_on;
}

async::Task<void> Session::say_goodbye() {
  const async::Until soon{.deadline = server_.loop.now() + seconds(5)};
  if (client_.secured())
    (void)co_await stream_.shutdown(soon);  // with close_notify
  else
    (void)co_await stream_.flush(soon);
}

async::Task<void> Session::learn_standing() {
  struct Found {
    Result<bool> trusted = false;
    Standing standing;
    bool bare_newline = false;
    map::Value discarded;
  };
  Found found = co_await server_.intake.tables.ask([this] {
    const auto is_in = [this](const map::MatchList& list, bool when_unknown = false) {
      return list.matches_host(client_.peer.name, client_.peer.address).value_or(when_unknown);
    };
    Found out;
    if (client_.peer.address != kUnknownAddress) {
      out.trusted = policy_->mynetworks.matches_address(client_.peer.address);
      out.standing.local = policy_->local_rewrite_addresses.matches_address(client_.peer.address).value_or(false);
    }
    // With tokens this process decides who a client is. The word of another program, and of one that claims to be at
    // such an address, would be a login without a token.
    const bool by_token = AuthPolicy::by_token(settings());
    out.standing.may_xclient = !by_token && is_in(policy_->xclient_hosts);
    out.standing.may_xforward = !by_token && is_in(policy_->xforward_hosts);
    out.standing.may_verp = is_in(policy_->verp_clients);
    out.standing.unlimited = is_in(policy_->event_limit_exceptions);
    out.standing.no_auth = is_in(policy_->auth.exceptions, true);
    out.bare_newline = is_in(policy_->bare_newline_exclusions);
    if (!policy_->discarded_by_client.empty())
      out.discarded = policy_->discarded_by_client.lookup(client_.peer.address);
    return out;
  });
  if (!found.trusted) log::warning("mynetworks: {}", found.trusted.error().message());
  limits_.exempt(found.standing.may_xclient || found.standing.unlimited);
  client_.peer.trusted = found.trusted ? std::optional(*found.trusted) : std::nullopt;
  standing_ = found.standing;
  const auto bare_newline = settings().smtpd_forbid_bare_newline;
  any_end_of_data_ = bare_newline == config::BareNewline::no || found.bare_newline;
  forbid_bare_newline_ = bare_newline == config::BareNewline::reject && !any_end_of_data_;
  own_discarded_.reset();
  if (!found.discarded)
    log::warning("smtpd_discard_ehlo_keyword_address_maps: {}", found.discarded.error().message());
  else if (*found.discarded)
    own_discarded_ = std::make_unique<DiscardedKeywords>(policy_->discard(split_list(**found.discarded)));
  if (policy_->named_lists && asked_ahead(client_)) {
    if (client_.peer.name_state == NameState::ok)
      ask_ahead_about_name(server_.lists, policy_->named_lists->client_name, client_.peer.name);
    if (client_.peer.reverse_state == NameState::ok)
      ask_ahead_about_name(server_.lists, policy_->named_lists->reverse_name, client_.peer.reverse_name);
  }
}

async::Task<void> Session::ask_lists_about_address() {
  if (!policy_->named_lists || policy_->named_lists->client_address.empty() || client_.peer.address == kUnknownAddress)
    co_return;
  const Result<bool> trusted =
      co_await server_.intake.tables.ask([this] { return policy_->mynetworks.matches_address(client_.peer.address); });
  if (trusted == false)
    ask_ahead_about_address(server_.lists, policy_->named_lists->client_address, client_.peer.address);
}

async::Task<Verdict> Session::ask(Checks::AtStage stage, Subject about) {
  Checks checks(*policy_, tools(), std::move(about));
  co_return co_await (checks.*stage)();
}

async::Task<Session::Flow> Session::greet() {
  // Early talker: bytes before the greeting (RFC 5321 section 4.3.1).
  if (stream_.poll_input() && improper_pipelining(Verb::helo, "CONNECT")) co_return Flow::close;
  const Verdict verdict = co_await ask(&Checks::client, subject());
  if (verdict.rejected()) {
    access_denied_ = verdict.reply;
    const Flow flow = co_await refuse(verdict);
    co_return hang_up_ ? Flow::close : flow;  // QUIT is still answered (RFC 5321 section 3.1)
  }
  if (policy_->milters && policy_->milters->smtpd_filters()) co_return co_await greet_by_filters();
  reply("220 " + settings().smtpd_banner);
  co_return Flow::go_on;
}

async::Task<Session::Flow> Session::greet_by_filters() {
  if (filters_) co_await filters_->quit();  // XCLIENT: for the filters another client connects
  filters_ = co_await SessionFilters::open(server_, *policy_, client_);
  if (filters_)
    if (auto no = co_await filters_->connect()) {
      access_denied_ = no->text;
      const Flow flow = co_await answer(*std::move(no));
      co_return hang_up_ ? Flow::close : flow;
    }
  reply("220 " + settings().smtpd_banner);
  co_return Flow::go_on;
}

void Session::take_place() {
  if (server_.stress) place_.emplace(*server_.stress);
  policy_ = &current();
}

async::Until Session::patience(milliseconds limit) const {
  Stress* stress = strain();
  if (!stress || server_.stopping()) return {.deadline = waiting_since_ + limit, .cancel = &server_.stop_cancel()};
  if (!stress->on()) return {.deadline = waiting_since_ + limit, .cancel = &stress->begins()};
  // A client that waited when it began has that much time from then on.
  return {.deadline = std::max(waiting_since_, stress->since()) + limit, .cancel = &server_.stop_cancel()};
}

bool Session::still_waits(const Error& ended, SteadyTime deadline) const {
  if (server_.stopping()) return false;
  return ended.is(async::WaitError::cancelled) ||
         (ended.is(async::WaitError::timed_out) && server_.loop.now() < deadline);
}

async::Task<void> Session::commands() {
  waiting_since_ = server_.loop.now();
  for (;;) {
    if (!transaction_) {
      watchers_.limit(static_cast<std::uint64_t>(settings().smtpd_history_flush_threshold), policy_->told);
      policy_ = &current();
    }
    const auto& s = settings();
    if (static_cast<int>(errors_) >= s.smtpd_hard_error_limit) {
      log::info("too many errors after {} from {}", last_command_, client_.peer.shown());
      went_wrong(mail::ErrorClass::protocol);
      aborted_ = "too many errors";
      reply(fmt::format("421 4.7.0 {} Error: too many errors", s.myhostname));
      co_return;
    }
    if (stream_.queued() > kUnreadReplies) {
      if (auto flushed = co_await stream_.flush(until()); !flushed) {
        read_failed(flushed.error());
        co_return;
      }
    }
    auto line =
        co_await stream_.read_raw_line(static_cast<std::size_t>(s.line_length_limit), patience(s.smtpd_timeout));
    if (!line) {
      if (still_waits(line.error(), patience(settings().smtpd_timeout).deadline)) continue;
      if (line.error().is(async::WaitError::line_too_long)) {
        if (auto skipped = co_await stream_.discard_line(until()); !skipped) {
          read_failed(skipped.error());
          co_return;
        }
        watchers_.heard("(a line that is too long)");
        count(Verb::unknown, false);
        last_command_ = "UNKNOWN";
        if (co_await refuse("500 5.5.2 Error: line too long") == Flow::close) co_return;
        waiting_since_ = server_.loop.now();
        continue;
      }
      read_failed(line.error());
      co_return;
    }
    if (co_await command(*line) == Flow::close || hang_up_) co_return;
    if (doomed()) {
      co_await refuse_all();
      co_return;
    }
    waiting_since_ = server_.loop.now();
  }
}

Session::Flow Session::read_failed(const Error& error) {
  const auto& s = settings();
  if (error.is(async::WaitError::timed_out)) {
    log::info("timeout after {} from {}", last_command_, client_.peer.shown());
    metrics::smtpd_timeouts.add(metrics::stage_of(last_command_));
    reason_ = metrics::Reason::other;
    aborted_ = "timeout";
    reply(fmt::format("421 4.4.2 {} Error: timeout exceeded", s.myhostname));
  } else if (error.is(async::WaitError::cancelled)) {
    reason_ = metrics::Reason::other;
    reply(fmt::format("421 4.3.2 {} Service closing transmission channel", s.myhostname));
  } else {
    log::info("lost connection after {} from {}", last_command_, client_.peer.shown());
    metrics::smtpd_connections_lost.add(metrics::stage_of(last_command_));
    aborted_ = "lost connection";
  }
  return Flow::close;
}

Session::Flow Session::bare_newline() {
  const auto& s = settings();
  log::info("bare <LF> received after {} from {}", last_command_, client_.peer.shown());
  went_wrong(mail::ErrorClass::protocol);
  reply(fmt::format("{} 5.5.2 {} Error: bare <LF> received", s.smtpd_forbid_bare_newline_reject_code, s.myhostname));
  return Flow::close;
}

}  // namespace pen::smtpd
