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
#include <memory>
#include <optional>
#include <string>

#include "lib/base/async/listener.h"
#include "lib/base/metrics/metrics.h"
#include "lib/mail/command.h"
#include "smtpd/client_limits.h"
#include "smtpd/command_counts.h"
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
  /// Does what the command says. The text must live until the command is done.
  [[gnu::noinline]] async::Task<Flow> obey(std::string_view text);
  /// There is input after a command that does not allow it.
  bool out_of_turn(mail::Verb verb) const;
  bool improper_pipelining(mail::Verb verb, std::string_view name);
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
  struct NewClient;
  void become(NewClient next);

  // session_mail.cc
  async::Task<Flow> rcpt_batch(Transaction::RcptJob& first);
  async::Task<void> answer_rcpt(Transaction::RcptJob& job);

  // session_data.cc
  /// Refuses a BDAT command before anything else is looked at. What follows it is a chunk, and no command, also where
  /// the client was not offered CHUNKING: it is read and dropped, or the session ends.
  [[gnu::noinline]] async::Task<Flow> refuse_chunk(const mail::CommandLine& line, std::string text,
                                                   mail::ErrorClasses error);
  [[gnu::noinline]] async::Task<Flow> end_of_content();

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
  CommandCounts counts_;
  std::uint32_t junk_ = 0;
};

}  // namespace pen::smtpd
