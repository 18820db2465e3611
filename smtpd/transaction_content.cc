/// DATA and BDAT: the content of a transaction, up to the queue.
#include <fmt/format.h>

#include <limits>

#include "lib/base/log.h"
#include "lib/mail/logged.h"
#include "lib/receive/intake/content_turn.h"
#include "lib/receive/intake/held_content.h"
#include "smtpd/authentication.h"
#include "smtpd/content_clock.h"
#include "smtpd/told.h"
#include "smtpd/transaction.h"

namespace pen::smtpd {

async::Task<std::optional<Response>> Transaction::ask(Checks::AtStage stage) {
  Checks checks(policy_, server_.check_tools(), subject());
  Verdict verdict = co_await (checks.*stage)();
  if (verdict.rejected()) co_return Response::refused(std::move(verdict.reply), verdict.error).because(verdict.reason);
  message_.effects().merge(std::move(verdict.effects));
  co_return std::nullopt;
}

std::optional<Response> Transaction::decide_signing() {
  const auto& signing = server_.intake.settings.signing;
  if (!signing) return std::nullopt;
  // Mail that comes back from a filter is its client's, not the filter's.
  const mail::Client* told = client_.forwarded ? &client_.forwarded->client : nullptr;
  const bool other = told != nullptr && !told->address.empty();
  const bool login = other ? !told->sasl_username.empty() : client_.login != nullptr;
  const auto trusted =
      other ? signing->trusts(told->name, told->address) : signing->trusts(client_.peer.name, client_.peer.address);
  if (!login && !trusted) {
    log::warning("{}: dkim_trusted_hosts: {}", message_.queue_id(), trusted.error().message());
    return Response::refused("451 4.3.0 Error: a table cannot be read", mail::ErrorClass::data);
  }
  signs_ = login || *trusted;
  message_.may_be_signed(signs_);
  return std::nullopt;
}

async::Task<std::optional<Response>> Transaction::start_content(const char* verb, std::uint64_t expected) {
  if (message_.recipients() == 0) co_return Response::refused("554 5.5.1 Error: no valid recipients");
  if (!policy_.data.empty())
    if (auto no = co_await ask(&Checks::data)) co_return no;
  if (filters_)
    if (auto no = co_await filters_->data()) co_return no;
  if (auto no = decide_signing()) co_return no;
  if (auto no = co_await take_fields()) co_return no;
  // The content is on its way to the filter before it is known whether a field claims to be ours, and the smtpd behind
  // the filter believes the filter. RFC 8601 section 5 lets a border drop them all.
  if (authentication_ && proxied()) message_.drop_field("Authentication-Results");
  message_.open_body(std::max(expected, message_.envelope().body.size));
  if (auto no = co_await proxy_data()) co_return refused_by_proxy(*no, verb);
  co_return std::nullopt;
}

async::Task<Result<void>> Transaction::receive_data(async::Stream& stream, bool any_end_of_data) {
  intake::Body& body = *message_.body();
  mail::DataScanner scanner(
      {.replace_bare_cr = server_.intake.settings.replace_bare_cr, .any_end_of_data = any_end_of_data});
  ContentClock clock(settings(), server_.loop);
  intake::ContentTurn turn(server_.loop, server_.scans, body.content());
  while (!scanner.done()) {
    if (stream.buffered().empty()) {
      // Wait for one byte only, and take the rest from the buffer in place.
      stream.limit_reads(server_.intake.bodies.read_limit());
      auto first = co_await stream.read_some(1, clock.until(server_.until(settings())));
      if (!first) co_return std::unexpected(std::move(first).error());
      scanner.feed(*first, body.content());
      clock.came(1 + stream.buffered().size());
    }
    stream.consume(co_await turn.feed(scanner, stream.buffered()));
    if (body.must_drain()) {
      stream.shrink_input();
      co_await move_content();
    }
  }
  bare_lf_ = scanner.bare_lf();
  co_return Result<void>();
}

async::Task<std::optional<Response>> Transaction::start_chunk(const mail::BdatCommand& chunk) {
  if (chunks_failed_) co_return Response::refused("503 5.5.1 Error: BDAT after failed BDAT");
  if (!chunks_) {
    auto no = co_await start_content("BDAT", chunk.size);
    chunks_ = std::make_unique<mail::BdatScanner>(
        mail::WirePolicy{.replace_bare_cr = server_.intake.settings.replace_bare_cr});
    chunks_failed_ = no.has_value();
    if (no) co_return no;
  }
  const auto limit = static_cast<std::uint64_t>(settings().message_size_limit);
  constexpr auto kEndless = std::numeric_limits<std::uint64_t>::max();
  const bool beyond = limit > 0 && (chunk.size > limit || received() + chunk.size > limit + 1024);
  if (chunk.size != kEndless && !beyond) co_return std::nullopt;
  // Clearly over the limit before a byte was read; finish() gives the final answer.
  chunks_failed_ = true;
  co_return Response::refused("552 5.3.4 Chunk exceeds message size limit", mail::ErrorClass::policy)
      .because(metrics::Reason::content);
}

async::Task<Result<void>> Transaction::receive_chunk(async::Stream& stream, std::uint64_t size) {
  intake::Body& body = *message_.body();
  ContentClock clock(settings(), server_.loop);
  intake::ContentTurn turn(server_.loop, server_.scans, body.content());
  while (size > 0) {
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(size, intake::Body::kDrainAt));
    stream.limit_reads(server_.intake.bodies.read_limit());
    auto part = co_await stream.read_some(most, clock.until(server_.until(settings())));
    if (!part) co_return std::unexpected(std::move(part).error());
    clock.came(part->size());
    size -= part->size();
    for (std::string_view rest = *part; !rest.empty();) rest.remove_prefix(co_await turn.feed(*chunks_, rest));
    if (body.must_drain()) {
      stream.shrink_input();
      co_await move_content();
    }
  }
  co_return Result<void>();
}

async::Task<void> Transaction::move_content() {
  intake::Body& body = *message_.body();
  if (!streams_to_proxy())
    co_await body.drain({.deadline = server_.loop.now() + settings().smtpd_timeout});
  else if (body.problem() == intake::Body::Problem::none)
    co_await proxy_->content(body.content().take());
  else
    (void)body.content().take();  // the message will be refused, and the filter gets no end of data
}

async::Task<Response> Transaction::finish() {
  Response response = co_await check_and_commit();
  if (dmarc_result_) report_dmarc(response);
  co_return response;
}

/// What became of the message is what DMARC's report says. One that is to come again is not counted yet.
void Transaction::report_dmarc(const Response& response) {
  ipc::dmarc_report::Result result = *std::exchange(dmarc_result_, nullptr);
  if (response.kind != Response::Kind::good) {
    if (!response.text.starts_with('5')) return;
    if (result.facts.disposition != "reject") {
      result.facts.disposition = "reject";
      result.facts.override_type = "other";
      result.facts.override_comment = "refused for another reason";
    }
  }
  server_.report_dmarc(std::move(result));
}

async::Task<Response> Transaction::check_and_commit() {
  if (chunks_) chunks_->finish(message_.body()->content());
  complete_ = true;
  if (authentication_ && !proxied() && !message_.effects().discard)
    if (auto no = co_await authenticate()) co_return *std::move(no);
  if (!policy_.end_of_data.empty())
    if (auto no = co_await ask(&Checks::end_of_data)) co_return *std::move(no);
  if (proxied()) co_return co_await finish_by_proxy();
  if (filters_)
    if (auto no = co_await filter_content()) co_return *std::move(no);
  if (policy_.tenants)
    if (auto no = co_await find_tenant()) co_return *std::move(no);
  if (policy_.priorities)
    if (auto no = co_await find_priority()) co_return *std::move(no);
  if (message_.effects().discard) co_return co_await commit();
  if (policy_.unsubscribe)
    if (auto no = co_await check_unsubscribe()) co_return *std::move(no);
  std::unique_ptr<ReturnedMail> returned;
  if (auto no = co_await read_returned(returned)) co_return *std::move(no);
  Response response = co_await commit();
  if (returned && response.kind == Response::Kind::good) {
    returned->tell();
    co_await returned->suppress();
  }
  co_return response;
}

async::Task<std::optional<Response>> Transaction::read_returned(std::unique_ptr<ReturnedMail>& out) {
  auto found = co_await ReturnedMail::of(server_, policy_, client_, message_);
  if (!found) co_return not_queued({intake::Outcome::lookup_failed, found.error().message()});
  if (!*found) co_return std::nullopt;
  out = *std::move(found);
  const auto commit = co_await out->read({.deadline = server_.loop.now() + settings().smtpd_timeout});
  if (commit.outcome != intake::Outcome::ok) co_return not_queued(commit);
  out->drop();
  co_return std::nullopt;
}

async::Task<std::optional<Response>> Transaction::authenticate() {
  const async::Until until{.deadline = server_.loop.now() + settings().smtpd_timeout};
  const intake::Commit commit = co_await authentication_->content(message_, until);
  if (commit.outcome != intake::Outcome::ok) co_return not_queued(commit);
  if (const auto& line = authentication_->line(); !line.empty())
    log::info("{}: authentication: {}", message_.queue_id(), line);
  if (!authentication_->dmarc()) co_return std::nullopt;
  auto refusal = co_await ask(&Checks::author);
  if (server_.report_dmarc) {
    using dmarc::Policy;
    const bool held = message_.effects().hold && authentication_->dmarc()->disposition != Policy::none;
    auto result = authentication_->report(refusal ? Policy::reject : held ? Policy::quarantine : Policy::none);
    if (result) dmarc_result_ = std::make_unique<ipc::dmarc_report::Result>(*std::move(result));
  }
  co_return refusal;
}

async::Task<std::optional<Response>> Transaction::filter_content() {
  const async::Until until{.deadline = server_.loop.now() + settings().smtpd_timeout};
  auto judged = co_await filters_->content(until);
  if (judged.refusal) co_return std::move(judged.refusal);
  if (judged.commit.outcome != intake::Outcome::ok) co_return not_queued(judged.commit);
  co_return std::nullopt;
}

async::Task<Response> Transaction::commit() {
  const std::string queue_id = message_.queue_id();
  const std::string& id = message_.body()->content().summary().message_id_value;
  log::info("{}: message-id={}", queue_id, id.empty() ? "<>" : std::string_view(id));
  // A drain does not cancel this: the message is complete.
  const intake::Commit commit =
      co_await message_.commit({.deadline = server_.loop.now() + server_.intake.settings.enqueue_timeout});
  if (commit.outcome == intake::Outcome::ok) co_return Response::good("250 2.0.0 Ok: queued as " + queue_id);
  co_return not_queued(commit);
}

Response Transaction::not_queued(const intake::Commit& commit) {
  const std::string& queue_id = message_.queue_id();
  Response response = not_taken(commit);
  if (commit.outcome == intake::Outcome::refused || commit.text.empty())
    tell_rejected(client_, {.queue_id = queue_id,
                            .stage = "END-OF-MESSAGE",
                            .reply = response.text,
                            .sender = message_.envelope().sender});
  if (commit.outcome == intake::Outcome::refused) {
    // said by the check that refused it
  } else if (commit.text.empty())
    log::info("{}: reject: END-OF-MESSAGE from {}: {}; from=<{}> proto={} helo=<{}>", queue_id, client_.peer.shown(),
              response.text, mail::logged(message_.envelope().sender), client_.protocol(), client_.helo);
  else
    log::warning("{}: {}: {}", queue_id, commit.text, response.text);
  return response;
}

Response Transaction::not_taken(const intake::Commit& commit) {
  using intake::Outcome;
  using mail::ErrorClass;
  switch (commit.outcome) {
    case Outcome::too_large:
      return Response::refused("552 5.3.4 Error: message file too big", ErrorClass::bounce);
    case Outcome::too_many_hops:
      return Response::refused("554 5.4.0 Error: too many hops", ErrorClass::bounce);
    case Outcome::too_many_fields:
      return Response::refused("552 5.3.4 Error: too many header fields", ErrorClass::bounce);
    case Outcome::expansion_limit:  // our table's fault: mail survives until that is put right
      return Response::refused("451 4.6.0 Alias expansion error", ErrorClass::data);
    case Outcome::refused:
      return Response::refused((commit.text.starts_with('5') ? "550 " : "451 ") + commit.text, ErrorClass::policy)
          .because(metrics::Reason::content);
    case Outcome::no_space:
      return Response::refused("452 4.3.1 Error: queue file write error", ErrorClass::resource);
    case Outcome::lookup_failed:
      return Response::refused("451 4.3.0 Error: queue file write error", ErrorClass::data);
    case Outcome::not_signed:
      return Response::refused("451 4.7.5 Error: the message cannot be signed now", ErrorClass::resource);
    case Outcome::unavailable:
    case Outcome::spool_failed:
    case Outcome::ok:
      break;
  }
  return Response::refused("451 4.3.0 Error: queue file write error", ErrorClass::resource);
}

}  // namespace pen::smtpd
