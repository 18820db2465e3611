#pragma once
/// How often a client does a thing per time unit: the smtpd_client_*_rate_limit settings.
///
/// Use:     Rates rates;  rates.set_unit(settings.anvil_rate_time_unit);
///          if (rates.count(Rates::Event::message, client_block(address, 32, 84), now) > limit) …
/// Window:  begins with the first thing a client does and ends a time unit later, whatever it did meanwhile; then it
///          begins with nothing, as in Postfix.
/// Whose:   one smtpd process serves a master.cf service, so the counts are the service's; they begin anew when a new
///          process takes over at a reload.
/// Bounds:  kMaxClients; who comes when so many are remembered is not counted until a window of theirs has passed.
///          The work of each call is constant but for forgetting what has passed, which happens once for each client.
/// Thread:  the loop's. Source: Postfix anvil(8), postconf(5).
#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lib/base/time.h"

namespace pen::smtpd {

/// The network that a client is counted by. An address that cannot be read stands for itself.
std::string client_block(std::string_view address, int ipv4_bits, int ipv6_bits);

class Rates {
 public:
  enum class Event : std::uint8_t { connection, message, recipient, auth, tls };
  static constexpr std::size_t kEvents = 5;
  static constexpr std::size_t kMaxClients = 100'000;

  void set_unit(milliseconds unit) { unit_ = unit; }
  /// Counts one; returns how many there were of it in this window, this one included. 0: it is not counted.
  std::uint32_t count(Event event, const std::string& client, SteadyTime now);
  /// How many there were in this window, without counting one.
  std::uint32_t seen(Event event, const std::string& client, SteadyTime now) const;
  std::size_t clients() const { return clients_.size(); }

 private:
  struct Client {
    SteadyTime begun{};
    std::array<std::uint32_t, kEvents> events{};
  };
  milliseconds unit_{seconds(60)};
  std::unordered_map<std::string, Client> clients_;
  std::deque<std::string> oldest_;  // in the order in which the windows began
};

}  // namespace pen::smtpd
