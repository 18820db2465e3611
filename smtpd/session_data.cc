/// DATA and BDAT: the session's part. The transaction handles the content.
#include <fmt/format.h>

#include <limits>

#include "lib/base/log.h"
#include "smtpd/content_clock.h"
#include "smtpd/session.h"

namespace pen::smtpd {

bool Session::beyond_limit(std::uint64_t size) const {
  const auto limit = static_cast<std::uint64_t>(settings().message_size_limit);
  return limit > 0 && size > limit;
}

bool Session::refuse_bare_newline(std::uint64_t bare_lf) {
  if (bare_lf == 0) return false;
  if (settings().smtpd_forbid_bare_newline == config::BareNewline::note)
    log::info("bare <LF> received after {} from {}", last_command_, client_.peer.shown());
  return forbid_bare_newline_;
}

async::Task<Session::Flow> Session::data(const mail::CommandLine& line) {
  if (!line.args.empty()) co_return co_await refuse("501 5.5.4 Syntax: DATA");
  if (!transaction_) co_return co_await refuse("503 5.5.1 Error: need RCPT command");
  if (transaction_->in_chunks()) co_return co_await refuse("503 5.5.1 Error: DATA after BDAT");
  if (auto no = co_await transaction_->start_content("DATA", 0)) co_return co_await answer(*std::move(no));
  reply("354 End data with <CR><LF>.<CR><LF>");
  const auto all = co_await transaction_->receive_data(stream_, any_end_of_data_);
  watchers_.content(transaction_->queue_id(), transaction_->received());
  if (!all) {
    last_command_ = fmt::format("DATA ({} bytes)", transaction_->received());
    co_return read_failed(all.error());
  }
  last_command_ = "END-OF-MESSAGE";
  if (refuse_bare_newline(transaction_->bare_lf())) {
    reset_transaction();
    co_return bare_newline();
  }
  co_return co_await end_of_content();
}

async::Task<Session::Flow> Session::bdat(const mail::CommandLine& line) {
  if (!client_.esmtp || (discarded().bits & keyword::kChunking) != 0)
    co_return co_await refuse_chunk(line, "502 5.5.1 Error: command not implemented", mail::ErrorClass::protocol);
  const auto parsed = mail::parse_bdat(line.args);
  if (!parsed) co_return co_await refuse_chunk(line, "501 5.5.4 Syntax: BDAT count [LAST]", mail::ErrorClass::protocol);
  const mail::BdatCommand chunk = *parsed;
  if (!transaction_ || transaction_->recipients() == 0)
    co_return co_await skip_chunk(chunk, Response::refused(transaction_ ? "554 5.5.1 Error: no valid recipients"
                                                                        : "503 5.5.1 Error: need RCPT command"));
  if (auto no = co_await transaction_->start_chunk(chunk)) co_return co_await skip_chunk(chunk, *std::move(no));
  const auto all = co_await transaction_->receive_chunk(stream_, chunk.size);
  watchers_.content(transaction_->queue_id(), transaction_->received());
  if (!all) {
    last_command_ = fmt::format("BDAT ({} bytes)", transaction_->received());
    co_return read_failed(all.error());
  }
  if (refuse_bare_newline(transaction_->bare_lf())) {
    reset_transaction();
    co_return bare_newline();
  }
  if (chunk.last) co_return co_await end_of_content();
  // A client with a token that counts requests (docs/http-submission.md) notes the id before the last chunk.
  if (client_.login && client_.login->by_token)
    reply(fmt::format("250 2.0.0 Ok: {} bytes for {}", chunk.size, transaction_->queue_id()));
  else
    reply(fmt::format("250 2.0.0 Ok: {} bytes", chunk.size));
  co_return Flow::go_on;
}

async::Task<Session::Flow> Session::refuse_chunk(const mail::CommandLine& line, std::string text,
                                                 mail::ErrorClasses error) {
  const auto chunk = mail::parse_bdat(line.args);  // now: the line is gone with the next read
  if (chunk) co_return co_await skip_chunk(*chunk, Response::refused(std::move(text), error));
  // The chunk's end is unknown: what follows must not be read as commands.
  co_await refuse(text, error);
  reply(fmt::format("421 4.5.4 {} Error: chunk of unknown size", settings().myhostname));
  co_return Flow::close;
}

async::Task<Session::Flow> Session::skip_chunk(mail::BdatCommand chunk, Response response) {
  if (chunk.size == std::numeric_limits<std::uint64_t>::max() || beyond_limit(chunk.size / 2)) {
    // Nobody has to read a huge chunk in vain. A chunk that is only a little too large is read and dropped: a client
    // that is cut off while it sends does not see the reply.
    co_await refuse(response.text, response.error);
    reply(fmt::format("421 4.7.0 {} Error: chunk is too large to be skipped", settings().myhostname));
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
  // The transaction has ended, as after any refused end of data: if the client continues without RSET, its next MAIL
  // must not be refused, or the recipients after it would be taken for the old sender's.
  if (chunk.last) reset_transaction();
  co_return co_await refuse(response.text, response.error);
}

async::Task<Session::Flow> Session::end_of_content() {
  stream_.limit_reads(nullptr);
  Response response = co_await transaction_->finish();
  watchers_.queue_id(transaction_->queue_id());
  const std::uint64_t bytes = transaction_->received();
  reset_transaction();
  if (response.kind == Response::Kind::good) {
    ++server_.counts.messages;
    metrics::smtpd_messages.add();
    metrics::smtpd_received_bytes.add(bytes);
    if (client_.login) metrics::smtpd_messages_authenticated.add();
    behaved_well();
    errors_ = junk_ = 0;
    watchers_.forget_errors();
  }
  co_return co_await answer(std::move(response));
}

}  // namespace pen::smtpd
