/// The table of verbs, the checks before any of them, and the verbs that have no file of their own.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/charset.h"
#include "smtpd/extensions.h"
#include "smtpd/lists_ahead.h"
#include "smtpd/login_dialogue.h"
#include "smtpd/other_protocol.h"
#include "smtpd/refused_session.h"
#include "smtpd/session.h"

namespace pen::smtpd {

using mail::Verb;

namespace {

/// What smtpd_command_filter makes of a command. Error: the client has its reply.
[[gnu::noinline]] async::Task<Result<std::string>> filter_command(Conversation& talk, std::string text) {
  const std::string key(trim(text));
  auto found = co_await talk.server.intake.tables.ask([&] { return talk.policy().command_filter.lookup(key); });
  if (found) {
    if (!*found) co_return text;
    log::info("{}: replacing command \"{}\" with \"{}\"", talk.client.peer.shown(), printable(text, 100),
              printable(**found, 100));
    co_return **std::move(found);
  }
  log::warning("smtpd_command_filter: lookup error for \"{}\": {}", printable(text, 100), found.error().message());
  log::info("NOQUEUE: reject: {} from {}: 421 4.3.0 {} Server local data error", talk.last_command,
            talk.client.peer.shown(), talk.settings().myhostname);
  talk.went_wrong(mail::ErrorClass::data);
  talk.reason = metrics::Reason::resources;
  talk.reply(fmt::format("421 4.3.0 {} Server local data error", talk.settings().myhostname));
  co_return std::unexpected(std::move(found).error());
}

}  // namespace

struct Session::VerbRow {
  Verb verb;
  bool ends_group;  // must be the last command of a pipelined group (RFC 2920 section 3.1), as Postfix enforces it
  bool before_tls;  // is served before TLS where TLS is required (RFC 3207 section 4), as in Postfix
  bool junk;        // does nothing for mail: smtpd_junk_command_limit counts it
  async::Task<Flow> (Session::*handler)(const mail::CommandLine& line);
};

const Session::VerbRow& Session::row_of(Verb verb) {
  static constexpr bool yes = true, no = false;
  static constexpr VerbRow kRows[] = {
      // verb            ends group, before TLS, junk
      {Verb::helo, yes, yes, yes, &Session::hello},
      {Verb::ehlo, yes, yes, yes, &Session::hello},
      {Verb::lhlo, no, no, no, &Session::not_recognized},
      {Verb::starttls, yes, yes, no, &Session::starttls},
      {Verb::auth, no, no, no, &Session::auth},
      {Verb::mail, no, no, no, &Session::mail_from},
      {Verb::rcpt, no, no, no, &Session::rcpt_to},
      {Verb::data, yes, no, no, &Session::data},
      {Verb::bdat, no, no, no, &Session::bdat},
      {Verb::rset, no, no, yes, &Session::rset},
      {Verb::noop, yes, yes, yes, &Session::noop},
      {Verb::vrfy, yes, no, yes, &Session::verify},
      {Verb::expn, no, no, no, &Session::not_implemented},
      {Verb::etrn, no, no, yes, &Session::etrn},
      {Verb::help, no, yes, yes, &Session::help},
      {Verb::quit, no, yes, no, &Session::quit},
      {Verb::xclient, no, no, no, &Session::xclient},
      {Verb::xforward, no, no, no, &Session::xforward},
      {Verb::unknown, no, yes, no, &Session::not_recognized},
  };
  static_assert(std::size(kRows) == mail::kVerbs);
  static_assert([] {
    for (std::size_t i = 0; i < mail::kVerbs; ++i)
      if (kRows[i].verb != static_cast<Verb>(i)) return false;
    return true;
  }());
  return kRows[static_cast<std::size_t>(verb)];
}

bool Session::out_of_turn(Verb verb) const {
  return !talk_.stream.buffered().empty() && !(talk_.client.esmtp && !row_of(verb).ends_group);
}

bool Session::improper_pipelining(Verb verb, std::string_view name) {
  if (!out_of_turn(verb)) return false;
  if (!talk_.client.improper_pipelining) {
    talk_.client.improper_pipelining = true;
    log::info("improper command pipelining after {} from {}: {}", name, talk_.client.peer.shown(),
              printable(talk_.stream.buffered().substr(0, 100), 100));
  }
  if (!talk_.settings().smtpd_forbid_unauth_pipelining) return false;
  talk_.went_wrong(mail::ErrorClass::protocol);
  talk_.reply("554 5.5.0 Error: SMTP protocol synchronization");
  return true;
}

async::Task<std::optional<Flow>> Session::misbehaved(triage::Test test, std::string_view about, std::string_view text,
                                                     std::string_view command) {
  if (co_await screened_->misbehaved(test, about, text) == Flow::close) co_return Flow::close;
  if (!doomed()) co_return std::nullopt;
  screened_->doom_transaction();
  co_return co_await RefusedSession(talk_, *screened_).command(command);
}

async::Task<Flow> Session::command(std::string_view raw) {
  std::string_view text = raw.substr(0, raw.size() - 1);
  const bool bare = !text.ends_with('\r');
  while (text.ends_with('\r')) text.remove_suffix(1);  // CR CR LF, as clients write who translate line ends twice
  talk_.watchers.heard(text);
  if (bare && watches(triage::Test::bare_newline)) {
    if (const auto ended = co_await misbehaved(triage::Test::bare_newline, text, {}, text)) co_return *ended;
  }
  if (bare && talk_.standing.forbid_bare_newline) co_return talk_.bare_newline();
  if (talk_.policy().command_filter.empty()) co_return co_await obey(text);
  const Result<std::string> replaced = co_await filter_command(talk_, std::string(text));
  if (!replaced) co_return Flow::close;
  co_return co_await obey(*replaced);
}

async::Task<Flow> Session::obey(std::string_view text) {
  const auto& s = talk_.settings();
  const mail::CommandLine line = mail::split_command(text);
  talk_.failed = false;
  const Verb verb = line.verb;
  const VerbRow& row = row_of(verb);

  if (verb == Verb::unknown && watches(triage::Test::non_smtp) &&
      other_protocol(line.word, screened_->rules().forbidden_commands)) {
    if (const auto ended = co_await misbehaved(triage::Test::non_smtp, talk_.last_command, text, text))
      co_return *ended;
  }
  // A table that cannot be read makes no difference to any command.
  if (!talk_.policy().noop_commands.empty() && talk_.policy().noop_commands.matches(line.word).value_or(false)) {
    if (static_cast<int>(++junk_) > s.smtpd_junk_command_limit) ++talk_.errors;
    talk_.last_command = mail::verb_name(verb);
    counts_.add(verb, true);
    talk_.reply("250 2.0.0 Ok");
    co_return Flow::go_on;
  }
  if (verb == Verb::unknown && other_protocol(line.word, talk_.policy().forbidden_commands)) {
    log::warning("non-SMTP command from {}: {}", talk_.client.peer.shown(), printable(text, 100));
    counts_.add(verb, false);
    talk_.last_command = "UNKNOWN";
    talk_.went_wrong(mail::ErrorClass::protocol);
    talk_.reply("221 2.7.0 Error: I can break rules, too. Goodbye.");
    co_return Flow::close;
  }
  if (verb != Verb::bdat && watches(triage::Test::pipelining) && out_of_turn(verb)) {
    const std::string rest(talk_.stream.buffered().substr(0, 100));
    if (const auto ended = co_await misbehaved(triage::Test::pipelining, mail::verb_name(verb), rest, text))
      co_return *ended;
  }
  if (!access_denied_.empty() && verb != Verb::quit) {
    counts_.add(verb, false);
    talk_.last_command = mail::verb_name(verb);
    std::string denied = fmt::format("503 5.7.0 Error: access denied for {}", talk_.client.peer.shown());
    if (verb == Verb::bdat) co_return co_await refuse_chunk(line, std::move(denied), mail::ErrorClass::policy);
    co_return co_await talk_.refuse(denied, mail::ErrorClass::policy);
  }
  if (row.junk && static_cast<int>(++junk_) > s.smtpd_junk_command_limit) ++talk_.errors;
  if (verb != Verb::bdat && improper_pipelining(verb, mail::verb_name(verb))) {
    talk_.last_command = mail::verb_name(verb);
    counts_.add(verb, false);
    co_return Flow::close;
  }
  if (talk_.policy().tls.level == TlsLevel::encrypt && !talk_.client.secured() && !row.before_tls) {
    talk_.last_command = mail::verb_name(verb);
    counts_.add(verb, false);
    talk_.reason = metrics::Reason::tls;
    constexpr std::string_view kFirst = "530 5.7.0 Must issue a STARTTLS command first";
    if (verb == Verb::bdat) co_return co_await refuse_chunk(line, std::string(kFirst), mail::ErrorClass::policy);
    co_return co_await talk_.refuse(kFirst, mail::ErrorClass::policy);
  }
  talk_.last_command = mail::verb_name(verb);  // line stays valid: nothing has been read yet
  const bool unseen = verb == Verb::starttls || verb == Verb::auth || verb == Verb::vrfy || verb == Verb::etrn;
  if (unseen && talk_.filters && talk_.filters->refused_session()) {
    counts_.add(verb, false);
    co_return co_await talk_.answer(*talk_.filters->refused_session());
  }
  const Flow flow = co_await (this->*row.handler)(line);
  if (verb != Verb::rcpt) counts_.add(verb, !talk_.failed);  // a batch counts its own
  co_return flow;
}

async::Task<Flow> Session::hello(const mail::CommandLine& line) {
  const auto& s = talk_.settings();
  const bool extended = line.verb == Verb::ehlo;
  // All of it: a second word makes the name one that reject_invalid_helo_hostname refuses.
  std::string name;
  for (const auto word : split(line.args, " \t")) {
    if (!name.empty()) name += ' ';
    name += word;
  }
  if (name.empty())
    co_return co_await talk_.refuse(extended ? "501 Syntax: EHLO hostname" : "501 Syntax: HELO hostname");
  const std::string before = std::exchange(talk_.client.helo, name);
  const bool esmtp_before = std::exchange(talk_.client.esmtp, extended);
  if (talk_.policy().named_lists && asked_ahead(talk_.client) && talk_.client.helo != before)
    ask_ahead_about_name(talk_.server.lists, talk_.policy().named_lists->helo, talk_.client.helo);
  Subject about = talk_.subject();
  about.where = extended ? "EHLO" : "HELO";
  about.sender.reset();
  const Verdict verdict = co_await talk_.ask(&Checks::helo, std::move(about));
  if (verdict.rejected()) {
    talk_.client.helo = before;
    talk_.client.esmtp = esmtp_before;
    co_return co_await talk_.refuse(verdict);
  }
  talk_.reset_transaction();
  if (talk_.filters)
    if (auto no = co_await talk_.filters->helo()) co_return co_await talk_.answer(*std::move(no));
  if (extended)
    talk_.write_reply(ehlo_reply(talk_, co_await LoginDialogue(talk_).offered()));
  else
    talk_.reply("250 " + s.myhostname);
  co_return Flow::go_on;
}

async::Task<Flow> Session::rset(const mail::CommandLine& line) {
  if (!line.args.empty()) co_return co_await talk_.refuse("501 5.5.4 Syntax: RSET");
  talk_.reset_transaction();
  talk_.reply("250 2.0.0 Ok");
  co_return Flow::go_on;
}

async::Task<Flow> Session::noop(const mail::CommandLine&) {
  talk_.reply("250 2.0.0 Ok");
  co_return Flow::go_on;
}

async::Task<Flow> Session::verify(const mail::CommandLine& line) {
  if (talk_.settings().disable_vrfy_command)
    co_return co_await talk_.refuse("502 5.5.1 VRFY command is disabled", mail::ErrorClass::policy);
  std::string_view rest = line.args;
  bool smtputf8 = false;
  if (const auto space = rest.rfind(' ');
      space != std::string_view::npos && iequals(rest.substr(space + 1), "SMTPUTF8")) {
    smtputf8 = true;  // RFC 6531 section 3.7.4.2
    rest = rest.substr(0, space);
  }
  if (rest.empty())
    co_return co_await talk_.refuse(talk_.settings().smtputf8_enable ? "501 5.5.4 Syntax: VRFY address [SMTPUTF8]"
                                                                     : "501 5.5.4 Syntax: VRFY address");
  const std::string given(rest);
  auto address = mail::take_path(rest, false, odd_domains(talk_));
  if (!address || address->empty() || !rest.empty())
    co_return co_await talk_.refuse("501 5.1.3 Bad recipient address syntax");
  if (!mail::all_ascii(*address) && !smtputf8 && talk_.settings().strict_smtputf8)
    co_return co_await talk_.refuse("553 5.6.7 Address needs SMTPUTF8");
  Subject about = talk_.subject();
  about.where = "VRFY";
  about.recipient = *address;
  const Verdict verdict = co_await talk_.ask(&Checks::recipient, std::move(about));
  if (verdict.rejected()) co_return co_await talk_.refuse(verdict);
  talk_.reply("252 2.0.0 " + given);
  co_return Flow::go_on;
}

async::Task<Flow> Session::help(const mail::CommandLine&) {
  talk_.reply("214 2.0.0 Commands: HELO EHLO STARTTLS AUTH MAIL RCPT DATA BDAT RSET NOOP VRFY ETRN HELP QUIT");
  co_return Flow::go_on;
}

async::Task<Flow> Session::quit(const mail::CommandLine&) {
  if (screened_ && screened_->saw_mail) screened_->behaved_well();
  talk_.reply("221 2.0.0 Bye");
  co_return Flow::close;
}

async::Task<Flow> Session::not_implemented(const mail::CommandLine&) {
  co_return co_await talk_.refuse("502 5.5.1 Error: command not implemented");
}

async::Task<Flow> Session::not_recognized(const mail::CommandLine& line) {
  if (talk_.filters)
    if (auto no =
            co_await talk_.filters->unknown(fmt::format("{}{}{}", line.word, line.args.empty() ? "" : " ", line.args)))
      co_return co_await talk_.answer(*std::move(no));
  co_return co_await talk_.refuse("500 5.5.2 Error: command not recognized");
}

}  // namespace pen::smtpd
