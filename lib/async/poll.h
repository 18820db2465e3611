#pragma once
/// Readiness of one descriptor. Internal to lib/async; see readiness.h for awaiting it from outside.
///
/// Interest stays armed until an event arrives that nobody waits for: changing it costs system
/// calls, so the client drops it lazily, from on_ready(). Events are level-triggered. The
/// descriptor must stay open while a Poll has it.
#include "lib/async/loop.h"

namespace pen::async::detail {

class PollClient {
 public:
  /// Ready to read or write (an error counts as both). From the loop, never inside another's call.
  virtual void on_ready(bool readable, bool writable) = 0;
  /// Whether anybody waits for this descriptor (Loop::run() ends when nobody waits for anything).
  virtual bool waiting() const = 0;

 protected:
  ~PollClient() = default;
};

class Poll : public Link {
 public:
  Poll(Loop& loop, PollClient& client) : loop_(loop), client_(&client) {}
  ~Poll() { detach(); }
  Poll(const Poll&) = delete;
  Poll& operator=(const Poll&) = delete;

  /// Arms interest if it is not armed yet. Returns 0 or an errno.
  int want_read(int fd) { return arm(fd, armed_ | kRead); }
  int want_write(int fd) { return arm(fd, armed_ | kWrite); }
  void drop_read() { static_cast<void>(arm(-1, armed_ & ~kRead)); }
  void drop_write() { static_cast<void>(arm(-1, armed_ & ~kWrite)); }
  /// Before the descriptor is closed.
  void detach();
  PollClient& client() { return *client_; }

 private:
  static constexpr unsigned kRead = 1, kWrite = 2;
  struct Handle;
  int arm(int fd, unsigned events);

  Loop& loop_;
  PollClient* client_;
  Handle* handle_ = nullptr;
  unsigned armed_ = 0;
};

Link& poll_list(Loop& loop);

/// Runs node.run once, in this turn or a later one, behind all that is ready: for steps that take long (the
/// arithmetic of a handshake). First come, first served; a turn spends about a millisecond on such steps, and does
/// one at least, so that a thousand that come together hold up nobody else by more than that. Asking again before it
/// has run changes nothing.
void run_when_there_is_time(Loop& loop, EndOfTurn& node);

}  // namespace pen::async::detail
