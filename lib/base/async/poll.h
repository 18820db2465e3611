#pragma once
/// Readiness of one descriptor. Internal to lib/base/async; see readiness.h for awaiting it from outside.
///
/// Interest stays armed until an event arrives that nobody waits for. Changing it costs system calls, so the client
/// drops it lazily, from on_ready(). Events are level-triggered. The descriptor must stay open while a Poll watches
/// it.
#include "lib/base/async/loop.h"

namespace pen::async::detail {

class PollClient {
 public:
  /// Called by the loop, never inside another call: the descriptor is ready to read or write (an error counts as
  /// both).
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
  void drop_read() { (void)arm(-1, armed_ & ~kRead); }
  void drop_write() { (void)arm(-1, armed_ & ~kWrite); }
  /// Call this before the descriptor is closed.
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

/// Runs node.run once, in this turn or a later one, after everything that is ready. For steps that take long (the
/// arithmetic of a TLS handshake): first come, first served. A turn spends about a millisecond on such steps and does
/// at least one, so a thousand handshakes at once delay other work by no more than that. Repeated calls before the
/// step has run change nothing.
void run_when_there_is_time(Loop& loop, EndOfTurn& node);

}  // namespace pen::async::detail
