#pragma once
/// The messages of one connection: commands and content sent ahead, replies matched in order to what was sent, and what
/// each reply, or its absence, means for which message (the table of docs/pipelining.md). No I/O.
///
/// Use:     Pipeline pipeline(settings, peer, ending);
///          pipeline.submit(job, now);                    // from the beginning on
///          pipeline.open({offers, …}, now);              // the handshake is done
///          pipeline.on_reply(reply, now);
///          while (auto send = pipeline.next_send(now)) …  // as Engine
///          pipeline.finish(how, in_handshake, now);
/// Results: each job ends in exactly one JobDone or in Ended::unstarted ("had no effect at the peer").
/// Owns:    nothing of what it is given: settings, peer, ending and jobs outlive it.
/// Source:  RFC 5321, 2920, 3030, 2033, 1870, 6152, 6531, 3461, 9422.
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lib/meaning/smtp/settings.h"
#include "smtp/ending.h"
#include "smtp/transaction.h"
#include "smtp/wire.h"

namespace pen::smtp {

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
struct Ended {
  bool opened = false;  // whether Opened was reported before
  Trouble trouble = Trouble::none;
  mail::DeliveryStatus status;
  std::vector<const Job*> unstarted;
  // replies did not fit what was sent: do not pipeline with this peer for a while
  bool misbehaved = false;
};
using Event = std::variant<Opened, JobDone, Ended>;

class Pipeline {
 public:
  Pipeline(const Settings& settings, const Peer& peer, Ending& ending);

  /// Any time before the end; jobs are done in the order of submission.
  void submit(const Job* job, SteadyTime now);
  /// Finish the jobs in hand, then QUIT.
  void request_close() { closing_ = true; }

  /// What the handshake found.
  struct Found {
    const Offers& offers;
    std::optional<mail::DeliveryStatus> refusal;  // the result of every job
    bool optional_tls = false;                    // TLS is on, and could have been left out
  };
  void open(const Found& found, SteadyTime now);
  void on_reply(const mail::Reply& reply, SteadyTime now);
  /// As Engine::next_send().
  std::optional<Send> next_send(SteadyTime now);
  void mark_committed();
  void content_written();
  /// Reports what is settled and needs no further proof.
  void report_settled(SteadyTime now);
  std::optional<SteadyTime> proof_due() const { return held_ != 0 ? std::optional(proof_due_) : std::nullopt; }
  void on_time(SteadyTime now);

  /// What the oldest outstanding reply answers; nullopt: no reply is outstanding.
  std::optional<Step> awaiting() const;
  /// Settles every job; the last event is Ended. Once. in_handshake: what was awaited there.
  void finish(End how, std::optional<Step> in_handshake, SteadyTime now);

  std::vector<Event> take_events() { return std::exchange(events_, {}); }
  bool has_events() const { return !events_.empty(); }
  bool said_quit() const { return said_quit_; }
  std::size_t jobs_in_hand() const { return transactions_.size(); }

  /// What one round trip to the peer takes.
  void set_round_trip(microseconds round_trip) { round_trip_ = round_trip; }
  void round_trip_at_least(microseconds round_trip) { round_trip_ = std::max(round_trip_, round_trip); }
  /// As Engine says of its own.
  std::uint32_t window() const;
  std::uint64_t window_bytes() const { return scaled(settings_.window_bytes); }
  static constexpr milliseconds kWindowRoundTrip{20};
  static constexpr std::int64_t kWindowGrowth = 8;
  static constexpr milliseconds kProofTime{50};
  static constexpr milliseconds kIdle{1000};

 private:
  using At = Transaction::At;
  using Recipient = Transaction::Recipient;
  struct Owed {
    Step step;
    std::uint64_t transaction = 0;  // number; 0: none
    std::uint32_t recipient = 0;
    bool ends_probe = false;  // of a RSET: ends the probe before it, not the transaction after it
  };

  bool pipelining() const { return offers_.pipelining && settings_.pipelining; }
  std::uint64_t scaled(std::uint64_t window) const;
  Transaction* find(std::uint64_t number);
  void owe(Step step, Transaction& t, std::uint32_t recipient = 0);

  // Sending (pipeline.cc).
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

  // Replies (pipeline_replies.cc).
  void on_reset(const Owed& owed, const mail::Reply& reply);
  void on_answer(const Owed& owed, const mail::Reply& reply, SteadyTime now);
  void on_mail(Transaction& t, const mail::Reply& reply);
  void on_rcpt(Transaction& t, std::size_t index, const mail::Reply& reply);
  void on_data(Transaction& t, const mail::Reply& reply, SteadyTime now);
  void on_end_of_data(Transaction& t, const Owed& owed, const mail::Reply& reply, SteadyTime now);
  void on_421(const Owed& owed);
  void protocol_error(std::string_view what, Step step, const mail::Reply& reply) {
    ending_.protocol_error(peer_, what, step, reply, pipelining());
  }
  mail::DeliveryStatus success(const mail::Recipient& recipient, const mail::Reply& reply) const;

  // The end (pipeline_end.cc).
  /// The Ended event of the connection, without its jobs.
  Ended why_ended(End how, Step step) const;
  /// The connection was lost after a good handshake, before the peer answered any command of a message, and TLS is
  /// optional. The first message must have begun right after the handshake: a peer that closes an idle connection says
  /// nothing about TLS.
  bool lost_in_tls(End how) const;
  enum class Fate : std::uint8_t {
    answered,   // by the peer
    cut_short,  // by the end of the connection, which gives its recipients their status
    unstarted   // not begun, as far as the peer is concerned: its job is returned
  };
  /// Settles t after the connection ended with that status. culprit_found: another transaction is already held
  /// responsible for the end.
  Fate settle_at_end(Transaction& t, End how, const mail::DeliveryStatus& status, bool out_of_step,
                     bool& culprit_found);

  const Settings& settings_;
  const Peer& peer_;
  Ending& ending_;
  Offers offers_;
  std::optional<mail::DeliveryStatus> refusal_;
  bool opened_ = false;
  bool optional_tls_ = false;

  std::deque<Transaction> transactions_;  // not yet reported, oldest first; numbers are consecutive
  std::deque<Owed> owed_;
  std::vector<Event> events_;
  std::uint64_t next_number_ = 1;
  std::uint64_t cursor_ = 1;   // the next transaction to send
  std::uint64_t writing_ = 0;  // transaction with the content that the caller is writing
  std::uint64_t held_ = 0;     // transaction with an accepted end of data that waits for proof that replies are in step
  SteadyTime proof_due_{};     // held_ != 0: until then

  microseconds round_trip_{0};  // 0: not known
  SteadyTime ready_at_{};       // when the first transaction could have begun
  SteadyTime first_begun_at_{};
  std::uint64_t in_flight_bytes_ = 0;
  std::size_t in_flight_ = 0;  // content sent, final reply owed
  std::uint32_t begun_ = 0;
  std::uint32_t completed_ = 0;   // transactions that ended regularly
  std::size_t probe_resets_ = 0;  // RSET behind a probe, not answered yet
  bool reset_owed_ = false;       // the peer may hold half a transaction: RSET before the next MAIL
  bool mail_answered_ = false;    // some command of a transaction was answered, well or badly
  bool closing_ = false;
  bool leaving_ = false;  // the peer said 421: nothing new is begun
  bool said_quit_ = false;
};

}  // namespace pen::smtp
