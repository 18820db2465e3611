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
/// Parts:   Handshake, what is said before the first message; Pipeline, the messages; Ending, why it is over. The
///          engine gives each reply to whichever of the two it is for.
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
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"
#include "lib/mail/reply.h"
#include "smtp/handshake.h"
#include "smtp/pipeline.h"

namespace pen::smtp {

class Engine {
 public:
  Engine(const Settings& settings, Peer peer);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Credentials for AUTH, before the first line. None: the connection does not log in.
  void set_login(std::shared_ptr<const Login> login) { settings_.login = std::move(login); }

  /// What one round trip to the peer takes, by the handshake; before the first line. The reply to EHLO corrects it
  /// upwards, replies to MAIL downwards.
  void set_round_trip(microseconds round_trip) { pipeline_.set_round_trip(round_trip); }
  /// Any time before ended(); jobs are done in the order of submission.
  void submit(const Job* job, SteadyTime now);
  /// Finish the jobs in hand, then QUIT.
  void request_close() { pipeline_.request_close(); }

  void on_line(std::string_view line, SteadyTime now);
  /// What may be written now. After a Send with a job: no other until content_written().
  std::optional<Send> next_send(SteadyTime now);
  void mark_committed() { pipeline_.mark_committed(); }
  void content_written() { pipeline_.content_written(); }

  /// Nothing more is to be done with the peer: flush what was sent (QUIT) and finish(End::by_engine).
  bool ended() const { return ending_.over; }
  /// The last words were QUIT: the caller may wait a moment for the answer.
  bool said_quit() const { return pipeline_.said_quit(); }
  /// When the engine stops waiting for proof of a good end of data and believes it: call on_time() then. nullopt:
  /// nothing waits.
  std::optional<SteadyTime> proof_due() const { return ended() ? std::nullopt : pipeline_.proof_due(); }
  void on_time(SteadyTime now);
  /// The command that the oldest outstanding reply answers; nullopt: no reply is outstanding.
  std::optional<Step> awaiting() const;
  /// True within a reply of several lines. Such lines are no progress, or a peer could send them for ever.
  bool in_reply() const { return parser_.partial(); }
  /// Settles every job; the last event is Ended. Called once.
  void finish(End how, SteadyTime now);

  /// The peer has agreed to STARTTLS. The caller shakes hands and passes on no line that came before; nothing is sent
  /// meanwhile.
  bool handshake_due() const { return handshake_.tls_due() && !ended(); }
  /// The handshake is done: the engine forgets what the peer said before and sends EHLO again.
  void tls_started(SteadyTime now);
  /// TLS failed, or the policy does not allow what it gave: the connection ends, and no job has had an effect.
  void tls_failed(mail::DeliveryStatus status) { ending_.leave(Trouble::tls, std::move(status)); }
  bool encrypted() const { return handshake_.encrypted(); }

  std::vector<Event> take_events() { return pipeline_.take_events(); }
  bool has_events() const { return pipeline_.has_events(); }
  const Offers& offers() const { return handshake_.offers(); }
  /// Errors that the postmaster may want to know.
  mail::ErrorClasses errors() const { return ending_.errors; }
  /// How many messages and bytes may be on the wire unanswered: pipeline_window_messages and _bytes for a round trip
  /// up to kWindowRoundTrip, proportionally more for a longer one, at most kWindowGrowth times. This keeps a far peer
  /// as busy as a near one, and leaves no more mail in doubt at a near one than needed.
  std::uint32_t window() const { return pipeline_.window(); }
  std::uint64_t window_bytes() const { return pipeline_.window_bytes(); }
  static constexpr milliseconds kWindowRoundTrip = Pipeline::kWindowRoundTrip;
  static constexpr std::int64_t kWindowGrowth = Pipeline::kWindowGrowth;
  /// How long a good end of data waits for proof that no reply was swallowed. The replies to a group come together,
  /// so the proof is normally there much sooner; a peer that hangs within the group must not keep a delivery
  /// unrecorded.
  static constexpr milliseconds kProofTime = Pipeline::kProofTime;
  /// If the first transaction begins later than this after it could have, the connection had been idle.
  static constexpr milliseconds kIdle = Pipeline::kIdle;
  std::size_t jobs_in_hand() const { return pipeline_.jobs_in_hand(); }
  bool ready() const { return handshake_.done() && !ended(); }

 private:
  void on_handshake_reply(const mail::Reply& reply, SteadyTime now);

  Settings settings_;
  Peer peer_;
  Ending ending_;
  mail::ReplyParser parser_;
  Handshake handshake_;
  Pipeline pipeline_;
  SteadyTime hello_at_{};  // when EHLO could leave
  bool finished_ = false;
};

}  // namespace pen::smtp
