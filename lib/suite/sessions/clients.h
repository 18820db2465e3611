#pragma once
/// What SMTP clients do per time unit and how many sessions each has, of all smtpd processes. No I/O, no clock.
///
/// Use:     Clients clients(unit);  auto holder = clients.begin();               // one per connection
///          clients.enter(holder, "smtp:192.0.2.7", 1);
///          clients.count(Event::connection, "smtp:192.0.2.7", false, now, wall) → rate and live sessions
///          … clients.leave(holder, client); clients.end(holder);
/// Window:  begins with the first thing a client does and ends a time unit later, whatever it did meanwhile; then it
///          begins with nothing, as in Postfix.
/// Bounds:  kMaxClients, each of kMaxName bytes; a new client beyond that is not counted until the window of a known
///          one has passed. The work of each call is constant but for forgetting what has passed, once for each
///          client.
/// Source:  Postfix anvil(8), postconf(5).
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/time.h"
#include "lib/suite/ipc/clients.h"

namespace pen::sessions {

class Clients {
 public:
  using Event = ipc::clients::Event;
  using Holder = std::uint64_t;
  static constexpr std::size_t kMaxClients = 100'000;
  /// Long enough for any real "service:address"; longer ones are not counted.
  static constexpr std::size_t kMaxName = 300;

  explicit Clients(milliseconds unit) : unit_(unit) {}

  Holder begin() { return next_holder_++; }
  void enter(Holder holder, const std::string& client, std::uint32_t sessions, WallTime wall);
  void leave(Holder holder, const std::string& client);
  /// All sessions that it reported are over.
  void end(Holder holder);

  struct Counted {
    std::uint32_t rate = 0, live = 0;
  };
  Counted count(Event event, const std::string& client, bool look, SteadyTime now, WallTime wall);

  std::size_t size() const { return clients_.size(); }
  /// The clients that did most since the last call, in the words of Postfix's anvil ("statistics: max connection rate
  /// 3/60s for (smtp:192.0.2.7) at Nov 22 08:30:00"); what no client did more than once is left out.
  std::vector<std::string> take_statistics();
  /// Things that were not counted for want of room, since the last call.
  std::uint64_t take_uncounted() { return std::exchange(uncounted_, 0); }

 private:
  struct Client {
    bool open = false;  // the window: stands in oldest_
    SteadyTime begun{};
    std::array<std::uint32_t, ipc::clients::kEvents> events{};
    std::uint32_t live = 0;
  };
  struct Peak {
    std::uint32_t value = 0;
    std::string client;
    WallTime at{};
    void note(std::uint32_t now, const std::string& whose, WallTime wall) {
      if (now > value) *this = {now, whose, wall};
    }
  };
  using Table = std::unordered_map<std::string, Client>;
  void forget(SteadyTime now);
  void drop(Table::iterator client, std::uint32_t sessions);
  /// nullptr: no room.
  Client* find_or_add(const std::string& client, WallTime wall);

  milliseconds unit_;
  Table clients_;
  std::deque<std::string> oldest_;  // open windows, in the order in which they began
  std::unordered_map<Holder, std::unordered_map<std::string, std::uint32_t>> sessions_;
  std::array<Peak, ipc::clients::kEvents> rates_;
  Peak live_, size_;
  std::uint64_t uncounted_ = 0;
  Holder next_holder_ = 1;
};

}  // namespace pen::sessions
