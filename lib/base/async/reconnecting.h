#pragma once
/// Reconnecting: keeps one connection to a server: makes it, and makes it again at a pace when it is lost.
///
/// Use:     Reconnecting kept_(loop, {}, [this] { return session(); }, [this](const auto& end) { over(end); });
///          kept_.start("redis");
///          Task<Error> session() { …connect…; kept_.connected(); …until it is lost…; co_return why; }
/// Rules:   one attempt runs at a time. `ended` is called after each, from the same task, before the pause.
///          No pause is shorter than the pace's first.
///          Owners that need the connection only now and then set on_demand: an attempt then waits for want().
/// Owns:    the task, and with it the attempt that is under way: never destroyed or stopped from within a handler.
/// Thread:  the loop's.
/// See:     lib/suite/ipc/link.h, which is this for conversations of the suite.
#include <functional>
#include <optional>
#include <string>

#include "lib/base/async/sync.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"

namespace pen::async {

class Reconnecting {
 public:
  struct Options {
    Pace::Options pace = {};
    bool on_demand = false;
    // takes up to a quarter off each pause, for a server that many hosts lose in one moment
    Random* jitter = nullptr;
  };
  struct End {
    Error why;
    bool lost;     // there was a connection; else none could be had
    int failures;  // attempts in a row without a connection, this one included
    bool first;    // since the last connection was made, or since the start
  };
  /// Makes a connection, calls connected(), and returns why the connection ended, or could not be made.
  using Attempt = std::function<Task<Error>()>;
  using Ended = std::function<void(const End&)>;

  Reconnecting(Loop& loop, Options options, Attempt attempt, Ended ended);
  Reconnecting(const Reconnecting&) = delete;
  Reconnecting& operator=(const Reconnecting&) = delete;

  void start(std::string name);
  /// Destroys the task.
  void stop() { gate_.reset(); }
  /// The attempt has its connection. True: an end was reported before.
  bool connected();
  bool is_connected() const { return since_ != kNever; }
  /// The connection is needed.
  void want() { wanted_.set(); }
  /// The connection is needed now: a longer pause than the pace's first ends early.
  void hurry();
  /// How many there were, the present one included.
  std::uint64_t connections() const { return connections_; }
  /// Why the last one ended, or could not be made; empty: it is there, or none was tried yet.
  const std::string& last_error() const { return last_error_; }

 private:
  Task<void> run();
  Task<void> pause(milliseconds time);

  Loop& loop_;
  Options options_;
  Attempt attempt_;
  Ended ended_;
  Pace pace_;
  Event wanted_, hurried_;
  SteadyTime since_ = kNever;  // the connection was made
  std::uint64_t connections_ = 0;
  int failures_ = 0;
  bool down_ = false;  // an end was reported, and no connection made since
  std::string last_error_;
  std::optional<Gate> gate_;  // last: its task uses the rest
};

}  // namespace pen::async
