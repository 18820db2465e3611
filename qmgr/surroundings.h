#pragma once
/// What every part of the manager works with: the settings, the queue log, the scheduler, the edges and the clock.
///
/// Use:     Surroundings is made once, by the Manager, and given to each of its parts by reference.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "lib/base/fd.h"
#include "lib/base/random.h"
#include "lib/base/time.h"
#include "lib/config/ways.h"
#include "lib/queue/queue_log/queue_log.h"
#include "lib/suite/ipc/bounce.h"
#include "lib/suite/ipc/delivery.h"
#include "lib/suite/ipc/route.h"
#include "lib/suite/ipc/suppression.h"
#include "lib/suite/ipc/verify.h"
#include "qmgr/scheduler/scheduler.h"
#include "qmgr/watches.h"

namespace pen::qmgr {

class Egress;  // egress.h

struct ManagerOptions {
  std::size_t active_messages = 20'000;  // qmgr_message_active_limit
  std::size_t tenant_messages = 0;       // tenant_active_share of it; 0: any number
  bool tenants = false;                  // tenant_identity
  bool priorities = false;               // message_priority: less urgent mail leaves room for more urgent mail
  std::size_t active_bytes = 64U << 20;  // envelopes in memory (not bodies); beyond it runners wait
  // bodies kept in memory; beyond it they are read again when handed out
  std::size_t body_bytes = 16U << 20;
  std::size_t inline_limit = 16384;  // queue_inline_limit
  // more than any receiver may send: a malformed request
  std::size_t message_recipients = 1'000'000;
  seconds backoff_min{300}, backoff_max{4000};
  seconds lifetime{432'000}, bounce_lifetime{432'000};
  seconds delay_warning{0};            // delay_warning_time; 0: none
  bool confirm_delay_cleared = false;  // tell a sender who was warned of the delivery as well
  bool double_bounces = false;         // notify_classes has 2bounce: undeliverable notices are reported
  /// Whole address of double_bounce_sender: besides the null sender the only one with mail that discharges reports.
  std::string double_bounce_sender = {};
  bool soft_bounce = false;  // refused mail is tried again
  /// soft_bounce of transports whose lines of master.cf have their own.
  std::map<std::string, bool, std::less<>> transport_soft_bounce = {};
  bool is_soft(std::string_view transport) const {
    const auto own = transport_soft_bounce.find(transport);
    return own == transport_soft_bounce.end() ? soft_bounce : own->second;
  }
  bool allow_minus = true;  // allow_min_user: recipients may begin with "-"
  std::string default_filter_nexthop = {};
  /// What settings let a program name for its mail, by program. A client without an entry may name any: root.
  std::map<std::string, config::Ways, std::less<>> filters = {}, transports = {};
  /// The mail with a sender that may have to be rewritten (srs_forward); trivial-rewrite says whether.
  enum class Rewrites : std::uint8_t { none, forwarded, all } rewrites = Rewrites::none;
  bool verp_bounces = true;  // a notice for each recipient of a VERP message (disable_verp_bounces)
  // address_verify_concurrency_limit: look-ups, and connections of a transport, that all probes of verify have together
  std::uint32_t verification_limit = 20;
  // messages read from the log in one settle(): keeps the loop alive
  std::size_t runner_slice = 64;
  /// Makes the permits of reports: not to be guessed by a program that was not given one.
  std::function<std::uint64_t()> new_permit = secure_random_u64;
  /// suppression_list: whether what this transport delivers is asked about; empty: there is no list.
  std::function<bool(std::string_view transport)> suppression = {};
  /// From where mail is sent; nullptr: there are no sources.
  std::shared_ptr<Egress> egress = nullptr;
  /// Before the log gets a message whose layout is newer than the usual one (layout_mark.h).
  std::function<void(std::uint8_t layout)> note_layout = {};
};

/// What the manager asks of the edges. Calls never wait and never call back into the manager.
class Ports {
 public:
  virtual ~Ports() = default;
  /// An event has ended: Manager::settle() is wanted in this turn of the loop, once for all its events.
  virtual void settle_soon() = 0;
  virtual void route(const ipc::route::Route& request) = 0;
  virtual void open_connection(const std::string& transport, const ipc::delivery::OpenConnection& open) = 0;
  virtual void close_connection(const std::string& transport, ConnectionNumber connection) = 0;
  /// The slot is the edge's to fill. body: open when the body is not inline.
  virtual void hand_job(const std::string& transport, ipc::delivery::Job& job, Fd body) = 0;
  virtual void notify(const ipc::bounce::Notify& request, Fd body) = 0;
  /// What became of a probe that the program verify sent; may be lost.
  virtual void probed(ipc::verify::Probed results) = 0;
  /// The ledger's counts (Options::egress) are to be written now; RouteRequests::counts_written() says that they are,
  /// or cannot be. Only with sources that are warmed up.
  virtual void write_counts() {}
  /// Whether mail for the recipient is to be stopped, answered by RouteRequests::suppression_answer() with the request.
  /// Only with suppression.
  virtual void ask_suppression(const ipc::suppression::Ask&) {}
  /// An address has failed; never waits.
  virtual void tell_suppression(ipc::suppression::Failure) {}
  /// A lease of the session class for a connection to this host, answered by
  /// OrderedConnections::session_answer(). Only with session classes.
  virtual void ask_session(ConnectionNumber, std::uint32_t /*session_class*/, const ipc::Destination&) {}
  /// The connection is closed, or wanted no more; it may have no lease.
  virtual void release_session(ConnectionNumber) {}
  /// A share of the connections that all hosts of a cluster may have to a destination; key and limit: OpenConnection in
  /// scheduler.h. True: OrderedConnections::share_answer() answers. False: nobody is asked, and it may be opened.
  virtual bool ask_share(ConnectionNumber, const std::string& /*key*/, std::uint32_t /*limit*/,
                         const std::string& /*address*/) {
    return false;
  }
  /// The connection that was asked for is wanted no more.
  virtual void release_share(ConnectionNumber) {}
  /// A descriptor on a spooled body, for reading.
  virtual Result<Fd> open_body(std::uint64_t spool_file, const std::string& queue_id) = 0;
  /// The message is gone (its end is appended): the spool file may return to its pool when that is safe.
  virtual void release_body(std::uint64_t spool_file, const std::string& queue_id) = 0;
  /// New mail can or cannot be taken.
  virtual void queue_state(bool accepting) = 0;
  /// The watchers of what happens to messages; nullptr: there are none.
  virtual Watches* watches() { return nullptr; }
  /// The queue log failed: the process ends, and recovery reads what is really there.
  [[noreturn]] virtual void fatal(const Error& why) = 0;
};

struct Surroundings {
  ManagerOptions options;
  queue_log::QueueLog& log;
  Scheduler& scheduler;
  Ports& ports;
  const Clock& clock;

  WallTime now() const { return clock.wall_now(); }
  /// Somebody watches messages: tell() what happens.
  bool watched() const {
    const Watches* w = ports.watches();
    return w != nullptr && w->any();
  }
  /// For where nothing but the step is to be said.
  void tell(std::string_view queue_id, ipc::queue::Step step) const {
    if (watched()) ports.watches()->tell(queue_id, {.step = step});
  }
  /// What the queue log answers where only its failure can be an error: that ends the process.
  template <class T>
  T must(Result<T> r) const {
    if (!r) ports.fatal(r.error());
    if constexpr (!std::is_void_v<T>) return *std::move(r);
  }
};

}  // namespace pen::qmgr
