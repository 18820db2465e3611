#pragma once
/// The SMTP and LMTP client's protocol core: reply lines and jobs in; bytes to write and results out. No I/O.
///
/// Use:     Engine engine(settings, peer);
///          engine.submit(job, now);                      // jobs stay the caller's until their JobDone was taken
///          engine.on_line(line, now);                    // on a line from the peer
///          while (auto send = engine.next_send(now)) {   // then, until nullopt:
///            write send->text;
///            if (send->job) { write its content in send->form; …; engine.content_written(); }
///          }
///          for (auto& event : engine.take_events()) …    // then
///          if (engine.handshake_due()) { shake hands; engine.tls_started(now) or engine.tls_failed(status); }
///          When ended() says so, or the connection ends: engine.finish(how), and take the last events.
/// Order:   replies are matched in order to what was sent. How much is sent ahead, and what every reply or its
///          absence means for which message, is the table of docs/pipelining.md; a reply is credited to one job or
///          to no job.
/// Stage:   next_send() with a job says that end-of-data follows: before the content's last byte is given to
///          the socket the caller marks the job as committed (mark_committed), here and in the stage page.
/// Probes:  for a job that is a probe, MAIL and RCPT are sent, then RSET in the same group; the replies to
///          RCPT are the results. With Settings::probe_data (smtp_address_verify_target = data) DATA follows the
///          replies to RCPT and its reply is the result; after a go-ahead the connection ends.
/// Results: each job ends in exactly one JobDone or in Ended::unstarted ("had no effect at the peer").
/// Bounds:  the caller bounds the jobs in hand (window()); replies are bounded by mail::ReplyParser.
/// Source:  RFC 5321, 2920, 3030, 2033, 1870, 6152, 6531, 3461; Postfix's texts for people's eyes.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/time.h"
#include "lib/ipc/delivery.h"
#include "lib/mail/reply.h"
#include "lib/smtp/settings.h"
#include "smtp/wire.h"

namespace pen::sasl {
class ClientExchange;
}

namespace pen::smtp {

using ipc::delivery::Job;
using ipc::delivery::Trouble;

/// What a reply is awaited to; names the time-out that applies and the words of messages.
enum class Step : std::uint8_t {
  greeting,
  ehlo,
  helo,
  lhlo,
  starttls,
  auth,
  rset,
  xforward,
  mail,
  rcpt,
  data,
  content,
  end_of_data,
  bdat,
  quit
};
/// "sending MAIL FROM", as after "lost connection with … while".
std::string_view doing(Step step);

/// The peer's names, for texts.
struct Peer {
  std::string host;   // "mx.example.org"
  std::string shown;  // "mx.example.org[192.0.2.1]", or with a path
};

enum class Form : std::uint8_t { none, bdat, data, seven_bit };
struct Send {
  std::vector<const Job*> begun = {};  // jobs with their first command in text
  std::string text = {};               // commands first; may be empty
  bool response = false;               // text is one to a challenge of AUTH, not a command
  const Job* job = nullptr;            // then this job's content
  // bdat: the stored bytes; data: dot-stuffed, with the final "." line; seven_bit: so too, after mail::SevenBitForm
  Form form = Form::none;
};

struct Opened {
  Offers offers;
  std::uint32_t window = 1;
};
struct JobDone {
  const Job* job = nullptr;
  std::vector<mail::DeliveryStatus> results;  // one per recipient, in order
  // One per recipient: beyond what the peer takes in a transaction (LIMITS), and others were taken. Empty: none was.
  std::vector<bool> rest = {};
  microseconds service_time{0};
  std::uint32_t connection_use = 1;  // how many transactions this connection has seen
  bool cut_short = false;            // the connection ended before the peer had answered all of it
  bool own_fault = false;            // what is deferred is so because of us: no other host would do better
};
struct Ended {
  bool opened = false;  // whether Opened was reported before
  Trouble trouble = Trouble::none;
  mail::DeliveryStatus status;
  std::vector<const Job*> unstarted;
  // replies did not fit what was sent: do not pipeline with this peer for a while
  bool misbehaved = false;
};
using Event = std::variant<Opened, JobDone, Ended>;

/// Why the caller ends it.
enum class End : std::uint8_t {
  closed,  // the peer closed or reset the connection
  timed_out,
  content_error,  // the content could not be read: nothing sane can follow on this connection
  by_engine,      // ended() was true
};

class Engine {
 public:
  Engine(const Settings& settings, Peer peer);
  ~Engine();
  /// Credentials for AUTH, before the first line. None: the connection does not log in.
  void set_login(std::shared_ptr<const Login> login) { settings_.login = std::move(login); }

  /// What one round trip to the peer takes, by the handshake; before the first line. The reply to EHLO corrects it
  /// upwards, replies to MAIL downwards.
  void set_round_trip(microseconds round_trip) { round_trip_ = round_trip; }
  /// Any time before ended(); jobs are done in the order of submission.
  void submit(const Job* job, SteadyTime now);
  /// Finish the jobs in hand, then QUIT.
  void request_close() { closing_ = true; }

  void on_line(std::string_view line, SteadyTime now);
  /// What may be written now. After a Send with a job: no other until content_written().
  std::optional<Send> next_send(SteadyTime now);
  void mark_committed();
  void content_written();

  /// Nothing more is to be done with the peer: flush what was sent (QUIT) and finish(End::by_engine).
  bool ended() const { return phase_ == Phase::over; }
  /// The last words were QUIT: the caller may wait a moment for the answer.
  bool said_quit() const { return said_quit_; }
  /// When the engine stops waiting for proof of a good end of data and believes it: call on_time() then. nullopt:
  /// nothing waits.
  std::optional<SteadyTime> proof_due() const {
    return held_ != 0 && !finished_ && !ended() ? std::optional(proof_due_) : std::nullopt;
  }
  void on_time(SteadyTime now);
  /// The command that the oldest outstanding reply answers; nullopt: no reply is outstanding.
  std::optional<Step> awaiting() const;
  /// True within a reply of several lines. Such lines are no progress, or a peer could send them for ever.
  bool in_reply() const { return parser_.partial(); }
  /// Settles every job; the last event is Ended. Called once.
  void finish(End how, SteadyTime now);

  /// The peer has agreed to STARTTLS. The caller shakes hands and passes on no line that came before; nothing is sent
  /// meanwhile.
  bool handshake_due() const { return phase_ == Phase::tls; }
  /// The handshake is done: the engine forgets what the peer said before and sends EHLO again.
  void tls_started(SteadyTime now);
  /// TLS failed, or the policy does not allow what it gave: the connection ends, and no job has had an effect.
  void tls_failed(mail::DeliveryStatus status);
  bool encrypted() const { return encrypted_ || settings_.wrapped; }

  std::vector<Event> take_events() { return std::exchange(events_, {}); }
  bool has_events() const { return !events_.empty(); }
  const Offers& offers() const { return offers_; }
  /// Errors that the postmaster may want to know: replies out of step, commands (not mail) refused with 500-509 or
  /// 555, and content that could not be read.
  mail::ErrorClasses errors() const { return errors_; }
  /// How many messages and bytes may be on the wire unanswered: pipeline_window_messages and _bytes for a round trip
  /// up to kWindowRoundTrip, proportionally more for a longer one, at most kWindowGrowth times. This keeps a far peer
  /// as busy as a near one, and leaves no more mail in doubt at a near one than needed.
  std::uint32_t window() const;
  std::uint64_t window_bytes() const;
  static constexpr milliseconds kWindowRoundTrip{20};
  static constexpr std::int64_t kWindowGrowth = 8;
  /// How long a good end of data waits for proof that no reply was swallowed. The replies to a group come together,
  /// so the proof is normally there much sooner; a peer that hangs within the group must not keep a delivery
  /// unrecorded.
  static constexpr milliseconds kProofTime{50};
  /// If the first transaction begins later than this after it could have, the connection had been idle.
  static constexpr milliseconds kIdle{1000};
  std::size_t jobs_in_hand() const { return transactions_.size(); }
  bool ready() const { return phase_ == Phase::ready; }

 private:
  enum class Phase : std::uint8_t { greeting, hello, tls, ready, over };
  /// How far a transaction's commands have been sent.
  enum class At : std::uint8_t { queued, xforward, mail, rcpt, data, data_wait, content, sent };

  struct Recipient {
    enum class State : std::uint8_t { pending, accepted, settled } state = State::pending;
    mail::DeliveryStatus status;  // when settled
    bool rest = false;            // beyond RCPTMAX or RCPTDOMAINMAX
  };
  struct Transaction {
    std::uint64_t number = 0;
    const Job* job = nullptr;
    At at = At::queued;
    std::vector<Recipient> recipients;
    std::size_t next_xforward = 0;  // to send
    std::size_t next_rcpt = 0;
    std::size_t owed = 0;        // replies still to come, of any kind
    std::size_t final_owed = 0;  // of them, to end-of-data
    std::size_t accepted = 0;
    std::size_t settled = 0;
    std::size_t accepted_in_vain = 0;  // RCPT commands accepted although MAIL was refused
    bool mail_refused = false;
    bool dot_only = false;  // 354 without recipients: "." alone is owed or was sent
    bool by_421 = false;    // a 421 before end-of-data
    bool uses_bdat = false;
    bool to_seven_bit = false;  // 8-bit content for a peer without 8BITMIME
    bool in_flight = false;
    bool committed = false;
    bool written = false;
    SteadyTime started{};
    std::uint32_t use = 0;
    bool is_probe() const { return mail::is_probe(job->purpose); }
    bool all_settled() const { return settled == recipients.size(); }
  };
  struct Owed {
    Step step;
    std::uint64_t transaction = 0;  // number; 0: none
    std::uint32_t recipient = 0;
    bool ends_probe = false;  // of a RSET: ends the probe before it, not the transaction after it
  };

  bool pipelining() const { return offers_.pipelining && settings_.pipelining; }
  Transaction* find(std::uint64_t number);
  void owe(Step step, Transaction* t = nullptr, std::uint32_t recipient = 0);

  // Sending (engine.cc).
  void hello(Step step);
  void refuse_locally(Transaction& t);
  void mind_limits(Transaction& t);
  bool may_begin(const Transaction& t);
  /// smtp_connection_reuse_count_limit: the connection was used once, and that often again. Or the peer has said how
  /// many messages it takes (LIMITS).
  bool used_up() const {
    return (offers_.mail_max > 0 && begun_ >= offers_.mail_max) ||
           (settings_.reuse_limit > 0 && begun_ > settings_.reuse_limit) || (!settings_.shares && begun_ > 0);
  }
  void begin(Transaction& t, Send& send, SteadyTime now);
  bool send_commands(Transaction& t, std::string& out);
  bool end_probe(Transaction& t, std::string& out);
  void send_content(Transaction& t, Send& send);
  void skip_rest(Transaction& t);

  // Replies (engine_replies.cc).
  void on_reply(const mail::Reply& reply, SteadyTime now);
  void on_hello_reply(const mail::Reply& reply, Step step);
  void become_ready();
  // AUTH (engine_auth.cc).
  bool login_comes_first();
  void on_auth_reply(const mail::Reply& reply);
  /// reply: the peer's refusal; nullptr: we give up ourselves, because of `why`.
  void login_failed(const mail::Reply* reply, std::string_view why);
  void settle_login(bool refused);
  // STARTTLS (engine_tls.cc).
  bool tls_comes_first();
  void on_starttls_reply(const mail::Reply& reply);
  void requiretls_not_offered();
  void tls_not_to_be_had(std::string why, const mail::Reply* reply);
  bool broke_by_tls() const { return starttls_said_ && !opened_; }
  /// True: the connection was lost after a good handshake, before the peer answered any command of a message, and TLS
  /// is optional. The first message must have begun right after the handshake: a peer that closes an idle connection
  /// says nothing about TLS.
  bool lost_in_tls(End how) const;

  void on_mail(Transaction& t, const mail::Reply& reply);
  void on_rcpt(Transaction& t, std::size_t index, const mail::Reply& reply);
  void on_data(Transaction& t, const mail::Reply& reply, SteadyTime now);
  void on_end_of_data(Transaction& t, const Owed& owed, const mail::Reply& reply, SteadyTime now);
  void on_421(const Owed& owed);

  void settle(Transaction& t, std::size_t recipient, const mail::DeliveryStatus& status);
  /// The Ended event of the connection, without its jobs.
  Ended why_ended(End how) const;
  enum class Fate : std::uint8_t {
    answered,   // by the peer
    cut_short,  // by the end of the connection, which gives its recipients their status
    unstarted   // not begun, as far as the peer is concerned: its job is returned
  };
  /// Settles t after the connection ended with that status. culprit_found: another transaction is already held
  /// responsible for the end.
  Fate settle_at_end(Transaction& t, End how, const mail::DeliveryStatus& status, bool out_of_step,
                     bool& culprit_found);
  void settle_rest(Transaction& t, const mail::DeliveryStatus& status);
  void report_settled(SteadyTime now);
  void report(Transaction& t, SteadyTime now, bool cut_short = false, bool own_fault = false);
  mail::DeliveryStatus said(const mail::Reply& reply, std::string_view command, bool treat_552_as_452 = false) const;
  mail::DeliveryStatus success(const mail::Recipient& recipient, const mail::Reply& reply) const;
  mail::DeliveryStatus would_take(const mail::Reply& reply) const;
  mail::DeliveryStatus loss_status(End how, std::string_view doing_what) const;
  void protocol_error(std::string_view what, Step step, const mail::Reply& reply);
  /// Notes a refusal that was for the command rather than for the mail.
  void note_refusal(const mail::Reply& reply);
  void leave(Trouble trouble, mail::DeliveryStatus status);

  Settings settings_;
  Peer peer_;
  Offers offers_;
  mail::ReplyParser parser_;
  Phase phase_ = Phase::greeting;
  std::deque<Transaction> transactions_;  // not yet reported, oldest first; numbers are consecutive
  std::deque<Owed> owed_;
  std::string pending_text_;       // the hello line, STARTTLS, AUTH
  bool pending_response_ = false;  // pending_text_ answers a challenge of AUTH
  std::vector<Event> events_;
  std::uint64_t next_number_ = 1;
  std::uint64_t cursor_ = 1;   // the next transaction to send
  std::uint64_t writing_ = 0;  // transaction with the content that the caller is writing
  std::uint64_t held_ = 0;     // transaction with an accepted end of data that waits for proof that replies are in step
  SteadyTime proof_due_{};     // held_ != 0: until then
  std::uint64_t scaled(std::uint64_t window) const;

  microseconds round_trip_{0};  // 0: not known
  SteadyTime hello_at_{};       // when EHLO could leave
  SteadyTime ready_at_{};       // when the first transaction could have begun
  SteadyTime first_begun_at_{};
  std::uint64_t in_flight_bytes_ = 0;
  std::size_t in_flight_ = 0;  // content sent, final reply owed
  std::uint32_t begun_ = 0;
  std::uint32_t completed_ = 0;   // transactions that ended regularly
  std::size_t probe_resets_ = 0;  // RSET behind a probe, not answered yet
  bool reset_owed_ = false;       // the peer may hold half a transaction: RSET before the next MAIL
  bool closing_ = false;
  bool leaving_ = false;       // the peer said 421: nothing new is begun
  bool last_was_421_ = false;  // the last reply was that 421
  bool said_quit_ = false;
  bool opened_ = false;
  std::unique_ptr<sasl::ClientExchange> exchange_;  // while AUTH is in progress
  unsigned challenges_ = 0;
  bool login_settled_ = false;
  std::optional<mail::DeliveryStatus> not_for_us_;  // the result of every job, because we may not log in
  bool encrypted_ = false;                          // by STARTTLS
  bool mail_answered_ = false;                      // some command of a transaction was answered, well or badly
  bool starttls_said_ = false;                      // and neither declined nor followed by a successful EHLO
  bool misbehaved_ = false;
  mail::ErrorClasses errors_;
  bool finished_ = false;
  Trouble trouble_ = Trouble::none;
  mail::DeliveryStatus trouble_status_;
};

}  // namespace pen::smtp
