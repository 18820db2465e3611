#pragma once
/// The connections of this process to one policy server, for all sessions together, and whether the server is there.
///
/// Use:     auto action = co_await endpoint.attempt(transaction, request, utf8);    // policy_servers.h tries again
/// Talks:   one request at a time on each connection, never the next one before the answer. A transaction gets the
///          connection that it had; else one that no transaction has, else a new one, else the one that was used
///          longest ago.
/// Bounds:  Limits of connections; a request that finds none free waits, PolicyService::timeout at most. Connecting,
///          sending and the answer get that time each; an answer is PolicyReply::kMaxSize long at most. A request is
///          written only when there is a connection for it.
/// Down:    a server that refuses to be connected to, or that has answered nobody while a request waited out its time,
///          is down for PolicyService::retry_delay: attempts fail at once, also those that wait for a connection. Then
///          one attempt goes ahead, and the others wait for how it ends; for a server that was silent they wait no
///          longer than that delay from its beginning. So a dead server costs one connection, a hanging one one
///          time-out, not one for each session. A server that refuses a further connection while it keeps others is
///          not down: the request waits for one of these.
/// Idle:    a connection is closed after max_idle, after max_ttl and after request_limit requests; what the server has
///          closed, or written to unasked, is not used again.
/// Thread:  the loop's. Its owner keeps it while an attempt lasts. Destroying an attempt ends its connection.
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "lib/base/async/stream.h"
#include "lib/base/async/sync.h"
#include "lib/meaning/smtpd/policy_service.h"
#include "smtpd/names.h"

namespace pen::smtpd {

enum class PolicyServerError { unreachable = 1, down, busy };
inline std::string_view error_module(PolicyServerError) { return "policy server"; }
std::string_view describe(PolicyServerError e);

class PolicyEndpoint {
 public:
  /// Postfix has one connection for each of default_process_limit processes.
  static constexpr std::size_t kConnections = 100;

  PolicyEndpoint(async::Loop& loop, Names& names, std::shared_ptr<const PolicyService> service,
                 std::size_t connections = kConnections);
  ~PolicyEndpoint();
  PolicyEndpoint(const PolicyEndpoint&) = delete;
  PolicyEndpoint& operator=(const PolicyEndpoint&) = delete;

  using Request = std::function<std::string()>;
  /// The action that the server names. transaction: 0 outside any.
  [[gnu::noinline]] async::Task<Result<std::string>> attempt(std::uint64_t transaction, Request request, bool utf8);
  /// The transaction is over: others may have its connection.
  void forget(std::uint64_t transaction);

  struct Counts {
    std::uint64_t requests = 0, failed = 0, connects = 0, connections = 0;
    std::size_t open = 0, waiting = 0, most_waiting = 0;
    std::chrono::nanoseconds slowest{0};  // answer
  };
  const Counts& counts() const { return counts_; }
  const PolicyService& service() const { return *service_; }
  bool is_down() const { return health_ != Health::up; }
  /// Why the last attempt failed that made the server count as down.
  const std::string& last_error() const { return last_error_; }

 private:
  enum class Health : std::uint8_t { up, unreachable, silent };
  struct Connection;
  using Connected = std::unique_ptr<Connection>;
  class Place;
  class Probe;

  [[gnu::noinline]] async::Task<Result<void>> wait_while_down(std::unique_ptr<Probe>& probe);
  /// An idle connection or a new one.
  [[gnu::noinline]] async::Task<Result<Connected>> connection_for(std::uint64_t transaction, SteadyTime deadline);
  [[gnu::noinline]] async::Task<Result<std::string>> talk(Connection& connection, const Request& request, bool utf8);
  Connected take_idle(std::uint64_t transaction);
  bool usable(const Connection& connection) const;
  void keep(Connected connection);
  void close_old();
  void is_up();
  /// Has no effect if since `since` somebody was answered, or, for unreachable, connected.
  void went_down(Health how, SteadyTime since, std::string why);

  async::Loop& loop_;
  Names& names_;
  std::shared_ptr<const PolicyService> service_;
  async::Semaphore places_;
  std::size_t most_;
  async::Event freed_;  // a connection has become idle or has ended
  async::Cancel fell_;  // raised for a moment when the server goes down
  Health health_ = Health::up;
  SteadyTime next_try_{}, last_connected_{}, last_answer_{}, probed_since_{};
  std::string last_error_;
  bool probing_ = false;
  async::Event probed_;
  Counts counts_;
  std::list<Connected> idle_;  // in the order of their last use; after what their destructor touches
  async::Loop::TimerHandle sweep_;
};

}  // namespace pen::smtpd
