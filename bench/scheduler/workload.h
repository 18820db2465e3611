#pragma once
/// Arriving messages: several streams, each with its own pace, sizes and recipients, merged by time.
///
/// A stream draws from its own random numbers: its messages are the same whatever other streams there are. So two
/// runs with and without a hostile sender differ in nothing else.
///
/// Use:     Workload w(net, streams, seed); while (!w.ended()) { w.next_time(); w.take(); }
/// Thread:  one. The Internet outlives it.
#include <string>
#include <vector>

#include "bench/scheduler/internet.h"

namespace pen::simulation {

struct Stream {
  enum class To : std::uint8_t {
    anybody,    // by popularity, dead hosts included
    reachable,  // by popularity, among domains with a host that answers
    dead,       // among the domains that have none
    tarpit,     // one domain: its host answers everything slowly
    customer,   // the customer's domains, each as often as another
    ordinary    // by popularity, among domains of ordinary hosts that are not the customer's
  };
  std::string label;
  seconds start{0};
  std::uint64_t messages = 0;
  double rate = 0;                    // messages a second, at random times; 0: all at once
  std::uint32_t recipients = 1;       // of each message
  std::uint32_t recipients_most = 0;  // above: log-uniform from `recipients` up to this
  To to = To::anybody;
  bool one_sender = false;  // else each message has another
};

struct Arrival {
  SteadyTime at{};
  std::size_t stream = 0;
  std::vector<DomainNumber> domains;  // one per recipient
};

class Workload {
 public:
  Workload(const Internet& internet, std::vector<Stream> streams, std::uint64_t seed);
  bool ended() const { return next_ == states_.size(); }
  /// The time of the next message; kNever: there is none.
  SteadyTime next_time() const { return ended() ? kNever : states_[next_].next; }
  /// Returns the next message; there must be one.
  Arrival take();
  const std::vector<Stream>& streams() const { return streams_; }

 private:
  struct State {
    Random random;
    std::uint64_t left = 0;
    SteadyTime next{};
  };
  void find_next();
  DomainNumber draw(const Stream& stream, Random& random) const;

  const Internet& internet_;
  std::vector<Stream> streams_;
  std::vector<State> states_;
  std::size_t next_ = 0;
};

}  // namespace pen::simulation
