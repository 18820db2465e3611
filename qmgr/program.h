#pragma once
/// The qmgr program without its main(): the manager, its edges and the turning of the wheel.
///
/// Everything that happens in one turn of the loop is settled once at its end: one pass of the scheduler, one look
/// for a batch, one write per peer.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/loop.h"
#include "lib/base/async/sync.h"
#include "lib/queue/destdb/destdb.h"
#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/writer.h"
#include "lib/queue/spool/spool.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/probe_results.h"
#include "lib/suite/sessions/holder.h"
#include "lib/suite/suppression/client.h"
#include "qmgr/bounce_feed.h"
#include "qmgr/delivery_agents.h"
#include "qmgr/destination_server.h"
#include "qmgr/destination_writer.h"
#include "qmgr/enqueue_server.h"
#include "qmgr/manager.h"
#include "qmgr/queue_server.h"
#include "qmgr/rights.h"
#include "qmgr/router_feed.h"
#include "qmgr/shared_destinations.h"
#include "qmgr/tenant_weights.h"

namespace pen::qmgr {

/// Logs what to do about an error of the disk under `where`: one that fails (EIO), or is full (ENOSPC, EDQUOT, the
/// queue log's no_space). The error itself is for the caller to log, in the next line. False, and nothing is logged:
/// it is neither.
bool advise_on_disk(std::string_view where, const Error& why);

struct ProgramOptions {
  ManagerOptions manager;
  Options scheduler;
  std::function<TransportLimits(std::string_view)> limits;
  /// A socket's path from its name below the queue directory.
  std::function<std::string(std::string_view)> path;
  /// Of transports with several programs: how many.
  std::map<std::string, unsigned> delivery_processes = {};
  std::string verify_service = "verify";  // address_verify_service_name
  std::optional<uid_t> mail_owner;        // besides root and ourselves, may enqueue and command
  /// Where the queue has an account of its own, mail_owner may command with this group only, which penapi has;
  /// without it it hands in mail and looks, because programs that talk to strangers have that account too.
  std::optional<gid_t> orders_group;
  /// Looks into maildrop for us; nullptr: we may.
  std::shared_ptr<MaildropKeeper> maildrop_keeper;
  std::shared_ptr<const Rights> rights = std::make_shared<Rights>();  // of the others
  std::uint64_t seed = 1;
  std::size_t guests = Guests::kAll;  // connections of users
  milliseconds drain_time{5000};
  std::optional<SharedDestinations::Options> cluster;  // destdb_backend = redis
  /// session_classes; nullptr: there are none.
  std::shared_ptr<const sessions::Classes> classes;
  std::shared_ptr<TenantWeights> tenant_weights;  // nullptr: all weigh the same
  /// One tool is served while the mail system is down: no other program is asked or hears anything, nothing is
  /// scheduled, no mail is taken. With manager.active_messages = 0, so that no message is taken into work.
  bool orders_only = false;
  /// Called when the queue holds nothing after a start; nullptr: that is not looked for.
  std::function<void()> found_empty;
};

class Program final : public Ports {
 public:
  /// loop, storage, log, spool (nullptr: none, large bodies are refused) and destinations must outlive the program.
  Program(async::Loop& loop, ProgramOptions options, queue_log::Storage& storage, queue_log::QueueLog& log,
          spool::Spool* spool, destdb::DestDb& destinations);
  ~Program() override;
  /// Starts recovery and the feeds.
  void start();
  /// One connection accepted on public/qmgr.
  async::Task<void> serve(async::Stream stream);
  /// Hands out nothing more and waits for what is in hand and for bodies half received, at most drain_time.
  async::Task<void> drain();
  std::vector<ipc::queue::StatusLine> status() const;
  Manager& manager() { return *manager_; }
  bool recovered() const { return log_.restart().stage() == queue_log::Recovery::done; }

  void settle_soon() override;
  void route(const ipc::route::Route& request) override { router_.route(request); }
  void open_connection(const std::string& transport, const ipc::delivery::OpenConnection& open) override {
    agents(transport).open(open);
  }
  void close_connection(const std::string& transport, ConnectionNumber connection) override {
    agents(transport).close(connection);
  }
  void hand_job(const std::string& transport, ipc::delivery::Job& job, Fd body) override;
  void notify(const ipc::bounce::Notify& request, Fd body) override { bounce_.notify(request, std::move(body)); }
  void probed(ipc::verify::Probed results) override { verify_.tell(std::move(results)); }
  void ask_suppression(const ipc::suppression::Ask& question) override;
  void write_counts() override { destination_writer_.write_counts(); }
  void tell_suppression(ipc::suppression::Failure failure) override { suppression_->tell(std::move(failure)); }
  Result<Fd> open_body(std::uint64_t spool_file, const std::string& queue_id) override;
  void release_body(std::uint64_t spool_file, const std::string& queue_id) override;
  void ask_session(ConnectionNumber connection, std::uint32_t session_class,
                   const ipc::Destination& destination) override;
  void release_session(ConnectionNumber connection) override;
  bool ask_share(ConnectionNumber connection, const std::string& key, std::uint32_t limit,
                 const std::string& address) override;
  void release_share(ConnectionNumber connection) override;
  Watches* watches() override { return &queue_.watches(); }
  void queue_state(bool accepting) override { enqueue_.queue_state(accepting); }
  [[noreturn]] void fatal(const Error& why) override;

 private:
  DeliveryAgents& agents(const std::string& transport);
  void start_sessions();
  /// Why a user gets no connection; once a minute.
  void tell_crowd(uid_t uid);
  void settle();
  void set_timer();
  /// Logs damage to the queue that was met since the last call.
  void report_damage();
  async::Task<void> recover();
  static async::Task<void> find_standing(Program* self, ipc::suppression::Ask question);
  /// After the active set has shrunk; once a second.
  void give_memory_back();
  async::Task<void> keep_flushing();
  async::Task<void> find_orphans();
  async::Task<void> look_for_mail();
  /// See QueueLog::compact_held().
  async::Task<void> keep_hold_log_short();
  /// After a slice of work that nothing waits for: leaves nine tenths of the time to the mail.
  async::Task<void> make_way(SteadyTime began);
  /// A tenth of a second at most.
  async::Task<void> next_commit();
  DestinationWriter::Edges edges_to_destinations();
  /// What has gone, of quotas and of sources that are warmed up, as destdb kept it.
  void load_notes();

  async::Loop& loop_;
  ProgramOptions options_;
  queue_log::QueueLog& log_;
  spool::Spool* spool_;
  destdb::DestDb& destinations_;
  async::HandlerPool pool_;
  Random random_;
  std::uint64_t damage_told_ = 0;
  std::uint64_t torn_told_ = 0;
  queue_log::Writer writer_;
  RouterFeed router_;
  BounceFeed bounce_;
  ipc::ProbeResults verify_;
  std::shared_ptr<suppression::Client> suppression_;  // nullptr: there is no list
  std::unique_ptr<SharedDestinations> shared_;        // nullptr: nothing is shared
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Manager> manager_;
  EnqueueServer enqueue_;
  QueueServer queue_;
  DestinationServer destination_server_;
  Guests guests_;
  SteadyTime crowd_told_{};  // when users were last refused a connection, and it was said
  std::map<std::string, std::unique_ptr<DeliveryAgents>> agents_;  // by transport
  std::shared_ptr<sessions::Holder> sessions_;                     // nullptr: no session classes
  std::unordered_map<ConnectionNumber, sessions::Holder::Lease> leases_;
  bool settling_soon_ = false;
  SteadyTime timer_at_ = kNever;
  async::Loop::TimerHandle timer_;
  async::Event committed_;
  DestinationWriter destination_writer_;
  std::size_t most_active_ = 0;  // since memory was last given back
  SteadyTime give_back_again_{};
  std::optional<std::uint64_t> trim_after_;  // that save of restart positions
};

}  // namespace pen::qmgr
