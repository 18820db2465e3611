#pragma once
/// The deliveries of one conversation with qmgr: its connections, their jobs, the log lines and the answers.
///
/// Use:     delivery::Conversation qmgr(std::move(channel));
///          Deliveries deliveries(loop, settings, qmgr);
///          co_return co_await delivery::converse(qmgr, deliveries, draining);
///          Destroying it closes every connection at once: what was not ended by end-of-data has no effect.
/// Rules:   peers that misbehave when they get groups of commands are reported to qmgr, which keeps them in its
///          destination database, and get one command at a time. Here too (at most kMaxMisbehaved, for
///          kMisbehaved): for connections that were ordered before qmgr heard of it. The same holds for peers with
///          broken TLS, where the TLS level is may: they get clear text. Errors with a host are reported to the
///          postmaster once an hour at most, or after a connection that went well, and never of a connection
///          that was given notices (smtp/told_lately.h).
/// Errors:  open(), close() and take() fail when qmgr breaks the conversation (a number used twice, a job that cannot
///          be).
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>

#include "lib/send/delivery/conversation.h"
#include "lib/suite/ipc/session_errors.h"
#include "smtp/connection.h"
#include "smtp/told_lately.h"

namespace pen::shaping {
class Rules;
}

namespace pen::ipc {
class TlsReports;  // lib/suite/ipc/tls_reports.h
}

namespace pen::smtp {

class Logins;
class ClientTls;  // lib/meaning/smtp/tls.h

class Deliveries final : public Connection::Host {
 public:
  static constexpr std::size_t kMaxConnections = 20000;
  static constexpr std::size_t kMaxMisbehaved = 1000;
  static constexpr std::chrono::minutes kMisbehaved{10};

  /// qmgr hears the answers. tls: the process's; nullptr: TLS cannot be done, and mail that demands it is not sent.
  /// Both outlive this object. logins: nullptr: nobody logs in.
  Deliveries(async::Loop& loop, Settings settings, delivery::Conversation& qmgr, ClientTls* tls = nullptr,
             std::shared_ptr<Logins> logins = nullptr);
  /// Results of TLS are reported to it from now on. skip_resumed: not of sessions begun before.
  void report_tls(std::shared_ptr<ipc::TlsReports> reports, bool skip_resumed);
  /// Where connections with errors are reported that notify_classes names.
  void tell_postmaster(std::function<void(ipc::session_errors::Session)> tell) { tell_postmaster_ = std::move(tell); }
  /// What a refusal complains of; nullptr: they are taken for what they seem to be.
  void know_complaints(std::shared_ptr<const shaping::Rules> rules) { complaints_ = std::move(rules); }
  /// The readers of connections' dialogues from now on.
  void trace_to(std::shared_ptr<trace::Hub> hub) { trace_ = std::move(hub); }
  ~Deliveries() override;

  // --- what converse() calls ---
  Result<void> open(ipc::delivery::OpenConnection message);
  Result<void> close(ipc::delivery::CloseConnection message);
  Result<void> take(ipc::delivery::Job job, std::span<Fd> fds);
  /// Every connection ends after the jobs in hand, and new ones are turned away: another process takes over.
  void drain();
  bool idle() const { return connections_.empty(); }

  std::size_t connections() const { return connections_.size(); }
  /// One line per connection: where it goes, jobs in hand.
  std::vector<std::string> status() const;

 private:
  struct Entry {
    std::unique_ptr<Connection> connection;
    std::string policy_domain;  // the domain that gets a report on it; empty: none, or it was reported
    bool closed = false;        // reported; the task may still say goodbye
    bool failed = false;        // something was wrong here with a job of it
  };

  void opened(Connection& c, const Opened& opened, microseconds setup, microseconds round_trip) override;
  void done(Connection& c, const Work& work, const JobDone& done) override;
  void closed(Connection& c, const Ended& ended) override;
  ipc::StagePage& stages() override { return qmgr_.stages(); }
  trace::Hub* trace() override { return trace_.get(); }

  /// The settings for a connection: those of the destination are among them.
  Settings settings_for(const ipc::delivery::OpenConnection& message);
  /// tls: why the connection's TLS cannot be had; nullptr: it can.
  void turn_away(const ipc::delivery::OpenConnection& message, const Error* tls);
  void forget(std::uint64_t id);
  /// What the destination's TLS level asks for; settings: of the connection. Error: it cannot be given.
  Result<std::unique_ptr<TlsPlan>> plan_tls(const ipc::delivery::OpenConnection& message, Settings& settings);
  void tell_tls(const Connection& c, const Ended* ended);
  /// Unless it was reported lately. transcript: nullptr: nothing was said.
  void tell_errors(const ipc::Destination& to, mail::ErrorClasses errors, const mail::Transcript* transcript,
                   const std::string& reason);
  void note_broken_tls(const Connection& c, const Ended& ended);
  void put_back(Connection& c, const Work& work);
  bool is_put_off(const Job& job, const mail::Recipient& recipient, const mail::DeliveryStatus& status) const;
  static bool may_go_on(const Job& job, const JobDone& done, const mail::DeliveryStatus& status);
  /// As smtp_delivery_status_filter has it. may_give_up: no other host can be asked.
  void filter(mail::DeliveryStatus& status, std::string_view about, bool may_give_up) const;
  async::Task<void> run(std::uint64_t id);
  async::Task<void> watch_time();

  async::Loop& loop_;
  Settings settings_;
  delivery::Conversation& qmgr_;
  ClientTls* tls_;
  std::shared_ptr<Logins> logins_;
  std::shared_ptr<ipc::TlsReports> reports_;
  bool skip_resumed_ = false;
  std::function<void(ipc::session_errors::Session)> tell_postmaster_;
  std::shared_ptr<trace::Hub> trace_;  // outlives the connections
  ToldLately told_lately_;
  std::shared_ptr<const shaping::Rules> complaints_;
  bool draining_ = false;
  std::unordered_map<std::uint64_t, Entry> connections_;
  std::map<std::string, SteadyTime> misbehaved_;  // key of the destination, until when
  std::map<std::string, SteadyTime> broken_tls_;  // the same, for clear text where TLS may be left out
  async::Gate gate_;                              // last: the tasks die before what they use
};

}  // namespace pen::smtp
