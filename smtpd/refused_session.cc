#include "smtpd/refused_session.h"

#include <fmt/format.h>

#include "lib/base/log_as.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/command_refusal.h"
#include "lib/mail/logged.h"
#include "smtpd/other_protocol.h"
#include "smtpd/told.h"

namespace pen::smtpd {

using mail::Verb;
using triage::Test;

namespace {

constexpr const char* kName = Screened::kName;

}  // namespace

async::Task<void> RefusedSession::serve(Conversation& talk, Screened& screened) {
  RefusedSession refused(talk, screened);
  screened.began = talk.waiting_since = talk.server.loop.now();
  for (;;) {
    const auto& s = talk.settings();
    auto line = co_await talk.stream.read_raw_line(static_cast<std::size_t>(s.line_length_limit),
                                                   talk.patience(s.postscreen_command_time_limit));
    if (!line) {
      const Error& error = line.error();
      if (talk.still_waits(error, talk.patience(talk.settings().postscreen_command_time_limit).deadline)) continue;
      if (error.is(async::WaitError::timed_out)) {
        log::info_as(kName, "COMMAND TIME LIMIT from {} after {}", screened.shown, screened.last);
        talk.reply(fmt::format("421 4.4.2 {} Error: timeout exceeded", s.myhostname));
      } else if (error.is(async::WaitError::line_too_long)) {
        log::info_as(kName, "COMMAND LENGTH LIMIT from {} after {}", screened.shown, screened.last);
        talk.reply(fmt::format("421 {} Service unavailable - try again later", s.myhostname));
      } else if (error.is(async::WaitError::cancelled)) {
        talk.reply(fmt::format("421 4.3.2 {} Service closing transmission channel", s.myhostname));
      } else {
        screened.hung_up("tests after SMTP handshake");
      }
      co_return;
    }
    std::string_view text = line->substr(0, line->size() - 1);
    const bool bare = !text.ends_with('\r');
    while (text.ends_with('\r')) text.remove_suffix(1);
    talk.watchers.heard(text);
    if (bare && screened.tests.due(Test::bare_newline) &&
        co_await screened.misbehaved(Test::bare_newline, text, {}) == Flow::close)
      co_return;
    std::string filtered;
    if (!screened.rules().command_filter.empty()) {
      const map::Value found =
          co_await talk.server.intake.tables.ask([&] { return screened.rules().command_filter.lookup(trim(text)); });
      if (!found) log::warning("postscreen_command_filter: {}", found.error().message());
      if (found && *found) text = filtered = **found;
    }
    if (co_await refused.command(text) == Flow::close || talk.hangs_up) co_return;
    talk.waiting_since = talk.server.loop.now();
  }
}

async::Task<Flow> RefusedSession::command(std::string_view text) {
  const auto& s = talk_.settings();
  const mail::CommandLine line = mail::split_command(text);
  const bool foreign = line.verb == Verb::unknown && other_protocol(line.word, screened_.rules().forbidden_commands);
  if (foreign && screened_.tests.due(Test::non_smtp) &&
      co_await screened_.misbehaved(Test::non_smtp, screened_.last, text) == Flow::close)
    co_return Flow::close;
  // After a greeting of the real session the client may use PIPELINING.
  if (talk_.under_test && !talk_.stream.buffered().empty() && screened_.tests.due(Test::pipelining) &&
      co_await screened_.misbehaved(Test::pipelining, mail::verb_name(line.verb), talk_.stream.buffered()) ==
          Flow::close)
    co_return Flow::close;
  screened_.last = mail::verb_name(line.verb);
  if (++screened_.commands > s.postscreen_command_count_limit && line.verb != Verb::quit) {
    log::info_as(kName, "COMMAND COUNT LIMIT from {} after {}", screened_.shown, screened_.last);
    talk_.reply(fmt::format("421 {} Service unavailable - try again later", s.myhostname));
    co_return Flow::close;
  }
  if (talk_.stream.queued() > 0 && !co_await talk_.stream.flush(talk_.until()))
    co_return screened_.hung_up("tests after SMTP handshake");
  switch (line.verb) {
    case Verb::quit:
      talk_.reply("221 2.0.0 Bye");
      co_return Flow::close;
    case Verb::data:
    case Verb::bdat:
      // A client that goes on without a recipient ignores replies; its content would be read as commands.
      log::info_as(kName, "{} without valid RCPT from {}", screened_.last, screened_.shown);
      talk_.reply(screened_.sender ? "554 5.5.1 Error: no valid recipients" : "503 5.5.1 Error: need RCPT command");
      co_return Flow::close;
    case Verb::helo:
    case Verb::ehlo:
      co_await hello(line);
      break;
    case Verb::mail:
      mail(line);
      break;
    case Verb::rcpt:
      co_await rcpt(line);
      break;
    case Verb::rset:
      screened_.sender.reset();
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

async::Task<void> RefusedSession::hello(const mail::CommandLine& line) {
  const auto& s = talk_.settings();
  const bool extended = line.verb == Verb::ehlo;
  const std::string_view name = line.args.substr(0, line.args.find_first_of(" \t"));
  if (name.empty()) {
    talk_.reply(extended ? "501 Syntax: EHLO hostname" : "501 Syntax: HELO hostname");
    co_return;
  }
  talk_.client.helo = name;
  talk_.client.esmtp = extended;
  screened_.sender.reset();
  if (!extended) {
    talk_.reply("250 " + s.myhostname);
    co_return;
  }
  DiscardedKeywords less = screened_.rules().discarded;
  if (const map::MapList& maps = screened_.rules().discarded_by_client; !maps.empty()) {
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

void RefusedSession::mail(const mail::CommandLine& line) {
  if (talk_.settings().postscreen_helo_required && talk_.client.helo.empty())
    return talk_.reply("503 5.5.1 Error: send HELO/EHLO first");
  if (screened_.sender) return talk_.reply("503 5.5.1 Error: nested MAIL command");
  // Parameters make no difference to a refusal.
  std::string_view rest = line.args;
  if (!istarts_with(rest, "FROM:")) return talk_.reply("501 5.5.4 Syntax: MAIL FROM:<address>");
  rest.remove_prefix(5);
  rest = trim(rest);
  auto address = mail::take_path(rest, false);
  if (!address) return talk_.reply("501 5.1.7 Bad sender address syntax");
  screened_.sender = *std::move(address);
  talk_.reply("250 2.1.0 Ok");
}

async::Task<void> RefusedSession::rcpt(const mail::CommandLine& line) {
  if (!screened_.sender) {
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
  log::info_as(kName, "NOQUEUE: reject: RCPT from {}: {}; from=<{}>, to=<{}>, proto={}, helo=<{}>", screened_.shown,
               screened_.doom, mail::logged(*screened_.sender), mail::logged(*address), talk_.client.protocol(),
               talk_.client.helo);
  tell_rejected(
      talk_.client,
      {.queue_id = {}, .stage = "RCPT", .reply = screened_.doom, .sender = *screened_.sender, .recipient = *address});
  const std::string footer = co_await screened_.footer(screened_.doom);
  talk_.reply(screened_.doom, footer, screened_.rules().expansion_filter);
}

}  // namespace pen::smtpd
