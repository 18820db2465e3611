/// smtpd_proxy_filter: the session with a content filter before the queue.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lib/async/file.h"
#include "lib/base/log.h"
#include "smtpd/session.h"

namespace pen::smtpd {
namespace {
constexpr std::uint64_t kPiece = 128 * 1024;
// What the fields that are put in front of the client's content may need.
constexpr std::uint64_t kOwnFields = 1024;
}  // namespace

bool Session::proxy_loop() const {
  const Peer& peer = first_peer_ ? *first_peer_ : peer_;
  const bool loop =
      server_.proxy_ends->contains(async::SocketAddress::inet(peer.address, peer.port).text());
  if (loop)
    log::warning("mail loop: smtpd_proxy_filter of service {} leads back to that service",
                 server_.service);
  return loop;
}

void Session::log_proxy(std::string_view verb, const char* where, const mail::Reply& answer) const {
  const mail::Envelope& e = transaction_->message.envelope();
  std::string line =
      fmt::format("NOQUEUE: {}: {}: {}; from=<{}>", verb, where, answer.text, e.sender);
  if (!e.recipients.empty()) line += fmt::format(" to=<{}>", e.recipients.front().address);
  line += fmt::format(" proto={}", esmtp_ ? "ESMTP" : "SMTP");
  if (!helo_.empty()) line += fmt::format(" helo=<{}>", helo_);
  log::info("{}", line);
}

async::Task<Session::Flow> Session::refuse_as(mail::Reply answer, const char* where) {
  log_proxy("proxy-reject", where, answer);
  const auto lines = lines_of(answer);
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) reply(lines[i]);
  co_return co_await refuse(lines.back(), proxy_error());
}

mail::ErrorClass Session::proxy_error() const {
  const Transaction& t = *transaction_;
  const bool failed = t.proxy ? t.proxy->failed() : t.proxy_failed;
  return failed ? mail::ErrorClass::software : mail::ErrorClass::policy;
}

async::Task<std::optional<mail::Reply>> Session::open_proxy(std::optional<std::uint64_t> size) {
  transaction_->proxy =
      std::make_unique<Proxy>(server_.loop, server_.names, *policy_->proxy, server_.proxy_ends);
  const mail::Envelope& e = transaction_->message.envelope();
  mail::Client client = forwarded_ ? forwarded_->client : e.client;
  mail::Reply answer = co_await transaction_->proxy->open(
      std::move(client), forwarded_ ? forwarded_->ident : "", transaction_->local);
  if (answer.positive())
    answer =
        co_await transaction_->proxy->mail({.sender = e.sender,
                                            .size = size,
                                            .body_type = e.body_type,
                                            .smtputf8 = e.smtputf8,
                                            .envid = e.envid,
                                            .ret = e.ret,
                                            .requiretls = e.requiretls == mail::RequireTls::yes});
  if (answer.positive()) co_return std::nullopt;
  transaction_->proxy_failed = transaction_->proxy->failed();
  transaction_->proxy.reset();  // the next recipient tries again
  co_return answer;
}

async::Task<bool> Session::proxy_rcpt(const mail::Recipient& recipient) {
  const char* where = "MAIL";
  std::optional<mail::Reply> answer;
  if (!transaction_->proxy) {
    std::optional<std::uint64_t> size = transaction_->announced;
    if (size) *size += std::min(kOwnFields, std::numeric_limits<std::uint64_t>::max() - *size);
    answer = co_await open_proxy(size);
  }
  if (!answer) {
    where = "RCPT";
    answer = co_await transaction_->proxy->rcpt(recipient);
  }
  if (!answer->positive()) {
    co_await refuse_as(*std::move(answer), where);
    co_return false;
  }
  for (const auto& line : lines_of(*answer)) reply(line);
  co_return true;
}

async::Task<std::optional<mail::Reply>> Session::proxy_data() {
  if (!streams_to_proxy()) co_return std::nullopt;
  mail::Reply answer = co_await transaction_->proxy->data();
  if (answer.intermediate()) co_return std::nullopt;
  co_return answer;
}

async::Task<void> Session::move_content() {
  intake::Body& body = *transaction_->message.body();
  if (!streams_to_proxy())
    co_await body.drain({.deadline = server_.loop.now() + settings().smtpd_timeout});
  else if (body.problem() == intake::Body::Problem::none)
    co_await transaction_->proxy->content(body.content().take());
  else
    (void)body.content().take();  // it is refused in the end, and the filter is left without one
}

async::Task<std::optional<mail::Reply>> Session::catch_up() {
  if (auto no = co_await open_proxy(transaction_->message.body()->facts().size)) co_return no;
  Proxy& proxy = *transaction_->proxy;
  for (const auto& recipient : transaction_->message.envelope().recipients) {
    mail::Reply answer = co_await proxy.rcpt(recipient);
    // The others would get a message that this one, who was promised it, does not.
    if (!answer.positive()) co_return answer;
  }
  if (auto no = co_await proxy_data()) co_return no;
  intake::Body& body = *transaction_->message.body();
  if (body.lease() == nullptr) {
    co_await proxy.content(std::string(body.text()));
    co_return std::nullopt;
  }
  // A descriptor of its own: a read may outlive this task and the lease.
  const async::File file(server_.pool, async::Fd(::fcntl(body.lease()->fd(), F_DUPFD_CLOEXEC, 0)));
  const std::uint64_t size = body.facts().size;
  for (std::uint64_t at = 0; at < size;) {
    const auto want = static_cast<std::size_t>(std::min(kPiece, size - at));
    auto piece = co_await file.pread(want, body.lease()->content_offset() + at);
    if (!piece || piece->empty()) {
      log::error("spool file: {}", piece ? "shorter than it was" : piece.error().message());
      mail::Reply failed;
      failed.code = 451;
      failed.lines = {"4.3.0 Error: queue file write error"};
      failed.text = "451 " + failed.lines.front();
      co_return failed;
    }
    at += piece->size();
    co_await proxy.content(*std::move(piece));
  }
  co_return std::nullopt;
}

async::Task<Session::Flow> Session::end_by_proxy() {
  intake::Body& body = *transaction_->message.body();
  const bool streamed = streams_to_proxy();
  // With speed_adjust a large body has its place in the spool until the filter has it.
  if (streamed)
    (void)body.content().finish();
  else
    co_await body.finish({.deadline = server_.loop.now() + settings().smtpd_timeout});
  if (const intake::Commit bad = intake::outcome_of(body); bad.outcome != intake::Outcome::ok) {
    const std::string answer = reply_for(bad, {});
    log::info("NOQUEUE: reject: END-OF-MESSAGE from {}: {}", peer_.shown(), answer);
    reset_transaction();  // hangs up on the filter, which has had no end of data
    co_return co_await refuse(answer, error_of(bad.outcome));
  }
  std::optional<mail::Reply> answer;
  if (streamed)
    co_await transaction_->proxy->content(body.content().take());
  else
    answer = co_await catch_up();
  if (!answer) answer = co_await transaction_->proxy->end_of_data();
  const bool taken = answer->positive();
  if (taken) {
    log_proxy("proxy-accept", "END-OF-MESSAGE", *answer);
    co_await transaction_->proxy->say_goodbye();
    ++server_.counts.messages;
    errors_ = junk_ = 0;
    reset_transaction();
    forget_transcript();
    for (const auto& line : lines_of(*answer)) reply(line);
  } else {
    co_await refuse_as(*std::move(answer), "END-OF-MESSAGE");
    reset_transaction();
  }
  co_return Flow::go_on;
}

}  // namespace pen::smtpd
