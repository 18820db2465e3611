#pragma once
/// One look-up in a database, in steps: which host comes next, for how long, over which connection, and what a failure
/// means for the others. Its driver does the waiting: Pools in a thread that blocks, the Asker in its loop.
///
/// Use:     LookUp one(pools, table, {.key = key, .since = asked_at}, wake);
///          switch (one.next()) …                                       (Steps, source.h)
/// Threads: what may block is in_thread(): loading a module, connecting, the questions of a driver that has no steps,
///          the end of a connection. The questions of a driver with steps are asked in next(), if there is a `wake`.
/// Owns:    the connection that it asks over; destroyed before its end, it ends that connection.
/// Thread:  one at a time. wake is called from any.
#include <functional>
#include <optional>
#include <vector>

#include "lib/map/database_pool.h"
#include "lib/map/source.h"

namespace pen::map::database {

class LookUp final : public Steps {
 public:
  struct Question {
    std::string key;
    std::optional<std::string> store;  // for memcache: the value that is put under the key
    SteadyTime since;                  // when it was asked
  };
  /// wake: empty for callers that wait in a thread; then a question is asked in one call.
  LookUp(Pools& pools, Pools::TablePtr table, Question question, std::function<void()> wake);
  ~LookUp() override;
  LookUp(const LookUp&) = delete;
  LookUp& operator=(const LookUp&) = delete;

  Next next() override;
  void in_thread() override;
  Descriptor descriptor() const override;
  SteadyTime until() const override { return until_; }
  Value take() override { return std::move(*value_); }

 private:
  friend class Pools;
  enum class State { load, begin, host, connection, connect, ask, answer, pause, done };

  void wake() const { wake_(); }
  void begin();
  void next_host();
  bool take_connection();
  void connect();
  void prepare();
  Next wait_for_answer();
  void answered(Report report);
  void give_back(bool keep);
  void drop_idle();
  bool pause_over();
  void host_reports(const Report& report);
  void give_up();
  void leave_out(Pools::Host& host) const;
  void end_with(Value value);
  void wait_until(SteadyTime until);
  void close();

  Pools& pools_;
  Pools::TablePtr table_;
  Question question_;
  std::function<void()> wake_;
  State state_ = State::load;
  Driver* driver_ = nullptr;
  Pools::Pool* pool_ = nullptr;
  SteadyTime deadline_, began_{};
  std::vector<Pools::Host*> hosts_, refused_;
  std::size_t place_ = 0;  // of the host in hosts_
  SteadyTime host_until_{}, pause_until_{}, until_{};
  std::size_t tries_ = 1;
  bool rested_ = false, rested_once_ = false;
  std::unique_ptr<Connection> connection_;
  std::optional<Values> values_;
  std::optional<Lookup> lookup_;
  Report report_;  // of the last try
  // Connections to end, and how many of them still count in the pool.
  std::vector<std::unique_ptr<Connection>> closing_;
  std::size_t counted_ = 0;
  std::uint64_t seen_ = 0;  // Pools::room_told_ when this began to wait
  Error last_{MapError::unreadable, "no time is left", ETIMEDOUT};
  std::optional<Value> value_;
};

}  // namespace pen::map::database
