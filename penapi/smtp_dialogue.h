#pragma once
/// One session with the service of smtpd that takes mail from penapi: says for which client it is, logs in with the
/// client's token, hands over a message.
///
/// Use:     SmtpDialogue smtp(loop, {.path = …, .host = myhostname});
///          if (auto no = co_await smtp.open(client, token)) … ; auto sent = co_await smtp.envelope(envelope, size);
///          … = co_await smtp.content(text);  … = co_await smtp.finish();
/// Offers:  the service must offer AUTH OAUTHBEARER and CHUNKING; the rest is used as far as it is offered.
/// Client:  told by the PROXY protocol, so the service has smtpd_upstream_proxy_protocol = haproxy. A client without an
///          address, at a Unix socket, is this host.
/// Content: goes by BDAT, as it is.
/// Errors:  DialogueError: the service is not set up for this; timed_out; closed: it hung up; errno, EPROTO among them:
///          what it said is no reply.
/// Bounds:  kBatch commands are under way at a time; a reply as mail::ReplyParser keeps it.
/// Source:  RFC 5321, RFC 3030, RFC 2920, RFC 7628. Thread: the loop's.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/async/stream.h"
#include "lib/mail/client_commands.h"
#include "lib/mail/reply.h"
#include "penapi/compose.h"

namespace pen::api {

/// The client of a request.
struct HttpClient {
  std::optional<async::SocketAddress> from, to;  // nullopt: it has no address
};

enum class DialogueError { no_login = 1, no_chunks };
std::string_view error_module(DialogueError);
std::string_view describe(DialogueError e);

class SmtpDialogue {
 public:
  struct Options {
    std::string path;  // of the service's socket
    std::string host;  // myhostname
  };
  SmtpDialogue(async::Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {}

  /// The reply to the login, or to what was refused before it. Once more: in a new session.
  async::Task<Result<mail::Reply>> open(HttpClient client, std::string token);
  struct Sent {
    mail::Reply sender;
    std::vector<mail::Reply> recipients;  // none if the sender was refused
    bool any() const;                     // a recipient was accepted
  };
  async::Task<Result<Sent>> envelope(const HandedEnvelope& envelope, std::size_t size);
  /// All of the content, without the end of the message.
  async::Task<Result<mail::Reply>> content(const std::string& text);
  /// The end of the message: what qmgr has said.
  async::Task<Result<mail::Reply>> finish();
  /// Says goodbye, does not wait for an answer, and hangs up.
  async::Task<void> quit();

  static constexpr std::size_t kBatch = 50;
  static constexpr seconds kCommand{300}, kEnd{600};  // RFC 5321 section 4.5.3.2

 private:
  async::Task<Result<mail::Reply>> reply(seconds patience = kCommand, bool keep_lines = false);
  async::Task<Result<mail::Reply>> ask(std::string line);

  async::Loop& loop_;
  Options options_;
  mail::Offers offers_;
  std::optional<async::Stream> stream_;
};

/// What the PROXY protocol says of the client.
std::string proxy_line(const HttpClient& client);

}  // namespace pen::api
