#pragma once
/// The answers to requests with an Idempotency-Key, in memory and in a file (penapi_submission_map).
///
/// Use:     KeptAnswers answers(loop, options, draining);  answers.start();
///          co_await answers.loaded(until);
///          KeptAnswers::Turn turn(answers, key);   if (!turn) … 409: another request has the key …
///          answers.find(key);   co_await answers.keep(key, answer);   co_await answers.forget(key);
/// Promise: what keep() has returned for is on disk, and is found after a kill and after a restart. Writes of requests
///          at the same time go in one transaction.
/// File:    one process has it. After a reload the next process waits until the requests with a key of the one before
///          have their answers; a process that has given the file up says so by open().
/// Damage:  a damaged file is set aside with a warning: keys of before it are new ones then. A record of another
///          form is removed, and counted in a warning. A file that cannot be read is opened anew until it can;
///          nothing is loaded before, for a key whose answer is not known would double its message.
/// Errors:  of the file: DatabaseError, errno. EAGAIN: the file is not open, or no longer.
/// Thread:  the loop's. It outlives what waits for it.
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/sync.h"
#include "lib/base/lmdb/hint_store.h"
#include "penapi/answer_table.h"

namespace pen::api {

using AnswerRecords = std::vector<std::pair<std::string, std::string>>;  // keys and values, as in the file
/// All records of the file, in a thread that may block. Errors: DatabaseError, errno.
Result<AnswerRecords> read_answers(const lmdb::HintStore& store);

class KeptAnswers {
 public:
  struct Options {
    std::string directory;
    std::size_t limit = 0;
    milliseconds time{0};
    std::function<Result<AnswerRecords>(const lmdb::HintStore&)> read = read_answers;  // on a thread
  };
  /// The loop, and draining, outlive this. draining: at the end of the process the file is given up.
  KeptAnswers(async::Loop& loop, Options options, async::Cancel* draining);
  /// Begins to open the file and to read it.
  void start();

  /// Returns when the file is open, or at the end of the patience.
  async::Task<Result<void>> loaded(async::Until until);
  bool open() const { return store_ != nullptr; }

  /// Of a request: no other one has the key meanwhile.
  class Turn {
   public:
    Turn(KeptAnswers& answers, std::string key);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    explicit operator bool() const { return mine_; }

   private:
    KeptAnswers& answers_;
    std::string key_;
    bool mine_ = false;
  };

  /// nullptr: no request had the key, or its answer is too old. Valid until something is kept or forgotten.
  const Answered* find(const std::string& key) const;
  bool has_room(const std::string& key, const Answered& answer) const { return table_.has_room(key, answer); }
  /// find() has it at once; returns when it is on disk.
  async::Task<Result<void>> keep(std::string key, Answered answer);
  /// The same for its removal.
  async::Task<Result<void>> forget(std::string key);

 private:
  struct Batch {
    explicit Batch(async::Loop& loop) : written(loop) {}
    std::vector<lmdb::Change> changes;
    async::Event written;
    Result<void> result;
  };
  static async::Task<void> run(KeptAnswers* self);
  static async::Task<void> write_out(KeptAnswers* self);
  async::Task<bool> open_file();
  /// false: the process drains.
  async::Task<bool> load();
  void take(const AnswerRecords& records);
  async::Task<Result<void>> write(std::vector<lmdb::Change> changes);

  async::Loop& loop_;
  Options options_;
  async::Cancel* draining_;
  AnswerTable table_;
  std::shared_ptr<lmdb::HintStore> store_;  // nullptr: not open yet, or given up
  std::shared_ptr<Batch> next_;             // what is written next; nullptr: nothing
  bool writing_ = false;
  std::vector<std::string> removed_;  // keys that the file must not have any longer
  std::set<std::string> turns_;
  async::Event loaded_, idle_;
  async::HandlerPool pool_;
  async::Gate tasks_;  // declared last: what runs ends first
};

}  // namespace pen::api
