/// smtpd_proxy_filter: a transaction that passes a content filter before the queue.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lib/base/log.h"
#include "lib/mail/logged.h"
#include "lib/receive/intake/held_content.h"
#include "smtpd/told.h"
#include "smtpd/transaction.h"

namespace pen::smtpd {
namespace {
// Room for the header fields put in front of the client's content.
constexpr std::uint64_t kOwnFields = 1024;

/// Turns the filter's reply into the client's.
Response passed_on(const mail::Reply& reply) {
  auto lines = lines_of(reply);
  Response response = Response::good(std::move(lines.back()));
  lines.pop_back();
  response.before = std::move(lines);
  return response;
}

}  // namespace

void Transaction::log_proxy(std::string_view verb, const char* where, const mail::Reply& answer) {
  const mail::Envelope& e = message_.envelope();
  std::string line = fmt::format("NOQUEUE: {}: {}: {}; from=<{}>", verb, where, answer.text, mail::logged(e.sender));
  if (!e.recipients.empty()) line += fmt::format(" to=<{}>", mail::logged(e.recipients.front().address));
  line += fmt::format(" proto={}", client_.protocol());
  if (!client_.helo.empty()) line += fmt::format(" helo=<{}>", client_.helo);
  log::info("{}", line);
  if (verb == "proxy-reject")
    tell_rejected(client_, {.queue_id = {},
                            .stage = where,
                            .reply = answer.text,
                            .sender = e.sender,
                            .recipient = e.recipients.empty() ? std::string_view() : e.recipients.front().address,
                            .action = verb});
}

Response Transaction::refused_by_proxy(const mail::Reply& reply, const char* where) {
  log_proxy("proxy-reject", where, reply);
  // Tell apart: the filter refused, or it does not work.
  const bool failed = proxy_ ? proxy_->failed() : proxy_failed_;
  Response response = passed_on(reply);
  response.kind = Response::Kind::refused;
  response.reason = failed ? metrics::Reason::resources : metrics::Reason::content;
  response.error = failed ? mail::ErrorClass::software : mail::ErrorClass::policy;
  return response;
}

async::Task<std::optional<mail::Reply>> Transaction::open_proxy(std::optional<std::uint64_t> size) {
  proxy_ = std::make_unique<Proxy>(server_.loop, server_.names, *policy_.proxy, server_.proxy_ends);
  const mail::Envelope& e = message_.envelope();
  mail::Client client = client_.forwarded ? client_.forwarded->client : e.client;
  mail::Reply answer =
      co_await proxy_->open(std::move(client), client_.forwarded ? client_.forwarded->ident : "", local_);
  if (answer.positive())
    answer = co_await proxy_->mail({.sender = e.sender,
                                    .size = size,
                                    .body_type = e.body_type,
                                    .smtputf8 = e.smtputf8,
                                    .envid = e.envid,
                                    .ret = e.ret,
                                    .requiretls = e.requiretls == mail::RequireTls::yes});
  if (answer.positive()) co_return std::nullopt;
  proxy_failed_ = proxy_->failed();
  proxy_.reset();  // the next recipient tries to connect again
  co_return answer;
}

async::Task<Response> Transaction::proxy_rcpt(const mail::Recipient& recipient) {
  const char* where = "MAIL";
  std::optional<mail::Reply> answer;
  if (!proxy_) {
    std::optional<std::uint64_t> size = announced_;
    if (size) *size += std::min(kOwnFields, std::numeric_limits<std::uint64_t>::max() - *size);
    answer = co_await open_proxy(size);
  }
  if (!answer) {
    where = "RCPT";
    answer = co_await proxy_->rcpt(recipient);
  }
  if (!answer->positive()) co_return refused_by_proxy(*answer, where);
  co_return passed_on(*answer);
}

async::Task<std::optional<mail::Reply>> Transaction::proxy_data() {
  if (!streams_to_proxy()) co_return std::nullopt;
  mail::Reply answer = co_await proxy_->data();
  if (answer.intermediate()) co_return std::nullopt;
  co_return answer;
}

async::Task<std::optional<mail::Reply>> Transaction::catch_up() {
  if (auto no = co_await open_proxy(message_.body()->facts().size)) co_return no;
  Proxy& proxy = *proxy_;
  for (const auto& recipient : message_.envelope().recipients) {
    mail::Reply answer = co_await proxy.rcpt(recipient);
    // Otherwise the other recipients would get the message, and this accepted one would not.
    if (!answer.positive()) co_return answer;
  }
  if (auto no = co_await proxy_data()) co_return no;
  intake::HeldContent content(server_.pool, *message_.body());
  for (;;) {
    auto piece = co_await content.next();
    if (!piece) {
      log::error("spool file: {}", piece.error().message());
      mail::Reply failed;
      failed.code = 451;
      failed.lines = {"4.3.0 Error: queue file write error"};
      failed.text = "451 " + failed.lines.front();
      co_return failed;
    }
    if (piece->empty()) co_return std::nullopt;
    co_await proxy.content(*std::move(piece));
  }
}

async::Task<Response> Transaction::finish_by_proxy() {
  intake::Body& body = *message_.body();
  const bool streamed = streams_to_proxy();
  // With speed_adjust a large body stays in the spool until the filter has it.
  if (streamed)
    (void)body.content().finish();
  else
    co_await body.finish({.deadline = server_.loop.now() + settings().smtpd_timeout});
  if (const intake::Commit bad = intake::outcome_of(body); bad.outcome != intake::Outcome::ok) {
    Response response = not_taken(bad);
    log::info("NOQUEUE: reject: END-OF-MESSAGE from {}: {}", client_.peer.shown(), response.text);
    proxy_.reset();  // hangs up on the filter, which has no end of data then
    co_return response;
  }
  std::optional<mail::Reply> answer;
  if (streamed)
    co_await proxy_->content(body.content().take());
  else
    answer = co_await catch_up();
  if (!answer) answer = co_await proxy_->end_of_data();
  if (!answer->positive()) co_return refused_by_proxy(*answer, "END-OF-MESSAGE");
  log_proxy("proxy-accept", "END-OF-MESSAGE", *answer);
  co_await proxy_->say_goodbye();
  co_return passed_on(*answer);
}

}  // namespace pen::smtpd
