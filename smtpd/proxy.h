#pragma once
/// The before-queue content filter of one transaction: an SMTP client that repeats the session's commands one at a
/// time, and passes replies back to the session's client.
///
/// Use:     Proxy proxy(loop, names, *policy.proxy, ends);
///          mail::Reply r = co_await proxy.open(client, ident, local);
///          r = co_await proxy.mail(line); … rcpt() … data();  co_await proxy.content(text); …
///          r = co_await proxy.end_of_data();  co_await proxy.say_goodbye();
/// Replies: the filter's. If the filter fails or breaks the protocol, the reply is 451 4.3.0 from then on, and the
///          failure has been logged. Only a positive reply to end_of_data() means that the filter has the message.
/// End:     the destructor hangs up at once: a filter without end of data has no message.
/// Bounds:  smtpd_proxy_timeout for each wait; a reply by mail::ReplyParser.
/// Loops:   `ends` holds the addresses of this process's open connections to the filter: a session with one of them
///          as its client is a mail loop.
/// Thread:  the loop's.
/// Source:  Postfix SMTPD_PROXY_README, smtpd_proxy_*.
#include <expected>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/async/stream.h"
#include "lib/mail/client_commands.h"
#include "lib/mail/data_form.h"
#include "lib/mail/reply.h"
#include "lib/meaning/smtpd/proxy_settings.h"
#include "smtpd/names.h"

namespace pen::smtpd {

/// Local ends of the connections to the filter, as SocketAddress::text().
using ProxyEnds = std::set<std::string>;

class Proxy {
 public:
  /// names must outlive it.
  Proxy(async::Loop& loop, Names& names, const ProxySettings& settings, std::shared_ptr<ProxyEnds> ends)
      : loop_(loop), names_(names), settings_(settings), ends_(std::move(ends)) {}
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// Connects, says EHLO and, if offered, XFORWARD; local: its SOURCE.
  async::Task<mail::Reply> open(mail::Client client, std::string ident, bool local);
  /// If the client said SMTPUTF8 and the filter does not offer it, the reply is 553 5.6.7. DSN parameters are passed
  /// on whether or not the filter offers them.
  async::Task<mail::Reply> mail(const mail::MailLine& line);
  async::Task<mail::Reply> rcpt(const mail::Recipient& recipient);
  /// A good reply is 354.
  async::Task<mail::Reply> data();
  /// Content in stored form (CRLF lines, no dots doubled), in order. After a failure it is dropped, and end_of_data()
  /// reports that.
  async::Task<void> content(std::string text);
  async::Task<mail::Reply> end_of_data();
  /// Sends QUIT and does not wait for the reply.
  async::Task<void> say_goodbye();

  /// The filter cannot be reached or broke the protocol: the replies are ours, not the filter's.
  bool failed() const { return broken_; }

 private:
  /// The error is the reason, for the log.
  async::Task<mail::Reply> command(std::string text, const char* step);
  async::Task<mail::Reply> receive(const char* step);
  mail::Reply broken(std::string_view why);
  async::Until until() const { return {.deadline = loop_.now() + settings_.timeout}; }

  async::Loop& loop_;
  Names& names_;
  ProxySettings settings_;
  std::shared_ptr<ProxyEnds> ends_;
  std::string end_;
  std::optional<async::Stream> stream_;
  mail::Offers offers_;
  mail::DataForm form_{0};
  bool broken_ = false;
};

/// The reply's lines as they are passed on, without CRLF: "550-first", "550 second".
std::vector<std::string> lines_of(const mail::Reply& reply);

}  // namespace pen::smtpd
