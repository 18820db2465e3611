#include "tools/smtp_dialogue.h"

#include <fmt/format.h>
#include <poll.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/base/file_io.h"
#include "lib/mail/command_refusal.h"
#include "lib/mail/verp.h"

namespace pen::tools {
namespace {

constexpr std::size_t kChunk = 64 * 1024;

/// The reply for a refusal; pendrop has given the reason on standard error.
std::string refused(int status) {
  switch (status) {
    case EX_TEMPFAIL:
    case EX_OSERR:
    case EX_IOERR:
      return "451 4.3.0 Message not taken now, try again later";
    case EX_NOPERM:
      return "550 5.7.1 Not permitted to submit mail";
    default:
      return fmt::format("554 5.3.0 Message not taken: exit status {}", status);
  }
}

}  // namespace

SmtpDialogue::SmtpDialogue(Options options, Outlets outlets)
    : options_(std::move(options)), outlets_(std::move(outlets)) {
  if (options_.recipient_limit == 0) options_.recipient_limit = submission::kMaxRecipients;
  options_.recipient_limit = std::min(options_.recipient_limit, submission::kMaxRecipients);
  extensions_.size = extensions_.eight_bit_mime = extensions_.dsn = extensions_.smtputf8 = false;
}

std::string SmtpDialogue::greeting() const {
  return "220 " + options_.hostname + " ESMTP " + options_.mail_name + "\r\n";
}

void SmtpDialogue::feed(std::string_view in, std::string& replies) {
  while (!in.empty() && !ended_) {
    if (message_) {
      in.remove_prefix(take_content(in, replies));
      continue;
    }
    const auto lf = in.find('\n');
    const auto part = in.substr(0, lf);
    in.remove_prefix(lf == std::string_view::npos ? in.size() : lf + 1);
    if (line_.size() + part.size() > kMaxLine)
      too_long_ = true;
    else
      line_ += part;
    if (lf == std::string_view::npos) return;
    const bool crlf = line_.ends_with('\r');
    if (crlf) line_.pop_back();
    replies += too_long_ ? "500 5.5.2 Error: line too long" : command(line_, crlf);
    replies += "\r\n";
    line_.clear();
    too_long_ = false;
  }
}

std::string SmtpDialogue::command(std::string_view line, bool crlf) {
  const auto said = mail::split_command(line);
  switch (said.verb) {
    case mail::Verb::helo:
    case mail::Verb::ehlo:
      return hello(said.args, said.verb == mail::Verb::ehlo);
    case mail::Verb::mail:
      return mail_from(said.args);
    case mail::Verb::rcpt:
      return rcpt_to(said.args);
    case mail::Verb::data:
      return said.args.empty() ? data(crlf) : "501 5.5.4 Syntax: DATA";
    case mail::Verb::rset:
      reset();
      return "250 2.0.0 Ok";
    case mail::Verb::noop:
      return "250 2.0.0 Ok";
    case mail::Verb::vrfy:
      return "252 2.0.0 Will be tried when mail for it is sent";
    case mail::Verb::help:
      return "214 2.0.0 Commands: HELO EHLO MAIL RCPT DATA RSET NOOP VRFY HELP QUIT";
    case mail::Verb::quit:
      reset();
      ended_ = true;
      return "221 2.0.0 Bye";
    default:
      return "502 5.5.2 Error: command not recognized";
  }
}

std::string SmtpDialogue::hello(std::string_view name, bool extended) {
  if (name.empty()) return extended ? "501 5.5.4 Syntax: EHLO hostname" : "501 5.5.4 Syntax: HELO hostname";
  reset();
  extensions_.size = extensions_.eight_bit_mime = extensions_.dsn = extended;
  extensions_.smtputf8 = extended && options_.smtputf8;
  extensions_.verp = extended ? std::string_view(options_.verp) : std::string_view();
  if (!extended) return "250 " + options_.hostname;
  std::string text = "250-" + options_.hostname + "\r\n250-PIPELINING\r\n250-SIZE";
  if (options_.size_limit != 0) text += fmt::format(" {}", options_.size_limit);
  text += "\r\n250-ENHANCEDSTATUSCODES\r\n250-8BITMIME\r\n";
  if (options_.smtputf8) text += "250-SMTPUTF8\r\n";
  // A user who may call this may use sendmail -XV.
  if (!options_.verp.empty()) text += "250-XVERP\r\n";
  return text + "250 DSN";
}

std::string SmtpDialogue::mail_from(std::string_view args) {
  if (mail_) return "503 5.5.1 Error: nested MAIL command";
  auto parsed = mail::parse_mail(args, extensions_);
  if (!parsed) return mail::command_refusal(parsed.error(), false);
  if (options_.size_limit != 0 && parsed->size.value_or(0) > options_.size_limit)
    return "552 5.3.4 Message size exceeds fixed limit";
  if (auto no = mail::verp_refusal(parsed->sender, parsed->verp, options_.verp_filter); !no.empty()) return no;
  mail_.emplace();
  mail_->facts() = std::move(parsed->facts());
  return "250 2.1.0 Ok";
}

std::string SmtpDialogue::rcpt_to(std::string_view args) {
  if (!mail_) return "503 5.5.1 Error: need MAIL command";
  auto parsed = mail::parse_rcpt(args, extensions_, mail_->smtputf8);
  if (!parsed) return mail::command_refusal(parsed.error(), true);
  if (mail_->recipients.size() >= options_.recipient_limit) return "452 4.5.3 Error: too many recipients";
  mail::Recipient recipient;
  recipient.address = std::move(parsed->recipient);
  recipient.orcpt = std::move(parsed->orcpt);
  recipient.notify = parsed->notify;
  mail_->recipients.push_back(std::move(recipient));
  return "250 2.1.5 Ok";
}

std::string SmtpDialogue::data(bool crlf) {
  if (!mail_) return "503 5.5.1 Error: need MAIL command";
  if (mail_->recipients.empty()) return "554 5.5.1 Error: no valid recipients";
  if (auto wrong = submission::check(*mail_, false); !wrong.empty()) {
    reset();
    return "554 5.5.0 Error: " + wrong;
  }
  lf_only_ = !crlf;
  message_ = std::make_unique<Message>(outlets_());
  message_->wanted = message_->outlet->start(*mail_);
  return "354 End data with <CR><LF>.<CR><LF>";
}

/// Returns how much of `in` was content. Unwanted content is read to its end, where the reply comes.
std::size_t SmtpDialogue::take_content(std::string_view in, std::string& replies) {
  Message& m = *message_;
  in = in.substr(0, kChunk);
  std::size_t taken = 0;
  if (lf_only_) {
    const auto lf = in.find('\n');
    taken = lf == std::string_view::npos ? in.size() : lf + 1;
    const auto line = in.substr(0, lf);
    m.scanner.feed(line, sink_);
    if (!line.empty()) m.cr = line.ends_with('\r');
    if (lf != std::string_view::npos) m.scanner.feed(m.cr ? "\n" : "\r\n", sink_);
    if (lf != std::string_view::npos) m.cr = false;
  } else {
    taken = m.scanner.feed(in, sink_);
  }
  m.size += sink_.content.size();
  const bool too_large = options_.size_limit != 0 && m.size > options_.size_limit;
  if (too_large) m.outlet.reset();  // unfinished, so not submitted
  if (!sink_.content.empty() && m.wanted && !too_large) m.wanted = m.outlet->content(sink_.content);
  sink_.content.clear();
  if (!m.scanner.done()) return taken;
  if (too_large) {
    replies += "552 5.3.4 Message size exceeds fixed limit\r\n";
  } else {
    const int status = m.outlet->finish();
    replies += status == EX_OK ? "250 2.0.0 Ok: queued\r\n" : refused(status) + "\r\n";
  }
  reset();
  return taken;
}

void SmtpDialogue::reset() {
  message_.reset();
  mail_.reset();
}

int serve_smtp(SmtpDialogue& dialogue, int in, int out, seconds timeout) {
  if (!write_all(out, dialogue.greeting(), "reply")) return EX_IOERR;
  std::string buffer(kChunk, '\0'), replies;
  while (!dialogue.ended()) {
    pollfd ready{in, POLLIN, 0};
    const int n = ::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(timeout).count()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return EX_OSERR;
    if (n == 0) {
      (void)write_all(out, "421 4.4.2 Error: timeout exceeded\r\n", "reply");
      return EX_TEMPFAIL;
    }
    const auto got = ::read(in, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return EX_IOERR;
    if (got == 0) return EX_OK;
    replies.clear();
    dialogue.feed(std::string_view(buffer).substr(0, static_cast<std::size_t>(got)), replies);
    if (!write_all(out, replies, "reply")) return EX_IOERR;
  }
  return EX_OK;
}

}  // namespace pen::tools
