#pragma once
/// The last events of the mail system, as penevents sends them at public/event-stream (docs/events.md).
///
/// Use:     EventTail tail(loop, path);  tail.start();
///          for (const auto& e : tail.recent()) … e.line …;   co_await tail.wait(after, until)
/// Rules:   penevents may be gone or not there: the tail tries again every kAgain, and says so by connected().
/// Bounds:  kMost lines of at most kMaxLine bytes are kept.
/// Thread:  the loop's. It must outlive its task: it lives as long as the process.
#include <deque>
#include <string>

#include "lib/base/async/stream.h"
#include "lib/base/async/sync.h"

namespace pen::api {

class EventTail {
 public:
  static constexpr std::size_t kMost = 2000, kMaxLine = 64 * 1024;
  static constexpr seconds kAgain{5};

  struct Line {
    std::uint64_t number = 0;  // 1 is the first one since this process began
    std::string text;          // one JSON object
  };

  EventTail(async::Loop& loop, std::string path) : loop_(loop), path_(std::move(path)), more_(loop) {}
  void start() { loop_.spawn("events", follow(this)); }
  bool connected() const { return connected_; }
  const std::deque<Line>& recent() const { return lines_; }
  std::uint64_t last() const { return count_; }
  /// Returns when a line with a larger number than `after` has come. False: the time is over.
  async::Task<bool> wait(std::uint64_t after, async::Until until);

 private:
  static async::Task<void> follow(EventTail* self);
  void add(std::string_view text);

  async::Loop& loop_;
  std::string path_;
  std::deque<Line> lines_;
  std::uint64_t count_ = 0, last_id_ = 0;
  bool connected_ = false;
  async::Event more_;
};

}  // namespace pen::api
