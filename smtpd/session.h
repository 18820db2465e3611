#pragma once
/// One SMTP session, from connect to disconnect, as one coroutine that reads top to bottom.
///
/// Use:     loop.spawn("session", Session::serve(server, std::move(stream), peer, std::move(slot)));
/// Order:   commands are answered in order; the replies of a pipelined batch leave in one write. RCPT TO of one batch
///          that may have to wait for look-ups are looked up together and answered in order (seed 004).
/// Memory:  an idle session holds its Session object and two coroutine frames; a transaction is there from MAIL on.
/// Source:  RFC 5321 section 4, and the RFCs of the extensions; Postfix smtpd(8) for texts, limits and settings.
/// Thread:  the loop's.
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "lib/async/listener.h"
#include "lib/async/sync.h"
#include "lib/intake/intake.h"
#include "lib/mail/command.h"
#include "lib/mail/transcript.h"
#include "smtpd/checks.h"
#include "smtpd/server.h"

namespace pen::smtpd {

class Session {
 public:
  /// Serves until the session ends; logs connect and disconnect.
  static async::Task<void> serve(Server& server, async::Stream stream, async::SocketAddress from,
                                 async::Listener::Slot slot);

 private:
  Session(Server& server, async::Stream stream, const async::SocketAddress& from);

  enum class Flow : std::uint8_t { go_on, close };
  /// How a verb is served: verb_rows() in session_verbs.cc has one for each.
  struct VerbRow;
  static const VerbRow& row_of(mail::Verb verb);
  struct Transaction {
    intake::Message message;
    mail::CommandOptions options;
    bool smtputf8 = false;
    bool local = false;                       // its header is completed, here or behind the filter
    std::optional<std::uint64_t> announced;   // SIZE
    std::size_t refused = 0;                  // RCPT commands beyond the recipient limit
    std::unique_ptr<mail::BdatScanner> bdat;  // from the first BDAT on
    bool bdat_failed = false;
    std::unique_ptr<Proxy> proxy;  // while the filter is spoken to
    bool proxy_failed = false;     // the one before, which could not be opened
  };
  struct RcptJob;
  /// What XFORWARD has told, for the messages to come.
  struct Forwarded {
    mail::Client client;
    std::string ident;          // the queue id at the sender's; empty: none
    std::optional<bool> local;  // SOURCE
  };

  // Clang puts the frame of an awaited coroutine into its parent's when it can inline its start: every idle session
  // would then carry room for the longest command. What is not running while a session idles is kept out of line.
  // session.cc
  async::Task<void> run();
  /// A place in the client's session class, or a refusal.
  [[gnu::noinline]] async::Task<sessions::Holder::Entry> class_place();
  /// Asks the lists about the client, once it is known who that is.
  [[gnu::noinline]] async::Task<void> learn_standing();
  [[gnu::noinline]] async::Task<Flow> greet();
  async::Task<void> commands();
  [[gnu::noinline]] async::Task<void> say_goodbye();
  [[gnu::noinline]] async::Task<Flow> command(std::string_view line);
  Flow read_failed(const Error& error);
  Flow bare_newline();
  bool improper_pipelining(mail::Verb verb, std::string_view name);
  void count(mail::Verb verb, bool ok);
  void log_disconnect();

  // The verbs; their views die at the next read. session_verbs.cc has those that no other file is about.
  async::Task<Flow> hello(const mail::CommandLine& line);
  async::Task<Flow> rset(const mail::CommandLine& line);
  async::Task<Flow> noop(const mail::CommandLine& line);
  async::Task<Flow> verify(const mail::CommandLine& line);
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
  /// The reply to EHLO, without PIPELINING and so on where they are discarded. mechanisms: auth_keyword().
  std::string ehlo_reply(std::string_view mechanisms) const;

  // session_tls.cc
  /// Its certificate's or its key's fingerprint is in relay_clientcerts.
  [[gnu::noinline]] async::Task<bool> known_certificate();
  /// The client has had as many full handshakes as it may in this time unit.
  async::Task<bool> no_more_tls();
  /// TLS before anything else.
  [[gnu::noinline]] async::Task<Flow> wrap();
  /// The handshake; what was known of the client is forgotten.
  [[gnu::noinline]] async::Task<Flow> start_tls(std::shared_ptr<const tls::Context> context);

  // session_auth.cc
  /// The exchange. response: the initial one, base 64.
  [[gnu::noinline]] async::Task<Flow> log_in(std::string mechanism,
                                             std::optional<std::string> response);
  /// The mechanisms that EHLO offers, with blanks between; empty: AUTH is not offered.
  [[gnu::noinline]] async::Task<std::string> auth_keyword();

  // session_mail.cc
  async::Task<Flow> rcpt_batch(RcptJob& first);
  void log_client(intake::Message& message) const;
  std::unique_ptr<RcptJob> parse_rcpt(std::string_view args, std::size_t ahead);
  async::Task<void> answer_rcpt(RcptJob& job);
  static async::Task<void> judge(RcptJob* job, async::Event* done);

  // session_forward.cc
  /// Why XFORWARD or XCLIENT is not for this client, or not now; empty: it is.
  std::string_view attributes_refused(bool permitted) const;
  /// Puts the client that XFORWARD has told of into the message.
  void take_forwarded(intake::Message& message) const;
  /// The same for the line that begins with client=; empty: nothing was told.
  std::string forwarded_shown() const;

  // session_proxy.cc
  bool proxied() const { return policy_->proxy.has_value(); }
  /// Content goes to the filter as it comes.
  bool streams_to_proxy() const { return transaction_->proxy != nullptr; }
  /// Connects to the filter and says MAIL. size: bytes of the content; nullopt: not known. nullopt: the filter took it.
  [[gnu::noinline]] async::Task<std::optional<mail::Reply>> open_proxy(
      std::optional<std::uint64_t> size);
  /// Passes RCPT on, opening first; answers. True: the filter took the recipient.
  [[gnu::noinline]] async::Task<bool> proxy_rcpt(const mail::Recipient& recipient);
  /// Passes DATA on. nullopt: go on.
  [[gnu::noinline]] async::Task<std::optional<mail::Reply>> proxy_data();
  /// The end of the content: the rest of it, or all of it, to the filter, and its word for the client.
  [[gnu::noinline]] async::Task<Flow> end_by_proxy();
  /// What smtpd_proxy_options = speed_adjust has put off.
  [[gnu::noinline]] async::Task<std::optional<mail::Reply>> catch_up();
  async::Task<Flow> refuse_as(mail::Reply answer, const char* where);
  /// Whose fault a refusal by the proxy is: its own word, or it does not work.
  mail::ErrorClass proxy_error() const;
  void log_proxy(std::string_view verb, const char* where, const mail::Reply& answer) const;
  bool proxy_loop() const;
  /// Writes what has gathered of the body to where it goes.
  [[gnu::noinline]] async::Task<void> move_content();

  // session_data.cc
  /// message_size_limit is less than that.
  bool beyond_limit(std::uint64_t size) const;
  async::Task<Flow> skip_chunk(mail::BdatCommand chunk, std::string_view answer,
                               mail::ErrorClasses error = mail::ErrorClass::protocol);
  async::Task<Flow> end_of_message();
  async::Task<bool> may_start_content();
  bool refuse_bare_newline(std::uint64_t bare_lf);

  /// To the end of the content.
  static std::string reply_for(const intake::Commit& commit, const std::string& queue_id);
  static mail::ErrorClass error_of(intake::Outcome outcome);

  // replies
  void reply(std::string_view text);
  /// Lines with their CRLF.
  void write_reply(std::string_view lines);
  std::string footer() const;
  /// Counts an error, waits after too many; the session goes on. error: what the postmaster may be told of.
  [[gnu::noinline]] async::Task<Flow> refuse(std::string_view text,
                                             mail::ErrorClasses error = mail::ErrorClass::protocol);

  // session_transcript.cc
  void heard(std::string_view line) {
    if (transcript_) transcript_->command(line);
  }
  void heard_response() {
    if (transcript_) transcript_->response();
  }
  void went_wrong(mail::ErrorClasses error) {
    if (transcript_) transcript_->error(error);
  }
  /// A message was taken: what led to it is forgotten, and so is what went wrong with others before it. A list's
  /// delivery nearly always has a recipient that is refused.
  void forget_transcript() {
    if (transcript_) transcript_->clear();
  }
  /// Between messages: a long transcript is told, if there is something to tell, and begins anew.
  void limit_transcript();
  /// The session ends.
  void tell_postmaster();
  void reset_transaction() {
    transaction_.reset();
    forwarded_.reset();  // it is told for each message
  }
  using Event = sessions::ClientCounts::Event;
  /// The smtpd_client_*_limit settings are for this client too.
  bool client_limited() const {
    // Who may say XCLIENT speaks for many, who would share the count of the one address that connects.
    return server_.clients && !standing_.may_xclient && !standing_.unlimited;
  }
  /// Counts it for the client; true: it is more than `limit` (0: none), which has been logged.
  [[gnu::noinline]] async::Task<bool> too_often(Event event, int limit);
  bool over_rate(Event event, std::uint32_t rate, int limit) const;
  /// Counts the session, as long as it lives; true: it is one too many, which has been logged.
  [[gnu::noinline]] async::Task<bool> too_many_connections();
  Subject subject() const;
  bool secured() const { return tls_ != nullptr; }  // the connection is encrypted
  async::Until until() const;
  const config::Settings& settings() const { return policy_->settings; }

  Server& server_;
  std::shared_ptr<const Policy> policy_;
  async::Stream stream_;
  Peer peer_;
  /// In which lists the client is; peer_.trusted is the rest of it. What cannot be read is answered for safety.
  struct Standing {
    bool may_xclient = false;   // who connected, whoever peer_ is now
    bool may_xforward = false;  // smtpd_authorized_xforward_hosts
    bool unlimited = false;     // smtpd_client_event_limit_exceptions
    bool no_auth = true;        // smtpd_sasl_exceptions_networks
    bool local = false;         // local_header_rewrite_clients, its addresses and tables
  };
  Standing standing_;
  std::string counted_as_;  // "service:address"
  std::optional<sessions::ClientCounts::Place> counted_;
  std::string helo_;
  std::string access_denied_;          // without delay_reject: what the client was told at connect
  std::unique_ptr<Login> login_;       // nullptr: nobody
  std::unique_ptr<SecureClient> tls_;  // nullptr: clear text
  std::unique_ptr<Transaction> transaction_;
  std::unique_ptr<Forwarded> forwarded_;  // XFORWARD
  std::unique_ptr<mail::Transcript>
      transcript_;                        // nullptr: the postmaster wants to hear of nothing
  const char* aborted_ = "";              // why it ended, if not by QUIT
  std::unique_ptr<Peer> first_peer_;      // who connected, once XCLIENT has put another in peer_
  std::string last_command_ = "CONNECT";  // for the log
  std::array<std::uint32_t, mail::kVerbs> tried_{}, succeeded_{};
  std::uint32_t errors_ = 0, junk_ = 0;
  bool esmtp_ = false;
  bool improper_pipelining_ = false;
  bool failed_ = false;  // the command under way was refused
  bool forbid_bare_newline_ = true;
  bool any_end_of_data_ = false;  // LF.LF ends a message of this client
  bool hang_up_ = false;          // a reply said 421 or 521
};

}  // namespace pen::smtpd
