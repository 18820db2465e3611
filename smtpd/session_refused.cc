/// The session of a client that failed a test with the action enforce: it may talk, and all its recipients are refused.
/// It takes no more than a connection: no restriction, filter, policy server or queue hears of it.
#include <fmt/format.h>

#include "lib/base/log_as.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/command_refusal.h"
#include "lib/mail/logged.h"
#include "smtpd/session.h"
#include "smtpd/told.h"

namespace pen::smtpd {

using mail::Verb;
using triage::Test;

namespace {

constexpr const char* kName = "postscreen";  // in the log

}  // namespace

void Session::doom_transaction() {
  if (talk_.transaction) screened_->sender = talk_.subject().sender;
  talk_.reset_transaction();
  screened_->last = talk_.last_command;
}

async::Task<void> Session::refuse_all() {
  Screened& sc = *screened_;
  sc.began = talk_.waiting_since = talk_.server.loop.now();
  for (;;) {
    const auto& s = talk_.settings();
    auto line = co_await talk_.stream.read_raw_line(static_cast<std::size_t>(s.line_length_limit),
                                                    talk_.patience(s.postscreen_command_time_limit));
    if (!line) {
      const Error& error = line.error();
      if (talk_.still_waits(error, talk_.patience(talk_.settings().postscreen_command_time_limit).deadline)) continue;
      if (error.is(async::WaitError::timed_out)) {
        log::info_as(kName, "COMMAND TIME LIMIT from {} after {}", sc.shown, sc.last);
        talk_.reply(fmt::format("421 4.4.2 {} Error: timeout exceeded", s.myhostname));
      } else if (error.is(async::WaitError::line_too_long)) {
        log::info_as(kName, "COMMAND LENGTH LIMIT from {} after {}", sc.shown, sc.last);
        talk_.reply(fmt::format("421 {} Service unavailable - try again later", s.myhostname));
      } else if (error.is(async::WaitError::cancelled)) {
        talk_.reply(fmt::format("421 4.3.2 {} Service closing transmission channel", s.myhostname));
      } else {
        hung_up("tests after SMTP handshake");
      }
      co_return;
    }
    std::string_view text = line->substr(0, line->size() - 1);
    const bool bare = !text.ends_with('\r');
    if (!bare) text.remove_suffix(1);
    talk_.watchers.heard(text);
    if (bare && sc.tests.due(Test::bare_newline) && co_await misbehaved(Test::bare_newline, text, {}) == Flow::close)
      co_return;
    std::string filtered;
    if (!sc.rules().command_filter.empty()) {
      const map::Value found =
          co_await talk_.server.intake.tables.ask([&] { return sc.rules().command_filter.lookup(trim(text)); });
      if (!found) log::warning("postscreen_command_filter: {}", found.error().message());
      if (found && *found) text = filtered = **found;
    }
    if (co_await refuse_command(text) == Flow::close || talk_.hangs_up) co_return;
    talk_.waiting_since = talk_.server.loop.now();
  }
}

async::Task<Flow> Session::refuse_command(std::string_view text) {
  Screened& sc = *screened_;
  const auto& s = talk_.settings();
  const mail::CommandLine line = mail::split_command(text);
  const bool other_protocol =
      line.verb == Verb::unknown &&
      (looks_like_field(line.word) || sc.rules().forbidden_commands.matches(line.word).value_or(false));
  if (other_protocol && sc.tests.due(Test::non_smtp) &&
      co_await misbehaved(Test::non_smtp, sc.last, text) == Flow::close)
    co_return Flow::close;
  // After a greeting of the real session the client may use PIPELINING.
  if (!sc.let_through && !talk_.stream.buffered().empty() && sc.tests.due(Test::pipelining) &&
      co_await misbehaved(Test::pipelining, mail::verb_name(line.verb), talk_.stream.buffered()) == Flow::close)
    co_return Flow::close;
  sc.last = mail::verb_name(line.verb);
  if (++sc.commands > s.postscreen_command_count_limit && line.verb != Verb::quit) {
    log::info_as(kName, "COMMAND COUNT LIMIT from {} after {}", sc.shown, sc.last);
    talk_.reply(fmt::format("421 {} Service unavailable - try again later", s.myhostname));
    co_return Flow::close;
  }
  if (talk_.stream.queued() > 0 && !co_await talk_.stream.flush(talk_.until()))
    co_return hung_up("tests after SMTP handshake");
  switch (line.verb) {
    case Verb::quit:
      talk_.reply("221 2.0.0 Bye");
      co_return Flow::close;
    case Verb::data:
    case Verb::bdat:
      // A client that goes on without a recipient ignores replies; its content would be read as commands.
      log::info_as(kName, "{} without valid RCPT from {}", sc.last, sc.shown);
      talk_.reply(sc.sender ? "554 5.5.1 Error: no valid recipients" : "503 5.5.1 Error: need RCPT command");
      co_return Flow::close;
    case Verb::helo:
    case Verb::ehlo:
      co_await refused_hello(line);
      break;
    case Verb::mail:
      refused_mail(line);
      break;
    case Verb::rcpt:
      co_await refused_rcpt(line);
      break;
    case Verb::rset:
      sc.sender.reset();
      [[fallthrough]];
    case Verb::noop:
      talk_.reply("250 2.0.0 Ok");
      break;
    case Verb::vrfy:
      talk_.reply(s.postscreen_disable_vrfy_command ? std::string("502 5.5.1 VRFY command is disabled")
                  : line.args.empty()               ? std::string("501 5.5.4 Syntax: VRFY address")
                                                    : "252 2.0.0 " + std::string(line.args));
      break;
    case Verb::etrn:
      talk_.reply("458 Unable to queue messages");
      break;
    default:
      talk_.reply("502 5.5.2 Error: command not recognized");
  }
  co_return Flow::go_on;
}

async::Task<void> Session::refused_hello(const mail::CommandLine& line) {
  const auto& s = talk_.settings();
  const bool extended = line.verb == Verb::ehlo;
  const std::string_view name = line.args.substr(0, line.args.find_first_of(" \t"));
  if (name.empty() || name.size() > 255) {
    talk_.reply(extended ? "501 Syntax: EHLO hostname" : "501 Syntax: HELO hostname");
    co_return;
  }
  talk_.client.helo = name;
  talk_.client.esmtp = extended;
  screened_->sender.reset();
  if (!extended) {
    talk_.reply("250 " + s.myhostname);
    co_return;
  }
  DiscardedKeywords less = screened_->rules().discarded;
  if (const map::MapList& maps = screened_->rules().discarded_by_client; !maps.empty()) {
    const map::Value found =
        co_await talk_.server.intake.tables.ask([&] { return maps.lookup(talk_.client.peer.address); });
    if (!found) log::warning("postscreen_discard_ehlo_keyword_address_maps: {}", found.error().message());
    if (found && *found) less = talk_.policy().discard(split_list(**found));
  }
  const auto offered = [&](unsigned bit) { return (less.bits & bit) == 0; };
  std::string text = "250-" + s.myhostname + "\r\n";
  std::size_t last = 0;
  const auto add = [&](unsigned bit, std::string_view word) {
    if (!offered(bit)) return;
    last = text.size();
    text.append("250-").append(word).append("\r\n");
  };
  add(keyword::kSize, s.message_size_limit > 0 ? fmt::format("SIZE {}", s.message_size_limit) : "SIZE");
  if (!s.postscreen_disable_vrfy_command) add(keyword::kVrfy, "VRFY");
  add(keyword::kEtrn, "ETRN");
  add(keyword::kEnhancedStatusCodes, "ENHANCEDSTATUSCODES");
  add(keyword::kEightBitMime, "8BITMIME");
  add(keyword::kDsn, "DSN");
  add(keyword::kSmtpUtf8, "SMTPUTF8");
  text[last + 3] = ' ';
  if (!less.words.empty()) log::info_as(kName, "discarding EHLO keywords: {}", less.words);
  talk_.write_reply(text);
}

void Session::refused_mail(const mail::CommandLine& line) {
  Screened& sc = *screened_;
  if (talk_.settings().postscreen_helo_required && talk_.client.helo.empty())
    return talk_.reply("503 5.5.1 Error: send HELO/EHLO first");
  if (sc.sender) return talk_.reply("503 5.5.1 Error: nested MAIL command");
  // Parameters make no difference to a refusal.
  std::string_view rest = line.args;
  if (!istarts_with(rest, "FROM:")) return talk_.reply("501 5.5.4 Syntax: MAIL FROM:<address>");
  rest.remove_prefix(5);
  rest = trim(rest);
  auto address = mail::take_path(rest, false);
  if (!address) return talk_.reply("501 5.1.7 Bad sender address syntax");
  sc.sender = *std::move(address);
  talk_.reply("250 2.1.0 Ok");
}

async::Task<void> Session::refused_rcpt(const mail::CommandLine& line) {
  Screened& sc = *screened_;
  if (!sc.sender) {
    talk_.reply("503 5.5.1 Error: need MAIL command");
    co_return;
  }
  std::string_view rest = line.args;
  const bool form = istarts_with(rest, "TO:");
  if (form) rest = trim(rest.substr(3));
  auto address = form ? mail::take_path(rest, false) : Result<std::string>(std::string());
  if (!form || !address || address->empty()) {
    talk_.reply(form ? "501 5.1.3 Bad recipient address syntax" : "501 5.5.4 Syntax: RCPT TO:<address>");
    co_return;
  }
  log::info_as(kName, "NOQUEUE: reject: RCPT from {}: {}; from=<{}>, to=<{}>, proto={}, helo=<{}>", sc.shown, sc.doom,
               mail::logged(*sc.sender), mail::logged(*address), talk_.client.protocol(), talk_.client.helo);
  tell_rejected(talk_.client,
                {.queue_id = {}, .stage = "RCPT", .reply = sc.doom, .sender = *sc.sender, .recipient = *address});
  const std::string footer = co_await screen_footer(sc.doom);
  talk_.reply(sc.doom, footer, sc.rules().expansion_filter);
}

}  // namespace pen::smtpd
