#include "penapi/smtp_dialogue.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/base64.h"
#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/trust/sasl/token_service.h"

namespace pen::api {

using async::Task;
using mail::Reply;

namespace {

constexpr std::size_t kLongestReply = 4096;
constexpr std::string_view kMechanism = "OAUTHBEARER";
constexpr std::string_view kMapped = "::ffff:";

/// IPv4 on an IPv6 socket is IPv4.
std::string plain(std::string host) {
  if (istarts_with(host, kMapped) && host.contains('.')) host.erase(0, kMapped.size());
  return host;
}

}  // namespace

std::string proxy_line(const HttpClient& client) {
  const std::string from = client.from ? plain(client.from->host) : std::string();
  const std::string to = client.to ? plain(client.to->host) : std::string();
  const bool v6 = from.contains(':');
  if (from.empty() || to.empty() || v6 != to.contains(':')) {
    // The command LOCAL of version 2, which has no addresses.
    constexpr char kLocal[] = "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    return std::string(kLocal, sizeof kLocal - 1);
  }
  return fmt::format("PROXY {} {} {} {} {}\r\n", v6 ? "TCP6" : "TCP4", from, to, client.from->port, client.to->port);
}

std::string_view error_module(DialogueError) { return "submission by HTTP"; }
std::string_view describe(DialogueError e) {
  switch (e) {
    case DialogueError::no_login:
      return "the service does not offer AUTH OAUTHBEARER";
    case DialogueError::no_chunks:
      return "the service does not offer CHUNKING";
  }
  return "unknown";
}

bool SmtpDialogue::Sent::any() const { return std::ranges::any_of(recipients, &Reply::positive); }

Task<Result<Reply>> SmtpDialogue::reply(seconds patience, bool keep_lines) {
  mail::ReplyParser parser;
  parser.keep_lines(keep_lines);
  const async::Until until{.deadline = loop_.now() + patience};
  for (;;) {
    auto line = co_await stream_->read_line(kLongestReply, until);
    if (!line) co_return std::unexpected(std::move(line).error());
    auto whole = parser.feed(*line);
    if (!whole) continue;
    if (whole->malformed) co_return fail_errno("what is no reply of SMTP", EPROTO);
    co_return *std::move(whole);
  }
}

Task<Result<Reply>> SmtpDialogue::ask(std::string line) {
  stream_->write(line + "\r\n");
  co_return co_await reply();
}

Task<Result<Reply>> SmtpDialogue::open(HttpClient client, std::string token) {
  auto connected = co_await async::connect(loop_, async::SocketAddress::unix(options_.path),
                                           {.deadline = loop_.now() + seconds(10)});
  if (!connected) co_return fail(std::move(connected).error().within(options_.path));
  stream_.emplace(*std::move(connected));
  stream_->write(proxy_line(client));
  auto greeting = co_await reply();
  if (!greeting || !greeting->positive()) co_return greeting;
  stream_->write("EHLO " + options_.host + "\r\n");
  auto hello = co_await reply(kCommand, true);
  if (!hello || !hello->positive()) co_return hello;
  offers_ = mail::parse_offers(hello->lines, {});
  // Without CHUNKING the content would be read as commands, in a session that is logged in.
  if (!offers_.chunking) co_return fail(DialogueError::no_chunks);
  if (!std::ranges::any_of(offers_.auth, [](const std::string& name) { return iequals(name, kMechanism); }))
    co_return fail(DialogueError::no_login);
  auto login = co_await ask(fmt::format("AUTH {} ", kMechanism) + base64_encode(sasl::bearer_response(token)));
  if (login && login->intermediate()) login = co_await ask("AQ==");  // RFC 7628 section 3.2.3
  co_return login;
}

Task<Result<SmtpDialogue::Sent>> SmtpDialogue::envelope(const HandedEnvelope& envelope, std::size_t size) {
  Sent out;
  if (envelope.needs_smtputf8 && !offers_.smtputf8) {
    out.sender.code = 553;
    out.sender.dsn = "5.6.7";
    out.sender.text = "553 5.6.7 Addresses beyond ASCII are not taken here";
    co_return out;
  }
  std::string mail_from;
  mail::append_mail(
      mail_from, {.sender = envelope.sender, .size = size, .eight_bit_body = true, .smtputf8 = envelope.needs_smtputf8},
      offers_);
  stream_->write(mail_from);
  auto sender = co_await reply();
  if (!sender) co_return std::unexpected(std::move(sender).error());
  out.sender = *std::move(sender);
  if (!out.sender.positive()) co_return out;
  const auto& all = envelope.recipients;
  const std::size_t batch = offers_.pipelining ? kBatch : 1;
  out.recipients.reserve(all.size());
  for (std::size_t begin = 0; begin < all.size(); begin += batch) {
    const std::size_t end = std::min(begin + batch, all.size());
    for (std::size_t i = begin; i < end; ++i) stream_->write(fmt::format("RCPT TO:<{}>\r\n", all[i]));
    for (std::size_t i = begin; i < end; ++i) {
      auto one = co_await reply();
      if (!one) co_return std::unexpected(std::move(one).error());
      out.recipients.push_back(*std::move(one));
    }
  }
  co_return out;
}

Task<Result<Reply>> SmtpDialogue::content(const std::string& text) {
  const std::string head = fmt::format("BDAT {}\r\n", text.size());
  const Bytes pieces[] = {as_bytes(head), as_bytes(text)};
  // A service that refuses the chunk reads it all the same, or hangs up behind its reply.
  const auto written = co_await stream_->write_all(pieces, {.deadline = loop_.now() + kCommand});
  auto answer = co_await reply();
  if (!answer && !written) co_return std::unexpected(written.error());
  co_return answer;
}

Task<Result<Reply>> SmtpDialogue::finish() {
  stream_->write("BDAT 0 LAST\r\n");
  co_return co_await reply(kEnd);
}

Task<void> SmtpDialogue::quit() {
  if (!stream_) co_return;
  stream_->write("QUIT\r\n");
  (void)co_await stream_->flush({.deadline = loop_.now() + seconds(5)});
  stream_.reset();
}

}  // namespace pen::api
