#pragma once
/// The before-queue content filter of one transaction: an SMTP client that says what the session's client says, one
/// command at a time, and whose replies are the client's.
///
/// Use:     Proxy proxy(loop, names, *policy.proxy, ends);
///          mail::Reply r = co_await proxy.open(client, ident, local); r = co_await proxy.mail(line); … rcpt() …
///          data(); co_await proxy.content(text);  …;  r = co_await proxy.end_of_data();  co_await
///          proxy.say_goodbye();
/// Replies: the filter's; where there is none, or none that fits, 451 4.3.0, and then for ever: what failed has been
///          logged. Only a positive reply to end_of_data() means that anybody has the message.
/// End:     destroying it hangs up at once: a filter that has not had its end of data has no message.
/// Bounds:  smtpd_proxy_timeout for each wait; a reply by mail::ReplyParser.
/// Loops:   `ends` holds the addresses of this process's connections to the filter while they are open: a session whose
///          client is one of them leads back to where it came from.
/// Thread:  the loop's.
/// Source:  Postfix SMTPD_PROXY_README, smtpd_proxy_*.
#include <expected>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/async/stream.h"
#include "lib/mail/client_commands.h"
#include "lib/mail/data_form.h"
#include "lib/mail/reply.h"
#include "lib/smtpd/proxy_settings.h"
#include "smtpd/names.h"

namespace pen::smtpd {

/// Local ends of the connections to the filter, as SocketAddress::text().
using ProxyEnds = std::set<std::string>;

class Proxy {
 public:
  // Addresses of a name that are tried for one connection. They share one time-out: each gets a part of what is left.
  static constexpr std::size_t kMaxAddresses = 5;

  /// names must outlive it.
  Proxy(async::Loop& loop, Names& names, const ProxySettings& settings, std::shared_ptr<ProxyEnds> ends)
      : loop_(loop), names_(names), settings_(settings), ends_(std::move(ends)) {}
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// Connects, says EHLO and, where it is offered, XFORWARD; local: its SOURCE.
  async::Task<mail::Reply> open(mail::Client client, std::string ident, bool local);
  /// SMTPUTF8 that the client said and the filter does not offer is refused here, with 553 5.6.7. DSN parameters are
  /// passed on whether it offers them or not.
  async::Task<mail::Reply> mail(const mail::MailLine& line);
  async::Task<mail::Reply> rcpt(const mail::Recipient& recipient);
  /// A good reply is 354.
  async::Task<mail::Reply> data();
  /// Stored form (CRLF lines, no dots doubled), in order. After a failure it is dropped: end_of_data() says so.
  async::Task<void> content(std::string text);
  async::Task<mail::Reply> end_of_data();
  /// Sends QUIT and does not wait for the reply.
  async::Task<void> say_goodbye();

  /// The filter cannot be reached or broke the protocol: replies are ours, not the filter's.
  bool failed() const { return broken_; }

 private:
  /// Error: why not, for the log.
  async::Task<std::expected<async::Stream, std::string>> connect();
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
