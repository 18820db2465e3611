#pragma once
/// The suppression list of anvil: questions, failures and orders, its file, other hosts of the cluster, and what is
/// said of changes.
///
/// Use:     Suppression list(loop, {.directory = …, .rules = …, .exempt = maps}, log::as_warning);
///          auto answer = co_await list.ask(question);    co_await list.record(failure);
///          auto done = co_await list.order(add);         auto page = co_await list.list(request);
///          co_await list.finish();
/// Starts:  the file is opened with the first request; where that fails, once more each kOpenEach with a request.
/// Durable: record() and order() end when the change is on disk. What comes at once shares a transaction.
/// Cluster: share() before the first request. A host asks redis about each address, and the later change counts. An
///          address of which redis has forgotten all is told again.
/// Fails:   what cannot be read is Standing::unknown, and the mail goes on; a line of the log says so, once a minute.
/// Bounds:  kMostWaiting changes wait at once, kMostUnderWay questions to redis; further ones are answered without.
/// Thread:  the loop's. Its tasks end before it: finish().
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "anvil/suppression_store.h"
#include "lib/base/async/handler_pool.h"
#include "lib/base/async/sync.h"
#include "lib/config/settings.h"
#include "lib/map/ask.h"
#include "lib/map/map.h"
#include "lib/net/redis/shared_hints.h"

namespace pen::anvil {

class Suppression {
 public:
  static constexpr seconds kPatience{3}, kOpenEach{10}, kCleanEvery{2};
  static constexpr std::size_t kMostWaiting = 10'000, kMostUnderWay = 500;

  struct Options {
    std::string directory;
    SuppressionStore::Options store;
    SuppressionRules rules;
    map::MapList exempt;  // suppression_exempt_maps
    /// As the settings say. Errors: suppression_exempt_maps cannot be opened.
    static Result<Options> of(const config::Settings& s);
  };
  using Warn = std::function<void(const std::string& line)>;

  Suppression(async::Loop& loop, Options options, Warn warn);
  void share(redis::ClientOptions options, const std::string& prefix, redis::SharedHints::Say say);

  async::Task<ipc::suppression::Answer> ask(ipc::suppression::Ask question);
  /// False: it could not be written, and is lost.
  async::Task<bool> record(ipc::suppression::Failure failure);
  async::Task<ipc::suppression::Done> order(ipc::suppression::Add add);
  async::Task<ipc::suppression::Done> order(ipc::suppression::Remove remove);
  async::Task<ipc::suppression::Listed> list(ipc::suppression::List request);
  async::Task<void> finish();
  /// finish() was called: what is asked from now on, the next process answers.
  bool leaving() const { return stopping_now_; }
  /// For the status report; "": no request has come.
  std::string status_line() const;

 private:
  using Change = SuppressionStore::Change;
  using Outcome = SuppressionStore::Outcome;
  struct Waiting {
    explicit Waiting(async::Loop& loop, Change change_in) : change(std::move(change_in)), written(loop) {}
    Change change;
    Result<Outcome> outcome = Outcome{};
    async::Event written;
  };
  async::Task<bool> ready();
  static async::Task<void> open(Suppression* self);
  static async::Task<void> write(Suppression* self);
  static async::Task<void> clean(Suppression* self);
  async::Task<Result<Outcome>> change(Change change);
  /// What is known here and, in a cluster, elsewhere.
  async::Task<Result<std::optional<SuppressionRecord>>> known(std::string key);
  async::Task<void> hear(std::string key);
  void tell_others(const std::string& key, const SuppressionRecord& record);
  /// Whether mail of this sender is not stopped.
  async::Task<Result<bool>> exempt(std::string sender, std::string tenant);
  void say(const Change& change, const Outcome& outcome);
  void complain(const std::string& line);
  WallTime now() const { return loop_.clock().wall_now(); }

  async::Loop& loop_;
  Options options_;
  Warn warn_;
  map::Asker tables_;
  std::shared_ptr<SuppressionStore> store_;     // nullptr: it is not open
  std::unique_ptr<redis::SharedHints> others_;  // nullptr: no host shares anything
  bool opening_ = false, writing_ = false, stopping_now_ = false;
  SteadyTime opened_at_ = SteadyTime::min();  // the last attempt
  SteadyTime complained_ = SteadyTime::min();
  std::size_t under_way_ = 0;
  std::deque<std::shared_ptr<Waiting>> waiting_;
  async::Event opened_, more_;
  async::Cancel stopping_;
  async::HandlerPool readers_, writer_;
  async::Gate tasks_;  // declared last: what runs ends first
};

}  // namespace pen::anvil
