#include "smtpd/proxy.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/charset.h"
#include "lib/mail/client_attributes.h"
#include "smtpd/connecting.h"

namespace pen::smtpd {
namespace {

constexpr std::size_t kMaxReplyLine = 4096;

mail::Reply made_up(int code, std::string text) {
  mail::Reply r;
  r.code = code;
  r.lines = {text};
  r.text = fmt::format("{} {}", code, text);
  return r;
}

}  // namespace

Proxy::~Proxy() {
  if (!end_.empty()) ends_->erase(end_);
}

mail::Reply Proxy::broken(std::string_view why) {
  if (!broken_) log::warning("proxy filter {}: {}", settings_.address.text(), why);
  broken_ = true;
  if (stream_) stream_->close();
  return made_up(451, "4.3.0 Error: queue file write error");
}

async::Task<mail::Reply> Proxy::receive(const char* step) {
  if (broken_) co_return broken({});
  mail::ReplyParser parser;
  parser.keep_lines(true);
  for (;;) {
    auto line = co_await stream_->read_line(kMaxReplyLine, until());
    if (!line) {
      if (line.error().is(async::WaitError::timed_out)) co_return broken(fmt::format("timed out after {}", step));
      co_return broken(fmt::format("lost connection after {}: {}", step, line.error().message()));
    }
    auto reply = parser.feed(*line);
    if (!reply) continue;
    if (reply->malformed || reply->code < 200) co_return broken(fmt::format("garbage after {}: {}", step, reply->text));
    // The filter closes its own connection, not the client's.
    if (reply->code == 421) {
      (void)broken(fmt::format("after {}: {}", step, reply->text));
      reply->code = 451;
    }
    co_return *std::move(reply);
  }
}

async::Task<mail::Reply> Proxy::command(std::string text, const char* step) {
  if (broken_) co_return broken({});
  stream_->write(text);
  if (auto sent = co_await stream_->flush(until()); !sent)
    co_return broken(fmt::format("lost connection while sending {}: {}", step, sent.error().message()));
  co_return co_await receive(step);
}

async::Task<mail::Reply> Proxy::open(mail::Client client, std::string ident, bool local) {
  auto connected = co_await connect_to(loop_, names_, settings_.address, settings_.families, until());
  if (!connected) co_return broken("connect: " + connected.error());
  stream_.emplace(*std::move(connected));
  if (auto end = async::local_address(stream_->fd()); end && !end->is_unix()) {
    end_ = end->text();
    ends_->insert(end_);
  }
  mail::Reply reply = co_await receive("connect");
  if (!reply.positive()) {
    if (broken_) co_return reply;
    co_return broken("greeting: " + reply.text);
  }
  reply = co_await command(fmt::format("EHLO {}\r\n", settings_.helo), "EHLO");
  if (!reply.positive()) {
    if (broken_) co_return reply;
    co_return broken("EHLO: " + reply.text);
  }
  offers_ = mail::parse_offers(reply.lines, {});
  offers_.dsn = true;  // the client was offered DSN: the filter may refuse what the client asks for
  for (auto& line : mail::xforward_commands(offers_.xforward, client, ident, local)) {
    const mail::Reply told = co_await command(std::move(line), "XFORWARD");
    if (broken_) co_return told;
    // XFORWARD is for the filter's log only.
    if (!told.positive()) log::warning("proxy filter {}: XFORWARD: {}", settings_.address.text(), told.text);
  }
  co_return reply;
}

async::Task<mail::Reply> Proxy::mail(const mail::MailLine& line) {
  if (!offers_.smtputf8 && (line.smtputf8 || !mail::all_ascii(line.sender)))
    co_return made_up(553, "5.6.7 SMTPUTF8 is required, but was not offered by the content filter");
  std::string text;
  mail::append_mail(text, line, offers_);
  mail::Reply reply = co_await command(std::move(text), "MAIL");
  if (reply.intermediate()) co_return broken("MAIL: " + reply.text);
  co_return reply;
}

async::Task<mail::Reply> Proxy::rcpt(const mail::Recipient& recipient) {
  if (!offers_.smtputf8 && !mail::all_ascii(recipient.address))
    co_return made_up(553, "5.6.7 SMTPUTF8 is required, but was not offered by the content filter");
  std::string text;
  mail::append_rcpt(text, recipient, offers_);
  mail::Reply reply = co_await command(std::move(text), "RCPT");
  if (reply.intermediate()) co_return broken("RCPT: " + reply.text);
  co_return reply;
}

async::Task<mail::Reply> Proxy::data() {
  mail::Reply reply = co_await command("DATA\r\n", "DATA");
  if (reply.positive()) co_return broken("DATA: " + reply.text);
  co_return reply;
}

async::Task<void> Proxy::content(std::string text) {
  if (broken_) co_return;
  std::vector<Bytes> pieces;
  form_.feed(text, pieces);
  if (auto sent = co_await stream_->write_all(pieces, until()); !sent)
    (void)broken("lost connection while sending the message: " + sent.error().message());
}

async::Task<mail::Reply> Proxy::end_of_data() {
  if (broken_) co_return broken({});
  std::vector<Bytes> pieces;
  form_.finish(pieces);
  if (auto sent = co_await stream_->write_all(pieces, until()); !sent)
    co_return broken("lost connection while sending end of data: " + sent.error().message());
  mail::Reply reply = co_await receive("END-OF-MESSAGE");
  if (reply.intermediate()) co_return broken("END-OF-MESSAGE: " + reply.text);
  co_return reply;
}

async::Task<void> Proxy::say_goodbye() {
  if (broken_ || !stream_) co_return;
  stream_->write("QUIT\r\n");
  (void)co_await stream_->flush({.deadline = loop_.now() + seconds(1)});
}

std::vector<std::string> lines_of(const mail::Reply& reply) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < reply.lines.size(); ++i)
    out.push_back(fmt::format("{}{}{}", reply.code, i + 1 < reply.lines.size() ? '-' : ' ', reply.lines[i]));
  if (out.empty()) out.push_back(fmt::format("{} ", reply.code));
  return out;
}

}  // namespace pen::smtpd
