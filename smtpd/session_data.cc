/// DATA and BDAT: content into the message, and the answer to it.
#include <fmt/format.h>

#include <limits>

#include "lib/base/log.h"
#include "smtpd/content_clock.h"
#include "smtpd/content_turn.h"
#include "smtpd/session.h"

namespace pen::smtpd {
std::string Session::reply_for(const intake::Commit& commit, const std::string& queue_id) {
  using intake::Outcome;
  switch (commit.outcome) {
    case Outcome::ok:
      return "250 2.0.0 Ok: queued as " + queue_id;
    case Outcome::too_large:
      return "552 5.3.4 Error: message file too big";
    case Outcome::too_many_hops:
      return "554 5.4.0 Error: too many hops";
    case Outcome::no_space:
      return "452 4.3.1 Error: queue file write error";
    case Outcome::refused:
      return (commit.text.starts_with('5') ? "550 " : "451 ") + commit.text;
    case Outcome::expansion_limit:
      return "554 5.4.6 Error: alias expansion exceeds limit";
    case Outcome::lookup_failed:
      return "451 4.3.0 Error: queue file write error";
    case Outcome::unavailable:
    case Outcome::spool_failed:
      break;
  }
  return "451 4.3.0 Error: queue file write error";
}

mail::ErrorClass Session::error_of(intake::Outcome outcome) {
  using intake::Outcome;
  switch (outcome) {
    case Outcome::too_large:
    case Outcome::too_many_hops:
    case Outcome::expansion_limit:
      return mail::ErrorClass::bounce;
    case Outcome::refused:
      return mail::ErrorClass::policy;
    case Outcome::lookup_failed:
      return mail::ErrorClass::data;
    case Outcome::no_space:
    case Outcome::unavailable:
    case Outcome::spool_failed:
    case Outcome::ok:
      break;
  }
  return mail::ErrorClass::resource;
}

async::Task<bool> Session::may_start_content() {
  if (!transaction_) {
    co_await refuse("503 5.5.1 Error: need RCPT command");
    co_return false;
  }
  if (transaction_->message.recipients() == 0) {
    co_await refuse("554 5.5.1 Error: no valid recipients");
    co_return false;
  }
  if (!policy_->data.empty()) {
    Checks checks(*policy_, {server_.loop, server_.intake.tables, server_.names}, subject());
    Verdict verdict = co_await checks.data();
    if (verdict.rejected()) {
      co_await refuse(verdict.reply, verdict.error);
      co_return false;
    }
    transaction_->message.effects().merge(std::move(verdict.effects));
  }
  transaction_->message.open_body(transaction_->message.envelope().body.size);
  co_return true;
}

bool Session::refuse_bare_newline(std::uint64_t bare_lf) {
  if (bare_lf == 0) return false;
  if (settings().smtpd_forbid_bare_newline == config::BareNewline::note)
    log::info("bare <LF> received after {} from {}", last_command_, peer_.shown());
  return forbid_bare_newline_;
}

async::Task<Session::Flow> Session::data(const mail::CommandLine& line) {
  if (!line.args.empty()) {
    co_return co_await refuse("501 5.5.4 Syntax: DATA");
  }
  if (transaction_ && transaction_->bdat) {
    co_return co_await refuse("503 5.5.1 Error: DATA after BDAT");
  }
  if (!co_await may_start_content()) co_return Flow::go_on;
  if (auto no = co_await proxy_data()) {
    co_return co_await refuse_as(*std::move(no), "DATA");
  }
  reply("354 End data with <CR><LF>.<CR><LF>");

  intake::Body& body = *transaction_->message.body();
  mail::DataScanner scanner({.replace_bare_cr = server_.intake.settings.replace_bare_cr,
                             .any_end_of_data = any_end_of_data_});
  ContentClock clock(settings(), server_.loop);
  ContentTurn turn(server_.loop, server_.scans, body.content());
  while (!scanner.done()) {
    if (stream_.buffered().empty()) {
      // One byte waits for more to come; the rest is taken from the buffer in place.
      stream_.limit_reads(server_.intake.bodies.read_limit());
      auto first = co_await stream_.read_some(1, clock.until(until()));
      if (!first) {
        last_command_ = fmt::format("DATA ({} bytes)", body.content().received());
        co_return read_failed(first.error());
      }
      scanner.feed(*first, body.content());
      clock.came(1 + stream_.buffered().size());
    }
    stream_.consume(co_await turn.feed(scanner, stream_.buffered()));
    if (body.must_drain()) {
      stream_.shrink_input();
      co_await move_content();
    }
  }
  last_command_ = "END-OF-MESSAGE";
  if (refuse_bare_newline(scanner.bare_lf())) {
    reset_transaction();
    co_return bare_newline();
  }
  co_return co_await end_of_message();
}

bool Session::beyond_limit(std::uint64_t size) const {
  const auto limit = static_cast<std::uint64_t>(settings().message_size_limit);
  return limit > 0 && size > limit;
}

async::Task<Session::Flow> Session::skip_chunk(mail::BdatCommand chunk, std::string_view answer,
                                               mail::ErrorClasses error) {
  const std::string text(answer);
  if (chunk.size == std::numeric_limits<std::uint64_t>::max() || beyond_limit(chunk.size / 2)) {
    // Nobody is bound to read so much for nothing. What is a little too large is read off, for a client that is cut off
    // while it sends does not hear the reply.
    co_await refuse(text, error);
    reply(
        fmt::format("421 4.7.0 {} Error: chunk is too large to be skipped", settings().myhostname));
    co_return Flow::close;
  }
  ContentClock clock(settings(), server_.loop);
  for (std::uint64_t size = chunk.size; size > 0;) {
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(size, 64 * 1024));
    auto part = co_await stream_.read_some(most, clock.until(until()));
    if (!part) co_return read_failed(part.error());
    clock.came(part->size());
    size -= part->size();
  }
  // The transaction has ended, as with any end of data that is refused: a client that goes on without RSET must not
  // have its next MAIL refused and the recipients after it taken for the old sender.
  if (chunk.last) reset_transaction();
  co_return co_await refuse(text, error);
}

async::Task<Session::Flow> Session::bdat(const mail::CommandLine& line) {
  const auto& s = settings();
  if (!esmtp_ || (policy_->discarded_keywords & keyword::kChunking) != 0) {
    co_return co_await refuse("502 5.5.1 Error: command not implemented");
  }
  const auto parsed = mail::parse_bdat(line.args);
  if (!parsed) {
    // Where the chunk ends cannot be known: what follows must not be read as commands.
    co_await refuse("501 5.5.4 Syntax: BDAT count [LAST]");
    reply(fmt::format("421 4.5.4 {} Error: chunk of unknown size", s.myhostname));
    co_return Flow::close;
  }
  const mail::BdatCommand chunk = *parsed;
  if (!transaction_ || transaction_->message.recipients() == 0)
    co_return co_await skip_chunk(chunk, transaction_ ? "554 5.5.1 Error: no valid recipients"
                                                      : "503 5.5.1 Error: need RCPT command");
  if (transaction_->bdat_failed)
    co_return co_await skip_chunk(chunk, "503 5.5.1 Error: BDAT after failed BDAT");
  if (!transaction_->bdat) {
    if (!policy_->data.empty()) {
      Checks checks(*policy_, {server_.loop, server_.intake.tables, server_.names}, subject());
      Verdict verdict = co_await checks.data();
      if (verdict.rejected()) {
        transaction_->bdat = std::make_unique<mail::BdatScanner>();
        transaction_->bdat_failed = true;
        co_return co_await skip_chunk(chunk, verdict.reply, verdict.error);
      }
      transaction_->message.effects().merge(std::move(verdict.effects));
    }
    transaction_->message.open_body(
        std::max(chunk.size, transaction_->message.envelope().body.size));
    if (auto no = co_await proxy_data()) {
      transaction_->bdat = std::make_unique<mail::BdatScanner>();
      transaction_->bdat_failed = true;
      log_proxy("proxy-reject", "BDAT", *no);
      co_return co_await skip_chunk(chunk, lines_of(*no).back(), proxy_error());
    }
    transaction_->bdat = std::make_unique<mail::BdatScanner>(
        mail::WirePolicy{.replace_bare_cr = server_.intake.settings.replace_bare_cr});
  }
  intake::Body& body = *transaction_->message.body();
  mail::BdatScanner& scanner = *transaction_->bdat;
  const auto limit = static_cast<std::uint64_t>(s.message_size_limit);
  constexpr auto kEndless = std::numeric_limits<std::uint64_t>::max();
  if (chunk.size == kEndless || beyond_limit(chunk.size) ||
      (limit > 0 && body.content().received() + chunk.size > limit + 1024)) {
    // Clearly over the limit before a byte was read; the last word is had at the end.
    transaction_->bdat_failed = true;
    co_return co_await skip_chunk(chunk, "552 5.3.4 Chunk exceeds message size limit",
                                  mail::ErrorClass::policy);
  }
  ContentClock clock(s, server_.loop);
  ContentTurn turn(server_.loop, server_.scans, body.content());
  for (std::uint64_t left = chunk.size; left > 0;) {
    const auto most =
        static_cast<std::size_t>(std::min<std::uint64_t>(left, intake::Body::kDrainAt));
    stream_.limit_reads(server_.intake.bodies.read_limit());
    auto part = co_await stream_.read_some(most, clock.until(until()));
    if (!part) {
      last_command_ = fmt::format("BDAT ({} bytes)", body.content().received());
      co_return read_failed(part.error());
    }
    clock.came(part->size());
    left -= part->size();
    for (std::string_view rest = *part; !rest.empty();)
      rest.remove_prefix(co_await turn.feed(scanner, rest));
    if (body.must_drain()) {
      stream_.shrink_input();
      co_await move_content();
    }
  }
  if (refuse_bare_newline(scanner.bare_lf())) {
    reset_transaction();
    co_return bare_newline();
  }
  if (!chunk.last) {
    reply(fmt::format("250 2.0.0 Ok: {} bytes", chunk.size));
    co_return Flow::go_on;
  }
  scanner.finish(body.content());
  co_return co_await end_of_message();
}

async::Task<Session::Flow> Session::end_of_message() {
  stream_.limit_reads(nullptr);
  intake::Message& message = transaction_->message;
  if (!policy_->end_of_data.empty()) {
    Checks checks(*policy_, {server_.loop, server_.intake.tables, server_.names}, subject());
    Verdict verdict = co_await checks.end_of_data();
    if (verdict.rejected()) {
      reset_transaction();
      co_return co_await refuse(verdict.reply, verdict.error);
    }
    transaction_->message.effects().merge(std::move(verdict.effects));
  }
  if (proxied()) co_return co_await end_by_proxy();
  const std::string queue_id = message.queue_id();
  log::info("{}: message-id={}", queue_id,
            message.body()->content().summary().message_id_value.empty()
                ? std::string("<>")
                : message.body()->content().summary().message_id_value);
  // Not to be called off by a drain: the message is all here.
  const intake::Commit commit = co_await message.commit(
      {.deadline = server_.loop.now() + server_.intake.settings.enqueue_timeout});
  const std::string answer = reply_for(commit, queue_id);
  if (commit.outcome == intake::Outcome::ok) {
    ++server_.counts.messages;
    errors_ = junk_ = 0;
    reset_transaction();
    forget_transcript();
    reply(answer);
    co_return Flow::go_on;
  }
  if (commit.outcome == intake::Outcome::refused) {
    // said by the check that refused it
  } else if (commit.text.empty())
    log::info("{}: reject: END-OF-MESSAGE from {}: {}; from=<{}> proto={} helo=<{}>", queue_id,
              peer_.shown(), answer, message.envelope().sender, esmtp_ ? "ESMTP" : "SMTP", helo_);
  else
    log::warning("{}: {}: {}", queue_id, commit.text, answer);
  reset_transaction();
  co_return co_await refuse(answer, error_of(commit.outcome));
}

}  // namespace pen::smtpd
