#pragma once
/// One SMTP session, from connect to disconnect, as one coroutine that reads top to bottom: commands, TLS and login.
/// What is said goes through its Conversation; what a message needs is a Transaction, what a client may do at all is
/// in ClientLimits (docs/smtpd.md).
///
/// Use:     loop.spawn("session", Session::serve(server, std::move(stream), peer, std::move(slot)));
/// Order:   commands are answered in order; the replies of a pipelined batch leave in one write. RCPT TO of one batch
///          that may have to wait for look-ups are looked up together and answered in order (docs/origins.md,
///          "Multifoo").
/// Memory:  an idle session holds its Session object and three coroutine frames; a transaction is there from MAIL on. A
///          client in the tests has its Session object and small frames.
/// Source:  RFC 5321 section 4, and the RFCs of the extensions; Postfix smtpd(8) for texts, limits and settings.
/// Thread:  the loop's.
#include <array>
#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "lib/async/listener.h"
#include "lib/mail/command.h"
#include "lib/metrics/metrics.h"
#include "smtpd/client_limits.h"
#include "smtpd/conversation.h"
#include "smtpd/screened.h"
#include "smtpd/server.h"
#include "smtpd/transaction.h"

namespace pen::smtpd {

class Session {
 public:
  /// Serves until the session ends; logs connect and disconnect.
  static async::Task<void> serve(Server& server, async::Stream stream, async::SocketAddress from,
                                 async::Listener::Slot slot);

 private:
  Session(Server& server, async::Stream stream, const async::SocketAddress& from);

  /// How a verb is served; session_verbs.cc has one for each.
  struct VerbRow;
  static const VerbRow& row_of(mail::Verb verb);

  // Clang puts the frame of an awaited coroutine into its parent's if it can inline the start: every idle session
  // would then carry room for the longest command. So coroutines that do not run while a session idles are kept out
  // of line.
  // session.cc
  async::Task<void> run();
  /// Looks the client up in the lists of hosts. Called when its name and address are known.
  [[gnu::noinline]] async::Task<void> learn_standing();
  /// Asks the DNS lists of clients' addresses, unless the client is trusted.
  [[gnu::noinline]] async::Task<void> ask_lists_about_address();
  /// smtpd_upstream_proxy_protocol: takes the addresses of the session from the proxy's header. False: there is none.
  [[gnu::noinline]] async::Task<bool> ask_proxy();
  /// Looks the client's name up and serves it. known: a proxy, if there is one, has named the client.
  [[gnu::noinline]] async::Task<void> welcome(bool known);
  /// Counts the session as its client's. True: that is one too many, and the client has its reply.
  [[gnu::noinline]] async::Task<bool> too_many_connections();
  /// Serves the client whose address is known now.
  async::Task<void> serve_client();
  [[gnu::noinline]] async::Task<Flow> greet();
  /// Greets unless a filter says otherwise.
  [[gnu::noinline]] async::Task<Flow> greet_by_filters();
  async::Task<void> commands();
  [[gnu::noinline]] async::Task<Flow> command(std::string_view line);
  /// What smtpd_command_filter makes of a command. Error: the client has its reply.
  [[gnu::noinline]] async::Task<Result<std::string>> filter_command(std::string text);
  /// Does what the command says. The text must live until the command is done.
  [[gnu::noinline]] async::Task<Flow> obey(std::string_view text);
  /// There is input after a command that does not allow it.
  bool out_of_turn(mail::Verb verb) const;
  bool improper_pipelining(mail::Verb verb, std::string_view name);
  void count(mail::Verb verb, bool ok);
  void log_disconnect();

  // One function for each verb. The line dies at the next read. session_verbs.cc has the small ones.
  async::Task<Flow> hello(const mail::CommandLine& line);
  async::Task<Flow> rset(const mail::CommandLine& line);
  async::Task<Flow> noop(const mail::CommandLine& line);
  async::Task<Flow> verify(const mail::CommandLine& line);
  async::Task<Flow> etrn(const mail::CommandLine& line);
  async::Task<Flow> help(const mail::CommandLine& line);
  async::Task<Flow> quit(const mail::CommandLine& line);
  async::Task<Flow> not_implemented(const mail::CommandLine& line);
  async::Task<Flow> not_recognized(const mail::CommandLine& line);
  async::Task<Flow> starttls(const mail::CommandLine& line);
  async::Task<Flow> auth(const mail::CommandLine& line);
  async::Task<Flow> mail_from(const mail::CommandLine& line);
  async::Task<Flow> rcpt_to(const mail::CommandLine& line);
  async::Task<Flow> data(const mail::CommandLine& line);
  async::Task<Flow> bdat(const mail::CommandLine& line);
  async::Task<Flow> xforward(const mail::CommandLine& line);
  async::Task<Flow> xclient(const mail::CommandLine& line);

  // session_tls.cc
  /// Whether relay_clientcerts has the fingerprint of the client's certificate or of its key.
  [[gnu::noinline]] async::Task<bool> known_certificate();
  /// The log level of TLS for this client: smtpd_tls_loglevel_maps, smtpd_tls_loglevel.
  [[gnu::noinline]] async::Task<int> tls_loglevel();
  /// Wrapper mode: the handshake comes before the greeting.
  [[gnu::noinline]] async::Task<Flow> wrap();
  /// Does the handshake, then forgets what the client said before it.
  [[gnu::noinline]] async::Task<Flow> start_tls(std::shared_ptr<const tls::Context> context);

  // session_auth.cc
  /// Runs one AUTH exchange. response: the initial response, base 64.
  [[gnu::noinline]] async::Task<Flow> log_in(std::string mechanism, std::optional<std::string> response);
  void count_failed_login() {
    metrics::smtpd_authentication_failures.add();
    talk_.reason = metrics::Reason::sasl;
  }
  sasl::Authenticator::Request login_request(std::string mechanism) const;
  /// Reads the client's response to a challenge, base 64. Error: how the session continues. mechanism: for the log.
  [[gnu::noinline]] async::Task<std::expected<std::string, Flow>> read_response(std::string_view mechanism);
  [[gnu::noinline]] async::Task<Flow> end_log_in(sasl::Answer answer, std::string mechanism);
  /// The mechanisms that EHLO offers, separated by blanks. Empty: AUTH is not offered.
  [[gnu::noinline]] async::Task<std::string> auth_keyword();

  // session_mail.cc
  async::Task<Flow> rcpt_batch(Transaction::RcptJob& first);
  async::Task<void> answer_rcpt(Transaction::RcptJob& job);
  /// Why a MAIL command that can be read is refused before any list is asked.
  std::optional<Response> mail_refused(const mail::MailCommand& mail);
  /// What checks the origin of a message; nullptr: nothing does. Errors: of the table of clients that are exempt.
  [[gnu::noinline]] async::Task<Result<std::shared_ptr<Authentication>>> authentication(std::string sender);
  /// Whether what the client says of how urgent its mail is counts. With priorities only.
  [[gnu::noinline]] async::Task<Result<bool>> may_say_priority();
  /// The client is in local_header_rewrite_clients.
  [[gnu::noinline]] async::Task<bool> completes_header();
  /// The client is this service's own connection to its filter.
  bool proxy_loop() const;

  // session_forward.cc
  /// Why XFORWARD or XCLIENT is not for this client, or not now; empty: it is.
  std::string attributes_refused(const mail::CommandLine& line, std::string_view verb, bool permitted) const;

  // session_data.cc
  async::Task<Flow> skip_chunk(mail::BdatCommand chunk, Response response);
  [[gnu::noinline]] async::Task<Flow> end_of_content();
  bool refuse_bare_newline(std::uint64_t bare_lf);

  // session_verbs.cc
  /// Whether the session is watched for this test.
  bool watches(triage::Test test) const { return screened_ && screened_->watches(test); }
  /// The client failed the test with this command. A value: the command has its reply.
  [[gnu::noinline]] async::Task<std::optional<Flow>> misbehaved(triage::Test test, std::string_view about,
                                                                std::string_view text, std::string_view command);
  bool doomed() const { return screened_ && screened_->doomed(); }

  Conversation talk_;
  ClientLimits limits_;                 // of its client
  std::string access_denied_;           // the refusal at connect (smtpd_delay_reject = no)
  std::unique_ptr<Peer> first_peer_;    // the host that connected; set when XCLIENT has replaced it
  std::unique_ptr<Screened> screened_;  // nullptr: this port is not screened
  struct Counts {
    std::array<std::uint32_t, mail::kVerbs> tried{}, succeeded{};
  };
  std::unique_ptr<Counts> counts_;  // nullptr: it has given no command
  std::uint32_t junk_ = 0;
};

}  // namespace pen::smtpd
