#include "smtpd/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/charset.h"
#include "lib/mail/client_attributes.h"
#include "smtpd/access.h"

namespace pen::smtpd {
namespace {

constexpr std::size_t kMaxReplyLine = 510;  // RFC 5321 section 4.5.3.1.5, without CRLF
// a client that does not read its replies waits here
constexpr std::size_t kUnreadReplies = 64 * 1024;

using mail::Verb;

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
      policy_(server.policy()),
      stream_(std::move(stream)),
      client_{.peer = peer_at(from, settings()), .helo = {}, .login = nullptr, .tls = nullptr, .forwarded = nullptr},
      limits_(server_, settings(), client_.peer) {
  if (server_.tell_postmaster && !policy_->told.empty())
    transcript_ = std::make_unique<mail::Transcript>(mail::Transcript::Side::server);
}

void Server::tell_short_memory(const std::string& client) {
  if (told_short_ != SteadyTime::min() && loop.now() < told_short_ + seconds(60)) return;
  told_short_ = loop.now();
  log::warning("recipients of all sessions together take {} bytes: further ones are put off, now of {}",
               intake.memory.used(), client);
}

void Session::reply(std::string_view text) {
  std::string line;
  line.reserve(text.size() + 2);
  for (const char c : text.substr(0, kMaxReplyLine)) line += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  line += "\r\n";
  write_reply(line);
}

void Session::write_reply(std::string_view lines) {
  if (transcript_) transcript_->replies(lines);
  // The reply announces that the connection closes (RFC 5321 section 3.8, RFC 7504 section 2).
  hang_up_ = hang_up_ || lines.starts_with("421") || lines.starts_with("521");
  stream_.write(lines);
}

async::Task<Session::Flow> Session::refuse(std::string_view text, mail::ErrorClasses error) {
  went_wrong(error);
  failed_ = true;
  ++errors_;
  ++server_.counts.refused;
  const std::string own(text);
  if (static_cast<int>(errors_) > settings().smtpd_soft_error_limit &&
      settings().smtpd_error_sleep_time > milliseconds(0)) {
    (void)co_await stream_.flush(until());
    (void)co_await server_.loop.sleep(settings().smtpd_error_sleep_time, {.cancel = &server_.stop_cancel()});
  }
  if (const std::string more = footer(); !more.empty() && own.size() > 4) {
    if (more.starts_with("\\c")) {  // on the reply's own line
      reply(own + more.substr(2));
    } else {
      std::string first = own;
      first[3] = '-';
      reply(first);
      std::string_view code = std::string_view(own).substr(0, 4), rest = std::string_view(own).substr(4);
      const std::string dsn = take_dsn(rest);
      reply(std::string(code) + (dsn.empty() ? "" : dsn + " ") + more);
    }
  } else {
    reply(own);
  }
  co_return Flow::go_on;
}

std::string Session::footer() const {
  const std::string& text = settings().smtpd_reject_footer;
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      out += text[i];
      continue;
    }
    std::size_t start = i + 1, end;
    const bool braces = start < text.size() && (text[start] == '{' || text[start] == '(');
    if (braces) {
      end = text.find_first_of("})", ++start);
    } else {
      for (end = start; end < text.size() && (ascii_alnum(text[end]) || text[end] == '_');) ++end;
    }
    const std::string_view name = std::string_view(text).substr(start, end - start);
    if (name == "client")
      out += client_.peer.shown();
    else if (name == "client_address")
      out += client_.peer.address;
    else if (name == "client_name")
      out += client_.peer.name;
    else if (name == "client_port")
      out += std::to_string(client_.peer.port);
    else if (name == "helo_name")
      out += client_.helo;
    else if (name == "server_name")
      out += settings().myhostname;
    else if (name == "localtime")
      out += rfc5322_date(server_.loop.clock().wall_now());
    if (end == std::string::npos) break;
    i = braces ? end : end - 1;
  }
  return out;
}

void Session::count(Verb verb, bool ok) {
  const auto i = static_cast<std::size_t>(verb);
  ++tried_[i];
  if (ok) ++succeeded_[i];
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
  for (std::size_t i = 0; i < mail::kVerbs; ++i) {
    if (tried_[i] == 0) continue;
    add(to_lower(mail::verb_name(static_cast<Verb>(i))), succeeded_[i], tried_[i]);
    tried += tried_[i];
    succeeded += succeeded_[i];
  }
  add("commands", succeeded, tried);
  log::info("{}", line);
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
  const auto& s = settings();
  if (s.smtpd_peername_lookup) {
    ClientName name = co_await server_.names.client(client_.peer.address, until());
    client_.peer.name_state = name.verified;
    client_.peer.reverse_state = name.reverse;
    if (name.verified == NameState::ok) client_.peer.name = std::move(name.name);
    if (name.reverse == NameState::ok) client_.peer.reverse_name = std::move(name.reverse_name);
  }
  log::info("connect from {}", client_.peer.shown());
  co_await learn_standing();
  if (auto own = async::local_address(stream_.fd()))
    client_.peer.own_address = own->is_unix() || own->host == client_.peer.address;

  if (co_await limits_.too_many_connections()) {
    went_wrong(mail::ErrorClass::policy);
    // No handshake for a refusal; in clear text the client would not understand the reply.
    if (!policy_->tls.wrapper)
      reply(fmt::format("421 4.7.0 {} Error: too many connections from {}", s.myhostname, client_.peer.address));
  } else if (const auto place = co_await limits_.class_place(); !place.granted) {
    log::warning("Session limit exceeded: {} sessions or more in class {} from {} for service {}",
                 place.refused_by->refuse, place.refused_by->mask, client_.peer.shown(), server_.service);
    went_wrong(mail::ErrorClass::policy);
    if (!policy_->tls.wrapper) reply(fmt::format("421 4.7.0 {} Error: too many sessions", s.myhostname));
  } else if (policy_->tls.wrapper && co_await wrap() == Flow::close) {
    // said by wrap()
  } else if (co_await greet() == Flow::go_on) {
    co_await commands();
  }
  tell_postmaster();
  co_await say_goodbye();
  log_disconnect();
}

async::Task<Session::Flow> Session::answer(Response response) {
  for (const auto& line : response.before) reply(line);
  if (response.kind == Response::Kind::refused) co_return co_await refuse(response.text, response.error);
  if (response.kind == Response::Kind::put_off) {
    failed_ = true;
    went_wrong(response.error);
    if (response.counts) ++errors_;
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
  };
  const Found found = co_await server_.intake.tables.ask([this] {
    const auto is_in = [this](const map::MatchList& list, bool when_unknown = false) {
      return list.matches_host(client_.peer.name, client_.peer.address).value_or(when_unknown);
    };
    Found out;
    if (client_.peer.address != kUnknownAddress) {
      out.trusted = policy_->mynetworks.matches_address(client_.peer.address);
      out.standing.local = policy_->local_rewrite_addresses.matches_address(client_.peer.address).value_or(false);
    }
    out.standing.may_xclient = first_peer_ ? standing_.may_xclient : is_in(policy_->xclient_hosts);
    out.standing.may_xforward = is_in(policy_->xforward_hosts);
    out.standing.unlimited = is_in(policy_->event_limit_exceptions);
    out.standing.no_auth = is_in(policy_->auth.exceptions, true);
    out.bare_newline = is_in(policy_->bare_newline_exclusions);
    return out;
  });
  if (!found.trusted) log::warning("mynetworks: {}", found.trusted.error().message());
  limits_.exempt(found.standing.may_xclient || found.standing.unlimited);
  client_.peer.trusted = found.trusted ? std::optional(*found.trusted) : std::nullopt;
  standing_ = found.standing;
  const auto bare_newline = settings().smtpd_forbid_bare_newline;
  any_end_of_data_ = bare_newline == config::BareNewline::no || found.bare_newline;
  forbid_bare_newline_ = bare_newline == config::BareNewline::reject && !any_end_of_data_;
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
    const Flow flow = co_await refuse(verdict.reply, verdict.error);
    co_return hang_up_ ? Flow::close : flow;  // QUIT is still answered (RFC 5321 section 3.1)
  }
  reply("220 " + settings().smtpd_banner);
  co_return Flow::go_on;
}

async::Task<void> Session::commands() {
  const auto& s = settings();
  for (;;) {
    if (!transaction_) limit_transcript();
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
    auto line = co_await stream_.read_raw_line(static_cast<std::size_t>(s.line_length_limit), until());
    if (!line) {
      if (line.error().is(async::WaitError::line_too_long)) {
        if (auto skipped = co_await stream_.discard_line(until()); !skipped) {
          read_failed(skipped.error());
          co_return;
        }
        heard("(a line that is too long)");
        count(Verb::unknown, false);
        last_command_ = "UNKNOWN";
        if (co_await refuse("500 5.5.2 Error: line too long") == Flow::close) co_return;
        continue;
      }
      read_failed(line.error());
      co_return;
    }
    if (co_await command(*line) == Flow::close || hang_up_) co_return;
  }
}

Session::Flow Session::read_failed(const Error& error) {
  const auto& s = settings();
  if (error.is(async::WaitError::timed_out)) {
    log::info("timeout after {} from {}", last_command_, client_.peer.shown());
    aborted_ = "timeout";
    reply(fmt::format("421 4.4.2 {} Error: timeout exceeded", s.myhostname));
  } else if (error.is(async::WaitError::cancelled)) {
    reply(fmt::format("421 4.3.2 {} Service closing transmission channel", s.myhostname));
  } else {
    log::info("lost connection after {} from {}", last_command_, client_.peer.shown());
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
