#pragma once
/// The one connection of a process to Dovecot's authentication service, shared by all its sessions.
///
/// Use:     auto service = std::make_shared<DovecotService>(loop, address, options);
///          loop.spawn("authentication", DovecotService::keep_connected(service));
///          the rest is Authenticator (authenticator.h).
/// Death:   when the connection ends, every exchange under way gets "Connection lost to authentication server" as a
///          temporary failure, and it is made again, paced; a log-in that comes meanwhile makes it be tried at once.
///          What Dovecot offered last stays known, so that clients are told "try later" and not "no AUTH here".
/// Bounds:  kMaxExchanges under way; lines of dovecot::kMaxLine both ways: a longer response fails here, because
///          Dovecot would hang up on everybody for it. Every wait for an answer ends after answer_timeout.
/// Thread:  the loop's.
#include <functional>
#include <map>
#include <optional>

#include "lib/async/handler_pool.h"
#include "lib/async/stream.h"
#include "lib/async/sync.h"
#include "lib/sasl/authenticator.h"

namespace pen::sasl {

/// smtpd_sasl_path: "inet:host:port" (a numeric address or localhost), a path, or a path below `directory`, with or
/// without "unix:" in front. Error: bad_setting.
Result<async::SocketAddress> parse_service(std::string_view text, const std::string& directory);

struct ServiceAddress {
  async::SocketAddress address;
  std::string host = {};  // a name that is looked up for every connection; address has the port then
  std::string text() const;
};
/// The same, where the host may be a name too: "inet:dovecot:10001".
Result<ServiceAddress> parse_named_service(std::string_view text, const std::string& directory);

class DovecotService final : public Authenticator {
 public:
  static constexpr std::size_t kMaxExchanges = 2000;
  struct Options {
    milliseconds first_pause{50}, longest_pause{5000};
    seconds connect_timeout{10};
    // Dovecot lets a client that fails often wait for up to 15 seconds (auth_failure_delay, penalties)
    seconds answer_timeout{30};
  };
  DovecotService(async::Loop& loop, ServiceAddress address, Options options);
  ~DovecotService() override;

  /// Connects, reads answers, connects again, until cancelled or the process ends.
  static async::Task<void> keep_connected(std::shared_ptr<DovecotService> self, async::Cancel* cancel = nullptr);

  const std::vector<Mechanism>& mechanisms() const override { return mechanisms_; }
  async::Task<void> settled(async::Until until) override;
  std::unique_ptr<Exchange> begin() override;

  bool connected() const { return connected_; }
  std::size_t under_way() const { return exchanges_.size(); }
  /// Why the last connection or attempt ended; empty: none did.
  const std::string& last_error() const { return last_error_; }
  /// Called with last_error() when the service is lost or cannot be reached: once until it is there again.
  std::function<void(const std::string& why)> on_down;
  std::function<void()> on_up;

 private:
  class One;
  async::Task<void> serve(async::Cancel* cancel);
  async::Task<Result<async::Stream>> connect(async::Until until);
  async::Task<Result<std::vector<Mechanism>>> greet(async::Until until);
  void take(dovecot::Reply reply);
  void disconnected();
  async::Until bounded(async::Until until) const;

  async::Loop& loop_;
  ServiceAddress address_;
  Options options_;
  std::optional<async::HandlerPool> names_;  // address_ has a name, whose look-up blocks
  std::optional<async::Stream> stream_;
  bool connected_ = false;
  bool told_down_ = false;
  async::Event attempted_;  // the attempt that was under way has ended, well or not
  async::Event hurry_;      // somebody wants to log in
  std::uint32_t next_id_ = 0;
  std::uint64_t epoch_ = 0;  // counts connections
  std::map<std::uint32_t, One*> exchanges_;
  std::vector<Mechanism> mechanisms_;
  std::string last_error_;
};

}  // namespace pen::sasl
