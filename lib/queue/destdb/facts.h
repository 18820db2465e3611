#pragma once
/// What is remembered about one destination between connections, and the table from which the scheduler gets it.
///
/// Use:     the scheduler asks a Table for the facts of a key when it first meets the destination, and stores them
///          when they change. A MemoryTable alone is enough for tests and the simulator; destdb.h keeps one on
///          disk.
/// Rules:   hints only: nothing is lost or delivered twice when a record is missing, old or wrong.
/// Source:  docs/design.md "destdb"; docs/origins.md "The scheduler".
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/time.h"
#include "lib/queue/shaping/learner.h"

namespace pen::shaping {
class SharedRates;
}

namespace pen::destdb {

struct Facts {
  WallTime last_connect{};     // 0: never
  WallTime last_close{};       // 0: never
  std::uint32_t failures = 0;  // in a row; 0: works, as far as known
  WallTime next_retry{};       // if failures > 0: do not try before this
  std::uint8_t trouble = 0;    // ipc::delivery::Trouble of the last failure
  std::string dsn;             // of the last failure
  std::string reason;          // of the last failure, one line
  bool pipelining = false, chunking = false, starttls = false;
  std::uint64_t size_limit = 0;
  microseconds connect_time{0};
  microseconds round_trip{0};
  microseconds service_time{0};               // per job, a moving mean
  std::uint32_t messages_per_connection = 0;  // after this many the peer closes; 0: not known
  std::uint32_t tolerated_connections = 0;    // with this many it refused another; 0: not known
  WallTime tolerated_until{};                 // when to try one more
  WallTime used{};                            // last change, for the garbage collector
  std::string shown;                          // for people: host[address]:port
  std::uint32_t closed_after = 0;             // messages when the peer last closed unasked; 0: never
  WallTime messages_until{};                  // when to try more than messages_per_connection
  WallTime measured{};                        // when service_time last changed
  WallTime step_by_step_until{};              // pipelining failed: one command at a time until then
  WallTime clear_text_until{};                // TLS failed and is optional: clear text until then
  std::uint32_t deferrals = 0;                // transactions in a row in which it only deferred
  WallTime asked_last_until{};                // because of deferrals: other hosts of a route come first until then
  WallTime one_domain_until{};                // it refused several domains in one transaction: one domain until then
  std::uint32_t paying_connections = 0;       // more connections bring no more messages per second; 0: not known
  WallTime paying_until{};                    // when to check whether that is still so
  PEN_FIELDS(last_connect, last_close, failures, next_retry, trouble, dsn, reason, pipelining, chunking, starttls,
             size_limit, connect_time, round_trip, service_time, messages_per_connection, tolerated_connections,
             tolerated_until, used, shown, closed_after, messages_until, measured, step_by_step_until, clear_text_until,
             deferrals, asked_last_until, one_domain_until, paying_connections, paying_until)
  bool operator==(const Facts&) const = default;
};

/// An administrator's order: nothing is delivered to destinations of this name (name.h) until it is resumed. Never
/// collected.
struct Suspension {
  std::string name;    // as destination_name() gives it
  std::string reason;  // one line; may be empty
  WallTime since{};
  PEN_FIELDS(name, reason, since)
  bool operator==(const Suspension&) const = default;
};
using Suspensions = std::map<std::string, Suspension, std::less<>>;  // by name

/// A store of facts. Thread: the caller's, only one. Never waits.
class Table {
 public:
  virtual ~Table() = default;
  virtual std::optional<Facts> find(std::string_view key) = 0;
  virtual void put(std::string_view key, const Facts& facts) = 0;
  virtual const Suspensions& suspensions() const = 0;
  /// What was learned of the rate that a receiver bears, by provider, source and sender's domain
  /// (qmgr/scheduler/shaping.h).
  virtual std::optional<shaping::Learned> find_learned(std::string_view key) = 0;
  virtual void put_learned(std::string_view key, const shaping::Learned& learned) = 0;
  /// The rates that the hosts of a cluster keep together; nullptr: this host is alone.
  virtual shaping::SharedRates* shared_rates() { return nullptr; }
  /// Something was said to them that must be sent.
  virtual void shared_rates_asked() {}
  virtual void forget_learned(std::string_view key) = 0;
  /// These facts keep mail from the destination at this numeric address (empty: none): other hosts may know better.
  virtual void doubted(std::string_view key, std::string_view address, const Facts& facts) {
    (void)key, (void)address, (void)facts;
  }
};

class MemoryTable : public Table {
 public:
  std::optional<Facts> find(std::string_view key) override {
    auto it = facts_.find(std::string(key));
    if (it == facts_.end()) return std::nullopt;
    return it->second;
  }
  void put(std::string_view key, const Facts& facts) override { facts_.insert_or_assign(std::string(key), facts); }
  std::optional<shaping::Learned> find_learned(std::string_view key) override {
    const auto it = learned_.find(std::string(key));
    if (it == learned_.end()) return std::nullopt;
    return it->second;
  }
  void put_learned(std::string_view key, const shaping::Learned& learned) override {
    learned_.insert_or_assign(std::string(key), learned);
  }
  void forget_learned(std::string_view key) override { learned_.erase(std::string(key)); }
  std::size_t size() const { return facts_.size(); }
  const Suspensions& suspensions() const override { return suspensions_; }
  virtual void suspend(Suspension s) {
    std::string name = s.name;
    suspensions_.insert_or_assign(std::move(name), std::move(s));
  }
  /// False: the destination was not suspended.
  virtual bool resume(std::string_view name) {
    const auto it = suspensions_.find(name);
    if (it == suspensions_.end()) return false;
    suspensions_.erase(it);
    return true;
  }

 protected:
  std::unordered_map<std::string, Facts> facts_;
  std::unordered_map<std::string, shaping::Learned> learned_;
  Suspensions suspensions_;
};

}  // namespace pen::destdb
