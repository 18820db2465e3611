#pragma once
/// Ceilings: what a host accepts, learned and tried again now and then. All of it is kept in destdb (destdb::Facts).
///
/// - Messages on one connection. A peer that has closed twice in a row after the same number of messages is believed:
///   later connections are closed by us before that. After ceiling_time one connection may carry twice as many.
/// - Connections at once. A refused connection beside others that work is a ceiling, probed by one more after
///   ceiling_time.
/// - Pipelining and TLS. A host that broke under one of them is spared it for a while, for longer if it breaks again
///   within a day.
///
/// Use:     the caller keeps what has changed (Memory::keep).
#include <cstdint>
#include <optional>
#include <vector>

#include "qmgr/scheduler/clock.h"
#include "qmgr/scheduler/connection.h"
#include "qmgr/scheduler/destination.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr::scheduler {

class Ceilings {
 public:
  Ceilings(const Options& options, const Clock& clock) : options_(options), clock_(clock) {}

  /// How many messages a connection opened now may carry; 0: any number.
  std::uint64_t quota_of(Destination& d) const;
  /// The peer closed a connection by itself after so many messages.
  void learn_quota(Destination& d, std::uint64_t done) const;
  /// One more message was done on the connection.
  void carried_one_more(Connection& c) const;
  /// A job was handed to the connection: a connection that has had all the messages that its peer takes is noted.
  void handed(const Connection& c) {
    if (c.spent()) spent_.push_back(c.number);
  }
  bool any_spent() const { return !spent_.empty(); }
  /// One of those noted, to be closed by us; it may have gone meanwhile. nullopt: there is none.
  std::optional<ConnectionNumber> take_spent();

  /// How many connections the host was found to accept; 0: any number. After ceiling_time one more.
  std::uint32_t connections(const Destination& d) const;
  /// The host refused a connection beside those that it has.
  void refused_one_more(Destination& d) const;
  /// The host has accepted so many connections.
  void bears(Destination& d, std::uint32_t in_use) const;

  /// TLS with it broke, or it broke under pipelining.
  void learn_clear_text(Destination& d) const;
  void learn_step_by_step(Destination& d) const;
  /// A password is never sent where the administrator counted on TLS: with credentials TLS is not left out.
  static bool may_go_clear(const Destination& d) {
    return d.address.tls.level == ipc::TlsLevel::may && d.address.credentials.empty();
  }

 private:
  const Options& options_;
  const Clock& clock_;
  std::vector<ConnectionNumber> spent_;
};

}  // namespace pen::qmgr::scheduler
