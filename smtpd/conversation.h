#pragma once
/// What is said between one client and this server: lines, replies, errors, and whatever each part of a session needs
/// to answer the client. A Session serves by it; the parts that speak to the client in its place have it too.
///
/// Use:     Conversation talk(server, std::move(stream), from);   talk.reply("250 2.0.0 Ok");
///          co_return co_await talk.refuse("501 5.5.4 Syntax: DATA");  co_return co_await talk.answer(response);
///          auto line = co_await talk.stream.read_raw_line(limit, talk.patience(s.smtpd_timeout));
///          if (!line && !talk.still_waits(…)) co_return talk.read_failed(line.error());
/// Replies: are queued in the stream, and leave in one write when the session waits for the next command. One that
///          refuses something is counted, and has its filter (smtpd_reject_filter_maps) and its footer.
/// Memory:  part of every idle session. Coroutines are out of line (session.h says why).
/// Thread:  the loop's. The Server outlives it.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/async/stream.h"
#include "lib/base/metrics/metrics.h"
#include "smtpd/checks.h"
#include "smtpd/client.h"
#include "smtpd/filters.h"
#include "smtpd/response.h"
#include "smtpd/server.h"
#include "smtpd/standing.h"
#include "smtpd/stress.h"
#include "smtpd/transaction.h"
#include "smtpd/watchers.h"

namespace pen::smtpd {

/// Whether the session continues after a step.
enum class Flow : std::uint8_t { go_on, close };

class Conversation {
 public:
  Conversation(Server& server_in, async::Stream stream_in, const async::SocketAddress& from);

  // What the client hears.
  void reply(std::string_view text);
  /// footer: follows if the reply refuses something. filter: smtpd_expansion_filter, for the footer.
  void reply(std::string_view text, std::string_view footer, std::string_view filter);
  /// Lines with their CRLF.
  void write_reply(std::string_view lines);
  /// Counts an error, waits if there were too many, replies. error: its class, for notify_classes.
  [[gnu::noinline]] async::Task<Flow> refuse(std::string_view text,
                                             mail::ErrorClasses error = mail::ErrorClass::protocol);
  async::Task<Flow> refuse(const Verdict& verdict) {
    reason = verdict.reason;
    return refuse(verdict.reply, verdict.error);
  }
  /// Writes the response of a step.
  [[gnu::noinline]] async::Task<Flow> answer(Response response);
  void went_wrong(mail::ErrorClasses error) { watchers.went_wrong(error); }
  /// The last word to a client that was read from in vain.
  Flow read_failed(const Error& error);
  /// The last word to a client that ended a line with LF alone.
  Flow bare_newline();
  [[gnu::noinline]] async::Task<void> say_goodbye();

  // The message under way.
  /// What the lists are asked about, with the transaction under way.
  Subject subject() const { return transaction ? transaction->subject() : Subject(client); }
  /// Asks the lists of a stage.
  [[gnu::noinline]] async::Task<Verdict> ask(Checks::AtStage stage, Subject about);
  void reset_transaction() {
    if (filters) filters->end();
    transaction.reset();
    client.forwarded.reset();  // XFORWARD holds for one message
  }

  // The settings that hold.
  const Policy& policy() const { return *policy_; }
  /// Takes the policy of the moment, which changes with stress. Between messages only.
  void renew_policy() { policy_ = &current(); }
  /// Those of the moment: they change when stress begins or ends.
  const config::Settings& settings() const { return current().settings; }
  /// EHLO keywords that the client is not offered.
  const DiscardedKeywords& discarded() const { return standing.discarded ? *standing.discarded : policy_->discarded; }
  /// Each line is logged from now on, if debug_peer_list has the client.
  async::Task<void> look_whether_to_log() { return watchers.look_whether_to_log(*policies_); }

  // Waits.
  async::Until until() const { return server.until(settings()); }
  /// For a wait for a command that began at waiting_since and may take so long (of settings()).
  async::Until patience(milliseconds limit) const;
  /// The wait ended because stress has begun or is over: it goes on, with another end.
  bool still_waits(const Error& ended, SteadyTime deadline) const;

  // The connection.
  /// The address that the client connected to, by the proxy's word if there is a proxy. nullopt: not known.
  std::optional<async::SocketAddress> own_end() const;
  /// From now on the session counts among those that are served.
  void take_place();

 private:
  std::shared_ptr<const Policy> policies_;  // owns the one for times of stress too
  const Policy* policy_;                    // one of the two

 public:
  Server& server;
  async::Stream stream;
  ClientFacts client;
  Standing standing;                         // of the client
  Watchers watchers;                         // of the client
  std::unique_ptr<SessionFilters> filters;   // nullptr: none for this client
  std::unique_ptr<Transaction> transaction;  // nullptr: none is under way
  std::string last_command = "CONNECT";      // for the log
  const char* aborted = "";                  // why it ended, if not by QUIT
  SteadyTime waiting_since{};                // for a command
  std::uint32_t errors = 0;                  // of the client
  std::optional<metrics::Reason> reason;     // why the next reply refuses; none: protocol
  bool failed = false;                       // the command under way was refused
  bool hangs_up = false;                     // a reply said 421 or 521
  bool under_test = false;                   // the client waits for a place among those that are served

 private:
  /// What the session's client waits for may be short of places: service, or tests. nullptr: nobody looks.
  Stress* strain() const { return under_test ? server.screener->stress.get() : server.stress.get(); }
  const Policy& current() const {
    const Stress* stress = strain();
    return stress && stress->on() && policies_->under_stress ? *policies_->under_stress : *policies_;
  }
  void reply(std::string_view text, std::string_view footer) { reply(text, footer, policy_->expansion_filter); }
  /// What smtpd_reject_filter_maps make of a reply that refuses something.
  [[gnu::noinline]] async::Task<std::string> filter_reply(std::string text);
  /// The text that a look-up found, if it has the form of a refusal; else the text as it is.
  std::string replaced_reply(std::string_view text, const map::Value& found) const;
  /// The footer of a reply that refuses something: smtpd_reject_footer_maps, smtpd_reject_footer.
  [[gnu::noinline]] async::Task<std::string> footer_of(std::string text);

  std::optional<Stress::Taken> place_;  // among the sessions that are served
};

}  // namespace pen::smtpd
