#pragma once
/// One connection of the client: connects, feeds the engine with the peer's lines, and writes what the engine sends.
///
/// Use:     Connection c(loop, host, id, destination, settings);  gate.spawn("connection", c.run());
///          c.submit(work);  c.request_close();  c.check_time() about twice a second
///          Results go to the Host as they come; the last call is closed(), after which the owner destroys it.
/// Writing: commands and inline content are queued in the turn that allows them and leave in one system call; larger
///          content is read and written piece by piece in a coroutine of its own, so that replies are read meanwhile
///          and neither side can block the other.
/// TLS:     by STARTTLS or from the first byte, as the TlsPlan says. Until the peer has proved what its level
///          demands, only EHLO and STARTTLS are sent.
/// Time:    Postfix's time-outs, one for each kind of reply, counted from the last progress in either direction: a
///          whole reply, or bytes that the peer took. With smtp_per_request_deadline the content has one deadline as
///          a whole.
/// End:     the destructor closes the socket at once and drops unsent output (qmgr has gone, nobody would get the
///          result).
#include <memory>
#include <string>
#include <unordered_map>

#include "lib/base/async/stream.h"
#include "lib/base/async/sync.h"
#include "lib/mail/transcript.h"
#include "lib/suite/events/emitter.h"
#include "lib/suite/ipc/content.h"
#include "lib/suite/ipc/delivery.h"
#include "lib/suite/ipc/stage_page.h"
#include "lib/suite/ipc/tls_report.h"
#include "lib/suite/trace/dialogue.h"
#include "smtp/engine.h"

namespace pen::tls {
struct SessionInfo;  // lib/net/tls/session.h
}

namespace pen::mail {
class DataForm;  // lib/mail/data_form.h
}

namespace pen::smtp {

class RewrittenContent;  // smtp/rewritten.h
struct TlsPlan;          // lib/meaning/smtp/tls.h

/// How TLS went with a new connection, for reports (RFC 8460 section 4.3).
struct TlsOutcome {
  ipc::tls_report::ResultType result = ipc::tls_report::ResultType::success;
  std::string reason;    // of a failure, for the report
  bool resumed = false;  // an earlier session was resumed: nothing was proved anew
};

/// A job with what it owns.
struct Work {
  Job job;  // without inline body
  ipc::Content content;
  WallTime handed{};
  // The recipients' addresses for the log, if generic maps have changed those of the job.
  std::vector<mail::Recipient> given = {};
  // The sender is null or double_bounce, before generic maps: errors with this message cause no notice.
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
    /// The last call: c reports nothing more.
    virtual void closed(Connection& c, const Ended& ended) = 0;
    virtual ipc::StagePage& stages() = 0;
    /// The readers of connections' dialogues; nullptr: there are none.
    virtual trace::Hub* trace() { return nullptr; }
  };

  /// tls: nullptr where settings.starttls and wrapped ask for none. through: the source, if there is one.
  Connection(async::Loop& loop, Host& host, std::uint64_t id, ipc::Destination destination, const Settings& settings,
             std::unique_ptr<TlsPlan> tls, ipc::delivery::Through through = {});
  ~Connection();

  /// Runs until the connection ends. The Connection must outlive the task.
  async::Task<void> run();
  /// Sets the credentials. Call it before run().
  void set_login(std::shared_ptr<const Login> login) { engine_.set_login(std::move(login)); }
  /// Ends a connection that cannot even be tried. Call it instead of run().
  void give_up(mail::DeliveryStatus status);
  void submit(std::shared_ptr<Work> work);
  void request_close();
  /// Ends a connection if its peer has been silent for too long.
  void check_time();

  std::uint64_t id() const { return id_; }
  bool encrypted() const { return engine_.encrypted(); }
  /// How the handshake went; nullopt: there was none.
  const std::optional<TlsOutcome>& tls_outcome() const { return tls_outcome_; }
  /// Of its TLS session, for events. protocol empty: clear text.
  struct TlsFacts {
    std::string protocol, cipher;
    bool trusted = false;
  };
  const TlsFacts& tls_facts() const { return tls_facts_; }
  /// What both sides said; nullptr: no class of notify_classes asks for it.
  const mail::Transcript* transcript() const { return transcript_.get(); }
  /// Errors so far, of any class.
  mail::ErrorClasses errors() const;
  /// True: the connection was given notices, finished or not. Reporting its errors to the postmaster could loop for
  /// ever.
  bool carried_notices() const { return carried_notices_; }
  /// The source that it comes from; empty: none.
  const std::string& source() const { return through_.source; }
  /// Our numeric address on this connection, or that of the source's proxy; empty: none, or not known.
  const std::string& own_address() const;
  const ipc::Destination& destination() const { return destination_; }
  /// What it is called in events and by pentrace.
  const std::string& session() const { return session_; }
  std::size_t jobs_in_hand() const { return works_.size(); }
  WallTime connect_begun() const { return connect_begun_; }
  WallTime opened_at() const { return opened_at_; }
  /// For closed(): QUIT was said, and the socket stays open until the peer answers or its time for that is over.
  bool lingers() const { return lingers_; }

 private:
  /// The dialogue for pentrace; nullptr: nobody follows any.
  trace::Dialogue* traced() {
    auto* const hub = host_.trace();
    if (hub == nullptr || !hub->on()) return nullptr;
    return trace_ && !trace_->stale() ? trace_.get() : &begin_trace(*hub);
  }
  trace::Dialogue& begin_trace(trace::Hub& hub);
  void trace_sent(const Send& send);
  void trace_handshake(const Result<tls::SessionInfo>& info);
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
  /// Logs that lines were broken.
  void tell_broken(const Work& work, const mail::DataForm& data) const;
  void take_lines();
  void handle_events();
  void salvage_lines();
  milliseconds timeout_of(Step step) const;
  /// Fills stream_, or reports the failure of the host. False: there is no connection.
  async::Task<bool> connect();
  Ended connect_failure(const Error& error);
  Ended unreached(Trouble trouble, std::string text);
  void take_back(Ended& ended);

  async::Loop& loop_;
  Host& host_;
  std::uint64_t id_;
  ipc::Destination destination_;
  ipc::delivery::Through through_;
  Settings settings_;
  Engine engine_;
  std::unique_ptr<TlsPlan> tls_;
  std::optional<TlsOutcome> tls_outcome_;
  TlsFacts tls_facts_;
  std::unique_ptr<mail::Transcript> transcript_;
  mutable std::string own_address_;         // empty: nobody has asked yet
  std::unique_ptr<trace::Dialogue> trace_;  // nullptr: nobody has followed connections since it began
  bool begun_ = false;                      // something was said, or is about to be
  mail::ErrorClasses errors_;               // those that the engine does not know of
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
  std::string session_ = events::session_text(events::next_session());
  WallTime connect_begun_{}, opened_at_{};
  SteadyTime connect_start_{};
  microseconds connect_time_{0};
  async::Gate gate_;  // last: the writer dies before what it uses
};

/// The words for a connection that could not be made: "connect to host[addr]:port: Connection refused".
std::string connect_failure_text(const ipc::Destination& destination, const Error& error);

}  // namespace pen::smtp
