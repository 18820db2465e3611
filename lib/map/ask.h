#pragma once
/// Asker: look-ups in tables that another process or the name service answers for. The loop, its threads and other
/// look-ups do not wait for them.
///
/// Use:     Asker tables(loop);
///          auto hit = co_await tables.ask([maps, address] { return find_address(maps, address, keys); });
/// How:     the work is plain code and runs in the loop's thread as if every answer were there. A table that has to
///          ask a server fails with MapError::pending, which ends the work like any error of a table. Then the
///          question is asked, and the work runs again and finds the answers to all earlier questions. Only the last
///          run counts. Work that continues after an error gets the answers to several questions at once.
/// Work:    may run any number of times. So it must change nothing outside itself and consume nothing it holds.
/// Bounds:  a question is answered within Limits::patience, or is an error. Each table server gets at most
///          Limits::connections, so that one that hangs takes nothing from the others; the name service has threads of
///          its own, and so has each database. Callers that ask the same question at the same time share one answer.
/// Thread:  the loop's. The Asker must outlive its ask()s. Destroying an ask() withdraws it.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/sync.h"
#include "lib/map/map.h"

namespace pen::map {

class PooledSource;
class Source;

/// The questions and answers of one piece of work.
class Inquiry {
 public:
  struct Question {
    std::shared_ptr<const Source> source;
    std::string key;
  };
  /// For tables: returns the answer, or the error pending after noting the question.
  Value answer(const std::shared_ptr<const Source>& source, std::string_view key);
  /// The Inquiry of the work that runs now in this thread; nullptr: none.
  static Inquiry* current();

  template <class F>
  std::invoke_result_t<F&> run(F& work) {
    const Scope scope(*this);
    return work();
  }
  /// The questions of the last run that had no answer.
  std::vector<Question> take_questions() { return std::exchange(questions_, {}); }
  bool unanswered() const { return !questions_.empty(); }
  void settle(const Question& question, Value value);
  /// Whether no run of the work has asked before, for what is reported of a look-up once.
  bool first_time(const std::string& table, std::string_view key) { return told_.emplace(table, key).second; }

 private:
  struct Scope {
    explicit Scope(Inquiry& inquiry);
    ~Scope();
  };
  using Key = std::pair<std::string, std::string>;  // source, key
  std::map<Key, Value> answers_;
  std::set<Key> told_;
  std::vector<Question> questions_;
};

class Asker {
 public:
  struct Limits {
    std::size_t connections = 100;  // as many as Postfix has processes (default_process_limit)
    std::chrono::nanoseconds patience = seconds(30);
    std::size_t account_threads = 8;  // look-ups that wait for the name service at the same time
  };
  explicit Asker(async::Loop& loop) : Asker(loop, Limits()) {}
  Asker(async::Loop& loop, Limits limits);
  ~Asker();
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  template <class F, class R = std::invoke_result_t<F&>>
  async::Task<R> ask(F work) {
    Inquiry inquiry;
    for (;;) {
      R result = inquiry.run(work);
      if (!inquiry.unanswered()) co_return result;
      co_await settle(inquiry);
    }
  }
  /// The same for work that also reads files: each run is in a thread of the pool, so the work must own what it uses.
  template <class F, class R = std::invoke_result_t<F&>>
  async::Task<R> ask_in(async::HandlerPool& pool, F work) {
    struct Shared {
      Inquiry inquiry;
      F work;
    };
    const auto shared = std::make_shared<Shared>(Shared{{}, std::move(work)});
    for (;;) {
      R result = co_await pool.run([shared] { return shared->inquiry.run(shared->work); });
      if (!shared->inquiry.unanswered()) co_return result;
      co_await settle(shared->inquiry);
    }
  }

  struct Counts {
    std::uint64_t asked = 0, joined = 0, failed = 0;
    std::size_t under_way = 0;
  };
  const Counts& counts() const { return counts_; }
  /// A line for the program's status report.
  std::string status_line() const;

 private:
  struct Pending;  // a question under way
  class Line;      // the connections to one table server
  struct Lane;     // the questions to one database
  async::Task<void> settle(Inquiry& inquiry);
  std::shared_ptr<Pending> begin(const Inquiry::Question& question);
  static async::Task<void> answer(Asker* self, Inquiry::Question question, std::shared_ptr<Pending> pending);
  async::Task<Value> from_accounts(Inquiry::Question question);
  async::Task<Value> from_lane(std::shared_ptr<const PooledSource> source, std::string key, async::Until until);
  async::Task<Value> through_steps(async::HandlerPool& threads, std::shared_ptr<const PooledSource> source,
                                   std::string key, SteadyTime since);
  Line& line_to(const Inquiry::Question& question);

  async::Loop& loop_;
  Limits limits_;
  Counts counts_;
  std::optional<async::HandlerPool> accounts_;  // made when it is first needed
  std::map<std::string, std::unique_ptr<Line>> lines_;
  std::map<std::string, std::unique_ptr<Lane>> lanes_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Pending>> under_way_;
  async::Gate gate_;  // declared last: questions under way are destroyed first
};

}  // namespace pen::map
