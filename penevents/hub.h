#pragma once
/// What penevents does with an event: file, accounting, web servers, readers.
///
/// Use:     auto hub = Hub::open(context, secret);  hub->start();
///          hub->take(told);                      // a frame of a program
///          co_await read_stream(hub, stream);    // a reader
/// Order:   programs tell within 100 ms of what happened, each for itself: events wait for a moment and are then
///          sorted by their time. An event is in the backlog before it is in the files, and in memory last.
/// Logs:    what cannot be written, once a minute; a web server's failures, once until it takes a batch again.
/// Thread:  the loop's; posting and compressing in the pool's.
#include <functional>
#include <memory>
#include <optional>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/sync.h"
#include "lib/suite/ipc/events.h"
#include "lib/suite/service/service.h"
#include "penevents/backlog.h"
#include "penevents/recent.h"
#include "penevents/request.h"
#include "penevents/rotating_file.h"

namespace pen::penevents {

class Hub : public std::enable_shared_from_this<Hub> {
 public:
  static constexpr std::size_t kMaxHooks = 32;

  /// Checks the settings. Errors: what open() cannot use.
  static Result<void> check(const config::Settings& settings);
  static Result<std::shared_ptr<Hub>> open(service::Context& context, std::string secret);
  /// Begins the tasks that send and tidy.
  void start();
  /// False: the frame is malformed from some event on. written: called when its events are where they belong.
  bool take(const ipc::events::Told& told, std::function<void()> written);
  /// An event of our own.
  void tell(const events::Event& event);
  /// Somebody may have moved the files.
  void look_at_files();
  static async::Task<void> read_stream(std::shared_ptr<Hub> hub, async::Stream stream);
  std::vector<std::string> status() const;
  async::Loop& loop() { return loop_; }
  /// What is to be said at the end.
  void end();

 private:
  struct Hook {
    std::string url;
    std::string shown;  // without its user part, for people
    std::uint64_t position = 0;
    unsigned failures = 0;
    std::uint64_t sent = 0, dropped = 0;
  };
  struct Origins {
    std::string_view program, service;
    std::uint64_t pid;
  };
  /// What a program sent at once; the events' texts lie in it.
  struct Frame {
    std::string events, program, service;
    std::uint64_t pid = 0;
  };
  struct Waiting {
    events::Seen event;
    std::shared_ptr<const Frame> frame;
    std::size_t number = 0;  // as it came
  };

  Hub(service::Context& context, std::string secret, std::size_t hooks);
  Result<void> open_files();
  Result<void> open_hooks();
  void settle();
  void settle_soon();
  void add(const events::Seen& event, const Origins& origin);
  void write_out();
  void tell_dropped(std::uint64_t count, std::string_view program, std::string_view why);
  void pass_over(Hook& hook, std::uint64_t to, std::string_view why);
  void keep_bounds();
  void complain(const Error& error);
  static async::Task<void> serve_hook(std::shared_ptr<Hub> hub, std::size_t index);
  static async::Task<void> post(std::shared_ptr<Hub> hub, std::size_t index, std::string lines);
  static async::Task<void> keep_tidy(std::shared_ptr<Hub> hub);
  async::Task<Result<void>> hand_out(async::Stream& stream, Request wanted);

  service::Context& context_;
  async::Loop& loop_;
  const config::Settings& settings_;
  std::string secret_, directory_;
  async::HandlerPool pool_;
  async::Event more_, renamed_;
  std::optional<RotatingFile> log_, accounting_;
  std::optional<Backlog> backlog_;
  std::vector<Hook> hooks_;
  Types log_types_, hook_types_;
  Recent recent_;
  std::size_t readers_ = 0;
  std::vector<Waiting> waiting_;  // for others that happened before
  std::size_t waiting_bytes_ = 0;
  std::vector<std::function<void()>> unanswered_;  // of the programs that told what waits
  async::Loop::TimerHandle settling_;
  std::string log_lines_, accounting_lines_, hook_lines_;  // of the frame at hand
  std::uint64_t last_id_ = 0, taken_ = 0, lost_ = 0, malformed_ = 0, late_readers_ = 0;
  SteadyTime complained_{};
};

}  // namespace pen::penevents
