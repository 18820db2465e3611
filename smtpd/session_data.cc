/// DATA and BDAT: the session's part. The transaction handles the content.
#include <fmt/format.h>

#include <limits>

#include "lib/base/log.h"
#include "smtpd/content_clock.h"
#include "smtpd/extensions.h"
#include "smtpd/session.h"

namespace pen::smtpd {
namespace {

/// Content had so many lines that ended without CR. True: the message is refused.
bool refuse_bare_newline(const Conversation& talk, std::uint64_t bare_lf) {
  if (bare_lf == 0) return false;
  if (talk.settings().smtpd_forbid_bare_newline == config::BareNewline::note)
    log::info("bare <LF> received after {} from {}", talk.last_command, talk.client.peer.shown());
  return talk.standing.forbid_bare_newline;
}

/// Reads a chunk that is refused.
[[gnu::noinline]] async::Task<Flow> skip_chunk(Conversation& talk, mail::BdatCommand chunk, Response response) {
  if (chunk.size == std::numeric_limits<std::uint64_t>::max() || beyond_limit(talk.settings(), chunk.size / 2)) {
    // Nobody has to read a huge chunk in vain. A chunk that is only a little too large is read and dropped: a client
    // that is cut off while it sends does not see the reply.
    co_await talk.refuse(response.text, response.error);
    talk.reply(fmt::format("421 4.7.0 {} Error: chunk is too large to be skipped", talk.settings().myhostname));
    co_return Flow::close;
  }
  ContentClock clock(talk.settings(), talk.server.loop);
  for (std::uint64_t size = chunk.size; size > 0;) {
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(size, 64 * 1024));
    auto part = co_await talk.stream.read_some(most, clock.until(talk.until()));
    if (!part) co_return talk.read_failed(part.error());
    clock.came(part->size());
    size -= part->size();
  }
  // The transaction has ended, as after any refused end of data: if the client continues without RSET, its next MAIL
  // must not be refused, or the recipients after it would be taken for the old sender's.
  if (chunk.last) talk.reset_transaction();
  co_return co_await talk.refuse(response.text, response.error);
}

}  // namespace

async::Task<Flow> Session::data(const mail::CommandLine& line) {
  if (!line.args.empty()) co_return co_await talk_.refuse("501 5.5.4 Syntax: DATA");
  if (!talk_.transaction) co_return co_await talk_.refuse("503 5.5.1 Error: need RCPT command");
  if (talk_.transaction->in_chunks()) co_return co_await talk_.refuse("503 5.5.1 Error: DATA after BDAT");
  if (auto no = co_await talk_.transaction->start_content("DATA", 0)) co_return co_await talk_.answer(*std::move(no));
  talk_.reply("354 End data with <CR><LF>.<CR><LF>");
  const auto all = co_await talk_.transaction->receive_data(talk_.stream, talk_.standing.any_end_of_data);
  talk_.watchers.content(talk_.transaction->queue_id(), talk_.transaction->received());
  if (!all) {
    talk_.last_command = fmt::format("DATA ({} bytes)", talk_.transaction->received());
    co_return talk_.read_failed(all.error());
  }
  talk_.last_command = "END-OF-MESSAGE";
  if (refuse_bare_newline(talk_, talk_.transaction->bare_lf())) {
    talk_.reset_transaction();
    co_return talk_.bare_newline();
  }
  co_return co_await end_of_content();
}

async::Task<Flow> Session::bdat(const mail::CommandLine& line) {
  if (!talk_.client.esmtp || (talk_.discarded().bits & keyword::kChunking) != 0)
    co_return co_await refuse_chunk(line, "502 5.5.1 Error: command not implemented", mail::ErrorClass::protocol);
  const auto parsed = mail::parse_bdat(line.args);
  if (!parsed) co_return co_await refuse_chunk(line, "501 5.5.4 Syntax: BDAT count [LAST]", mail::ErrorClass::protocol);
  const mail::BdatCommand chunk = *parsed;
  if (!talk_.transaction || talk_.transaction->recipients() == 0)
    co_return co_await skip_chunk(talk_, chunk,
                                  Response::refused(talk_.transaction ? "554 5.5.1 Error: no valid recipients"
                                                                      : "503 5.5.1 Error: need RCPT command"));
  if (auto no = co_await talk_.transaction->start_chunk(chunk))
    co_return co_await skip_chunk(talk_, chunk, *std::move(no));
  const auto all = co_await talk_.transaction->receive_chunk(talk_.stream, chunk.size);
  talk_.watchers.content(talk_.transaction->queue_id(), talk_.transaction->received());
  if (!all) {
    talk_.last_command = fmt::format("BDAT ({} bytes)", talk_.transaction->received());
    co_return talk_.read_failed(all.error());
  }
  if (refuse_bare_newline(talk_, talk_.transaction->bare_lf())) {
    talk_.reset_transaction();
    co_return talk_.bare_newline();
  }
  if (chunk.last) co_return co_await end_of_content();
  // A client with a token that counts requests (docs/http-submission.md) notes the id before the last chunk.
  if (talk_.client.login && talk_.client.login->by_token)
    talk_.reply(fmt::format("250 2.0.0 Ok: {} bytes for {}", chunk.size, talk_.transaction->queue_id()));
  else
    talk_.reply(fmt::format("250 2.0.0 Ok: {} bytes", chunk.size));
  co_return Flow::go_on;
}

async::Task<Flow> Session::refuse_chunk(const mail::CommandLine& line, std::string text, mail::ErrorClasses error) {
  const auto chunk = mail::parse_bdat(line.args);  // now: the line is gone with the next read
  if (chunk) co_return co_await skip_chunk(talk_, *chunk, Response::refused(std::move(text), error));
  // The chunk's end is unknown: what follows must not be read as commands.
  co_await talk_.refuse(text, error);
  talk_.reply(fmt::format("421 4.5.4 {} Error: chunk of unknown size", talk_.settings().myhostname));
  co_return Flow::close;
}

async::Task<Flow> Session::end_of_content() {
  talk_.stream.limit_reads(nullptr);
  Response response = co_await talk_.transaction->finish();
  talk_.watchers.queue_id(talk_.transaction->queue_id());
  const std::uint64_t bytes = talk_.transaction->received();
  talk_.reset_transaction();
  if (response.kind == Response::Kind::good) {
    ++talk_.server.counts.messages;
    metrics::smtpd_messages.add();
    metrics::smtpd_received_bytes.add(bytes);
    if (talk_.client.login) metrics::smtpd_messages_authenticated.add();
    if (screened_) screened_->behaved_well();
    talk_.errors = junk_ = 0;
    talk_.watchers.forget_errors();
  }
  co_return co_await talk_.answer(std::move(response));
}

}  // namespace pen::smtpd
