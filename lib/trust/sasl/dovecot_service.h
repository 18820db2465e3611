#pragma once
/// The one connection of a process to an authentication service, shared by all its sessions: to Dovecot's, or to the
/// program cyrus, which speaks the same protocol.
///
/// Use:     auto service = std::make_shared<DovecotService>(loop, DovecotService::Peer{address}, options);
///          service->start();   the rest is Authenticator (authenticator.h).
/// Death:   when the connection ends, every exchange under way gets "Connection lost to authentication server" as a
///          temporary failure, and it is made again, paced; a log-in that comes meanwhile makes it be tried at once.
///          What Dovecot offered last stays known, so that clients hear "try later" and not "no AUTH here".
/// Bounds:  kMaxExchanges under way; lines of peer.max_line both ways: a longer response fails here, because Dovecot
///          would hang up on everybody for it. Every wait for an answer ends after answer_timeout.
/// Thread:  the loop's.
#include <functional>
#include <map>
#include <optional>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/reconnecting.h"
#include "lib/base/async/stream.h"
#include "lib/net/helper/server_address.h"
#include "lib/trust/sasl/authenticator.h"

namespace pen::sasl {

/// smtpd_sasl_path: "inet:host:port", a path, or a path below `directory`, with or without "unix:" in front. Error:
/// bad_setting.
Result<helper::ServerAddress> parse_service(std::string_view text, const std::string& directory);

class DovecotService final : public Authenticator {
 public:
  static constexpr std::size_t kMaxExchanges = 2000;
  struct Options {
    Pace::Options pace{.first = milliseconds(50), .longest = milliseconds(5000)};
    seconds connect_timeout{10};
    // Dovecot lets a client that fails often wait for up to 15 seconds (auth_failure_delay, penalties)
    seconds answer_timeout{30};
  };
  struct Peer {
    helper::ServerAddress address;
    std::size_t max_line = dovecot::kMaxLine;
    std::optional<dovecot::Application> application = {};  // for cyrus
    // For cyrus, to which smtpd shows who it is before the first line; empty: a connection to the address is enough.
    std::function<async::Task<Result<async::Stream>>(async::Loop& loop, async::Until until)> connect = {};
  };
  DovecotService(async::Loop& loop, Peer peer, Options options);
  ~DovecotService() override;

  void start() { kept_.start("authentication"); }

  const std::vector<Mechanism>& mechanisms() const override { return mechanisms_; }
  async::Task<void> settled(async::Until until) override;
  std::unique_ptr<Exchange> begin() override;

  bool connected() const { return kept_.is_connected(); }
  std::size_t under_way() const { return exchanges_.size(); }
  /// Why the last connection or attempt ended; empty: none did.
  const std::string& last_error() const { return kept_.last_error(); }
  /// Called with last_error() when the service is lost or cannot be reached: once until it is there again.
  std::function<void(const std::string& why)> on_down;
  std::function<void()> on_up;

 private:
  class One;
  async::Task<Error> session();
  async::Task<Error> serve();
  async::Task<Result<async::Stream>> connect(async::Until until);
  async::Task<Result<std::vector<Mechanism>>> greet(async::Until until);
  void take(dovecot::Reply reply);
  void ended(const async::Reconnecting::End& end);
  async::Until bounded(async::Until until) const;

  async::Loop& loop_;
  Peer peer_;
  Options options_;
  std::optional<async::HandlerPool> names_;  // the address has a name, and its look-up blocks
  std::optional<async::Stream> stream_;
  async::Event attempted_;  // the attempt that was under way has ended, well or not
  std::uint32_t next_id_ = 0;
  std::map<std::uint32_t, One*> exchanges_;
  std::vector<Mechanism> mechanisms_;
  async::Reconnecting kept_;
};

}  // namespace pen::sasl
