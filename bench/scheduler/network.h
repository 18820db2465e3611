#pragma once
/// What the simulated hosts do to connections and deliveries.
///
/// A connection takes three round trips (TCP, greeting, EHLO); a dead host answers nothing for connect_timeout; a
/// tarpit delays greeting and every reply; a host over its limit refuses the connection with 421. Deliveries of one
/// connection are served in order: two round trips (commands, data) that overlap within the host's window, then the
/// processing. A host that closes after N messages does so right after the N-th reply, whatever is in hand.
///
/// Use:     Network calls its Listener; the Listener passes the events it reads to the Network.
/// Thread:  one. Internet, Events and Listener outlive it.
#include <deque>
#include <unordered_map>
#include <vector>

#include "bench/scheduler/discipline.h"
#include "bench/scheduler/events.h"

namespace pen::simulation {

class Network {
 public:
  struct Delivery {
    JobNumber job = 0;
    MessageNumber message = 0;
    Ordinals ordinals;
    SteadyTime handed{};
  };
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void connection_opened(ConnectionNumber connection, const Host& host) = 0;
    virtual void connection_closed(ConnectionNumber connection, bool was_opened, ipc::delivery::Trouble trouble,
                                   const std::vector<JobNumber>& unstarted) = 0;
    virtual void result(ConnectionNumber connection, const Host& host, Delivery&& delivery,
                        microseconds service_time) = 0;
    /// The connection has ended, whichever side closed it and whether or not it was ever open. Called before
    /// connection_closed().
    virtual void connection_ended(ConnectionNumber) {}
  };
  struct Counts {
    std::uint64_t attempts = 0, accepted = 0, refused = 0, timed_out = 0, deliveries = 0, closed_by_peer = 0;
  };

  Network(const Internet& internet, Events& events, Listener& listener)
      : internet_(internet), events_(events), listener_(listener), open_(internet.hosts()) {}

  void open(SteadyTime now, ConnectionNumber connection, HostNumber host);
  void hand(SteadyTime now, ConnectionNumber connection, Delivery&& delivery);
  void close(ConnectionNumber connection);
  /// Event::Kind::connected and result.
  void happened(SteadyTime now, const Event& event);

  const Counts& counts() const { return counts_; }
  /// Connections on which a host has a delivery in hand.
  std::uint32_t serving() const { return serving_; }
  std::uint32_t open_to(HostNumber host) const { return open_[host]; }

 private:
  struct Connection {
    HostNumber host = 0;
    bool open = false, closing = false;
    bool ending = false;  // the host closes after this reply
    std::uint32_t served = 0;
    std::deque<Delivery> in_hand;
  };
  using Entry = std::unordered_map<ConnectionNumber, Connection>::iterator;
  void connected(ConnectionNumber number);
  void result(SteadyTime now, ConnectionNumber number);
  void serve(SteadyTime now, ConnectionNumber number, const Connection& c);
  void remove(Entry entry);

  const Internet& internet_;
  Events& events_;
  Listener& listener_;
  std::vector<std::uint32_t> open_;  // by host
  std::unordered_map<ConnectionNumber, Connection> connections_;
  std::uint32_t serving_ = 0;
  Counts counts_;
};

}  // namespace pen::simulation
