#pragma once
/// One connection of the client: connects, feeds the engine with the peer's lines, writes what the engine says.
///
/// Use:     Connection c(loop, host, id, destination, settings);  gate.spawn("connection", c.run());
///          c.submit(work);  c.request_close();  c.check_time() about twice a second
///          Results go to the Host as they come; the last call is closed(), after which the owner destroys it.
/// Writing: commands and inline content are queued in the turn that allows them and leave in one system call; larger
///          content is read and written piece by piece in a coroutine of its own, so that replies are read meanwhile
///          and neither side can block the other.
/// TLS:     by STARTTLS or from the first byte, as its plan says. Before the peer has shown what its level demands
///          nothing but EHLO and STARTTLS is sent.
/// Time:    Postfix's time-outs by what is awaited, counted from the last progress in either direction: a whole
///          reply, or bytes that the peer took. With smtp_per_request_deadline content has a deadline as a whole.
/// End:     destroying it closes the socket at once: what was not sent stays unsent (qmgr has gone, nobody hears the
///          result).
#include <memory>
#include <string>
#include <unordered_map>

#include "lib/async/stream.h"
#include "lib/async/sync.h"
#include "lib/ipc/content.h"
#include "lib/ipc/delivery.h"
#include "lib/ipc/stage_page.h"
#include "lib/ipc/tls_report.h"
#include "lib/mail/transcript.h"
#include "smtp/engine.h"

namespace pen::smtp {

class RewrittenContent;  // smtp/rewritten.h
struct TlsPlan;          // lib/smtp/tls.h

/// How TLS went with a new connection, for reports (RFC 8460 section 4.3).
struct TlsOutcome {
  ipc::tls_report::ResultType result = ipc::tls_report::ResultType::success;
  std::string reason;    // of a failure, for people
  bool resumed = false;  // a session begun before: nothing was proved anew
};

/// A job with what it owns.
struct Work {
  Job job;  // without inline body
  ipc::Content content;
  WallTime handed{};
  // the recipients' addresses for the log, where generic maps have changed the job's
  std::vector<mail::Recipient> given = {};
  // From the null sender or double_bounce, as qmgr gave it, before generic maps: what goes wrong with it makes no
  // notice.
  bool notice = false;
};

class Connection {
 public:
  class Host {
   public:
    virtual ~Host() = default;
    virtual void opened(Connection& c, const Opened& opened, microseconds connect_time, microseconds round_trip) = 0;
    /// The work is forgotten after the call.
    virtual void done(Connection& c, const Work& work, const JobDone& done) = 0;
    /// Last: nothing more comes from c.
    virtual void closed(Connection& c, const Ended& ended) = 0;
    virtual ipc::StagePage& stages() = 0;
  };

  /// tls: nullptr where settings.starttls and wrapped ask for none.
  Connection(async::Loop& loop, Host& host, std::uint64_t id, ipc::Destination destination, const Settings& settings,
             std::unique_ptr<TlsPlan> tls);
  ~Connection();

  /// To the end of the connection. The Connection must outlive the task.
  async::Task<void> run();
  /// Before run(): what to log in with.
  void set_login(std::shared_ptr<const Login> login) { engine_.set_login(std::move(login)); }
  /// Instead of run(): it cannot even be tried.
  void give_up(mail::DeliveryStatus status);
  void submit(std::shared_ptr<Work> work);
  void request_close();
  /// Ends a connection whose peer has been silent for too long.
  void check_time();

  std::uint64_t id() const { return id_; }
  bool encrypted() const { return engine_.encrypted(); }
  /// What the handshake said; nullopt: it did not come to one.
  const std::optional<TlsOutcome>& tls_outcome() const { return tls_outcome_; }
  /// What was said; nullptr: no class of notify_classes asks for it.
  const mail::Transcript* transcript() const { return transcript_.get(); }
  /// Errors so far, of any class.
  mail::ErrorClasses errors() const;
  /// It was given notices, begun or not: telling of its errors could go on for ever.
  bool carried_notices() const { return carried_notices_; }
  /// Our end's numeric address; empty: none, or not known.
  std::string own_address() const;
  const ipc::Destination& destination() const { return destination_; }
  std::size_t jobs_in_hand() const { return works_.size(); }
  WallTime connect_begun() const { return connect_begun_; }
  WallTime opened_at() const { return opened_at_; }
  /// In closed(): QUIT was said, and the socket stays open until the peer has answered, or has had its time for that.
  bool lingers() const { return lingers_; }

 private:
  void on_line(std::string_view line, SteadyTime now);
  void take_line(std::string_view line);  // in time
  async::Task<void> writer();
  async::Task<void> start_tls();
  async::Task<Result<void>> write_content(Work& work, Form form);
  async::Task<void> feed_in_turns(RewrittenContent& rules, std::string_view content, std::string& out);
  /// Of the next part of content, with which so many bytes are sent.
  SteadyTime content_deadline(SteadyTime begun, std::uint64_t sent) const;
  void pump();
  /// Until no delivery waits for proof: believes in time what has none.
  async::Task<void> watch_proof();
  void write_inline(Work& work, Form form);
  void take_lines();
  void handle_events();
  void salvage_lines();
  milliseconds timeout_of(Step step) const;
  Ended connect_failure(const Error& error);
  void take_back(Ended& ended);

  async::Loop& loop_;
  Host& host_;
  std::uint64_t id_;
  ipc::Destination destination_;
  Settings settings_;
  Engine engine_;
  std::unique_ptr<TlsPlan> tls_;
  std::optional<TlsOutcome> tls_outcome_;
  std::unique_ptr<mail::Transcript> transcript_;
  mail::ErrorClasses errors_;  // those that the engine does not know of
  bool carried_notices_ = false;
  std::optional<async::Stream> stream_;
  async::Cancel cancel_;
  async::Event wake_;
  std::unordered_map<const Job*, std::shared_ptr<Work>> works_;
  std::shared_ptr<Work> writing_;
  Form writing_form_ = Form::none;
  bool writer_busy_ = false;
  bool watches_proof_ = false;
  bool lingers_ = false;
  bool given_up_ = false;  // closed on request before it was open
  std::optional<End> end_;
  SteadyTime progress_{};
  WallTime connect_begun_{}, opened_at_{};
  SteadyTime connect_start_{};
  microseconds connect_time_{0};
  async::Gate gate_;  // last: the writer dies before what it uses
};

/// The words for a connection that could not be made: "connect to host[addr]:port: Connection refused".
std::string connect_failure_text(const ipc::Destination& destination, const Error& error);

}  // namespace pen::smtp
