#pragma once
/// Takes mail by QMQP, one message from each connection (man/qmqpd.8, docs/qmqp.md).
///
/// Use:     auto server = std::make_shared<Server>(loop, intake, options);
///          context.serve([server](auto accepted) { return Server::serve(server, std::move(accepted)); });
///          server->stop();            // at the stop of the suite: sessions that wait for a client end
/// Promise: K is said only after qmgr has said that the message is on stable storage.
/// Replies: K, Z or D and a text, in Postfix's words. One that is found out before the request has come whole is given
///          at once, and then the connection ends.
/// Bounds:  Options::timeout for each read and write, kWhole for a session. Content of up to kHeld bytes waits in
///          memory for the envelope behind it; what is larger goes into the body as it comes (body.h).
/// Thread:  the loop's. Intake and filters must outlive the sessions.
#include <functional>
#include <memory>
#include <string>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/listener.h"
#include "lib/map/match_list.h"
#include "lib/receive/intake/intake.h"
#include "lib/receive/milter/other_filters.h"
#include "lib/receive/resolve/peer_name.h"
#include "lib/receive/tenant/identity.h"
#include "lib/receive/tenant/priority.h"
#include "qmqpd/frame.h"

namespace pen::qmqpd {

class Server {
 public:
  static constexpr std::size_t kHeld = 64 * 1024;
  static constexpr std::chrono::hours kWhole{1};  // what the protocol gives a session
  struct Options {
    map::MatchList clients = {};  // qmqpd_authorized_clients
    Frame::Limits limits = {};
    milliseconds timeout{seconds(300)}, error_delay{seconds(1)};
    bool show_port = false;
    std::function<async::Task<resolve::PeerName>(std::string address, async::Until until)> find_name;
    milter::OtherFilters* filters = nullptr;                    // non_smtpd_milters; nullptr: none
    std::shared_ptr<const tenant::Identity> tenants = {};       // nullptr: there are none
    std::shared_ptr<const tenant::Priorities> priorities = {};  // the same
  };
  Server(async::Loop& loop, intake::Intake& intake, Options options)
      : loop_(loop), intake_(intake), options_(std::move(options)), scans_(loop, kScans) {}

  static async::Task<void> serve(std::shared_ptr<Server> self, async::Listener::Accepted accepted);
  void stop() { stopping_.raise(); }

  struct Counts {
    std::uint64_t sessions = 0, messages = 0, refused = 0, broken_off = 0;
    std::size_t live = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  friend class Session;
  static constexpr std::size_t kScans = 2;

  async::Loop& loop_;
  intake::Intake& intake_;
  Options options_;
  async::HandlerPool scans_;  // for slow content checks, so that nothing else need wait
  async::Cancel stopping_;
  Counts counts_;
};

}  // namespace pen::qmqpd
