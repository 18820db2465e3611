#pragma once
/// What all SMTP sessions of one process share.
///
/// Use:     Server server(loop, pool, names, intake); server.set_policy(policy);
///          gate.spawn("session", Session::serve(server, std::move(stream), peer, std::move(slot)));
///          server.stop() at shutdown: sessions that wait for a command get 421; those handing over a message finish.
/// Thread:  the loop's.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/stream.h"
#include "lib/base/async/sync.h"
#include "lib/base/log.h"
#include "lib/meaning/smtpd/policy.h"
#include "lib/meaning/smtpd/tls.h"
#include "lib/net/dnsbl/lookup.h"
#include "lib/receive/intake/intake.h"
#include "lib/receive/milter/client.h"
#include "lib/suite/ipc/dmarc_report.h"
#include "lib/suite/ipc/session_errors.h"
#include "lib/suite/sessions/client_counts.h"
#include "lib/suite/sessions/holder.h"
#include "lib/suite/sessions/sender_memory.h"
#include "lib/suite/suppression/client.h"
#include "lib/suite/trace/hub.h"
#include "lib/trust/sasl/authenticator.h"
#include "smtpd/names.h"
#include "smtpd/policy_servers.h"
#include "smtpd/proxy.h"
#include "smtpd/queue_space.h"
#include "smtpd/screener.h"
#include "smtpd/site_flush.h"
#include "smtpd/stress.h"
#include "smtpd/verifier.h"

namespace pen::smtpd {

struct CheckTools;

class Server {
 public:
  Server(async::Loop& loop_in, async::HandlerPool& pool_in, Names& names_in, intake::Intake& intake_in)
      : loop(loop_in),
        pool(pool_in),
        scans(loop_in, kScans),
        names(names_in),
        policies(loop_in, names_in),
        intake(intake_in),
        milter_tools{.loop = loop_in,
                     .find_host = [this](std::string host, async::Until until) { return find_host(host, until); },
                     .warn = log::as_warning},
        lists(
            loop_in,
            [this](std::string name, net::RecordType type, async::Until until) {
              return names.records(std::move(name), type, until);
            },
            log::as_warning),
        authentications(loop_in, kQuestions) {}

  void set_policy(std::shared_ptr<const Policy> policy) { policy_ = std::move(policy); }
  const std::shared_ptr<const Policy>& policy() const { return policy_; }

  /// Sessions get 421 at their next command.
  void stop() {
    stopping_.raise();
    if (stress) stress->wake();
    if (screener) screener->stop();
  }
  bool stopping() const { return stopping_.raised(); }
  async::Cancel& stop_cancel() { return stopping_; }
  /// For one wait for the client, or in its name.
  async::Until until(const config::Settings& s) {
    return {.deadline = loop.now() + s.smtpd_timeout, .cancel = &stopping_};
  }

  /// What evaluations of restriction lists share.
  CheckTools check_tools();

  async::Loop& loop;
  async::HandlerPool& pool;  // for files
  async::HandlerPool scans;  // for slow content checks, so that files need not wait for them
  static constexpr std::size_t kScans = 2;
  Names& names;
  PolicyServers policies;
  intake::Intake& intake;
  /// For filters (milters): how their hosts are found, and what is known of their endpoints.
  milter::Tools milter_tools;
  milter::Endpoints milters;
  /// DNS lists, for all sessions.
  dnsbl::Lookup lists;
  /// Permits for the questions of SPF, DKIM and DMARC: domains with silent servers must not take all that the
  /// resolver has (1000).
  async::Semaphore authentications;
  static constexpr std::size_t kQuestions = 400;
  /// The name in master.cf, for the log and the counts of clients.
  std::string service = "smtp";
  /// For the smtpd_client_*_limit settings; none: no client is limited.
  std::shared_ptr<sessions::ClientCounts> clients;
  /// For check_greylist; none: it puts nobody off.
  std::shared_ptr<sessions::SenderMemory> sender_memory;
  /// For reject_unverified_*; none: nothing can be verified.
  std::shared_ptr<Verifier> verifier;
  /// For suppression_list; none: it stops no mail.
  std::shared_ptr<suppression::List> suppression;
  /// For reports on DMARC; none: nothing is reported.
  std::function<void(ipc::dmarc_report::Result)> report_dmarc;
  /// For a port of postscreen; none: clients are served at once.
  std::shared_ptr<Screener> screener;
  /// Whether the places for sessions that are served are all taken; none: nobody asks.
  std::unique_ptr<Stress> stress;
  /// For AUTH; none: it is not enabled.
  std::shared_ptr<sasl::Authenticator> authenticator;
  /// For STARTTLS; none: level none, or a test without.
  std::shared_ptr<ServerTls> tls;
  /// The readers of sessions' dialogues; none: a test without.
  std::shared_ptr<trace::Hub> trace;
  /// For ETRN; none: a test without.
  std::shared_ptr<SiteFlush> site_flush;
  /// For queue_minfree; none: it is not set.
  std::optional<QueueSpace> queue_space;
  /// For session_classes; none: no session belongs to a class.
  std::shared_ptr<sessions::Holder> classes;

  /// Takes the transcripts of sessions with errors that notify_classes names. Empty: no transcripts are wanted.
  std::function<void(ipc::session_errors::Session)> tell_postmaster;

  /// Our ends of the connections to before-queue filters: a client that is one of them is a mail loop.
  std::shared_ptr<ProxyEnds> proxy_ends = std::make_shared<ProxyEnds>();

  struct Counts {
    std::uint64_t sessions = 0, messages = 0, refused = 0, tls_sessions = 0, tls_resumed = 0, failed_handshakes = 0;
    std::size_t live = 0;
  };
  Counts counts;
  /// How many transactions there were: the number of the last one.
  std::uint64_t transactions = 0;

  /// Counts the RCPT commands, of all sessions together, that are judged before their turn: each takes some kilobytes
  /// while its look-ups run.
  class Judged {
   public:
    static constexpr std::size_t kMost = 10'000;
    explicit Judged(Server& server) : server_(server) {}
    ~Judged() { server_.judged_ -= mine_; }
    Judged(const Judged&) = delete;
    Judged& operator=(const Judged&) = delete;
    /// False: there are too many, the command must wait for its turn.
    bool one_more() {
      if (server_.judged_ >= kMost) return false;
      ++server_.judged_;
      ++mine_;
      return true;
    }

   private:
    Server& server_;
    std::size_t mine_ = 0;
  };
  /// Logs, at most once a minute, that recipients are put off because memory is short.
  void tell_short_memory(const std::string& client);

 private:
  async::Task<Result<std::vector<std::string>>> find_host(std::string host, async::Until until) {
    HostAddresses found = co_await names.addresses(host, {}, until);
    if (found.state == NameState::ok) co_return std::move(found.addresses);
    co_return fail(milter::MilterError::lost, host + ": " + found.why);
  }

  std::size_t judged_ = 0;
  SteadyTime told_short_ = SteadyTime::min();
  std::shared_ptr<const Policy> policy_;
  async::Cancel stopping_;
};

}  // namespace pen::smtpd
