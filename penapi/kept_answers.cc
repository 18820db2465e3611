#include "penapi/kept_answers.h"

#include <cerrno>
#include <utility>

#include "lib/base/log.h"

namespace pen::api {
namespace {

constexpr milliseconds kTryAgain{50};
constexpr seconds kTell{3};
constexpr seconds kClean{60};
// LMDB writes pages anew: several times what a full table takes.
constexpr std::size_t kTimes = 4;
constexpr std::size_t kLeast = std::size_t{16} << 20;

}  // namespace

Result<AnswerRecords> read_answers(const lmdb::HintStore& store) {
  AnswerRecords out;
  PEN_TRY(store.each([&](std::string_view key, std::string_view value) { out.emplace_back(key, value); }));
  return out;
}

KeptAnswers::KeptAnswers(async::Loop& loop, Options options, async::Cancel* draining)
    : loop_(loop),
      options_(std::move(options)),
      draining_(draining),
      table_(options_.limit, options_.time),
      loaded_(loop),
      idle_(loop),
      pool_(loop, 1),
      tasks_(loop) {
  idle_.set();
}

void KeptAnswers::start() { tasks_.spawn("answers", run(this)); }

async::Task<Result<void>> KeptAnswers::loaded(async::Until until) {
  if (auto waited = co_await loaded_.wait(until); !waited) co_return waited;
  if (!store_) co_return fail_errno("the answers are with the next process", EAGAIN);
  co_return Result<void>();
}

async::Task<bool> KeptAnswers::open_file() {
  const SteadyTime begin = loop_.now();
  bool told = false;
  for (;;) {
    auto opened = co_await pool_.run([directory = options_.directory, size = options_.limit * kTimes + kLeast] {
      return lmdb::HintStore::open(directory, "answers to earlier requests with an Idempotency-Key are forgotten",
                                   size);
    });
    if (opened) {
      store_ = *std::move(opened);
      if (!store_->warning().empty()) log::warning("{}", store_->warning());
      co_return true;
    }
    if (!told && (!opened.error().is_errno(EWOULDBLOCK) || loop_.now() > begin + kTell)) {
      const bool taken = opened.error().is_errno(EWOULDBLOCK);
      log::warning("penapi_submission_map: {}: requests with an Idempotency-Key are put off{}",
                   opened.error().message(),
                   taken ? "; if another service of penapi has it, give all but one -o penapi_submission_map=" : "");
      told = true;
    }
    if (!co_await loop_.sleep(opened.error().is_errno(EWOULDBLOCK) ? kTryAgain : milliseconds(kTell),
                              {.cancel = draining_}))
      co_return false;
  }
}

async::Task<bool> KeptAnswers::load() {
  for (bool told = false;; told = true) {
    if (!co_await open_file()) co_return false;
    const auto records = co_await pool_.run([store = store_, read = options_.read] { return read(*store); });
    if (records) {
      take(*records);
      co_return true;
    }
    if (!told)
      log::warning("penapi_submission_map: {}: requests with an Idempotency-Key are put off",
                   records.error().message());
    store_.reset();  // damage is found by the next opening
    if (!co_await loop_.sleep(kTell, {.cancel = draining_})) co_return false;
  }
}

void KeptAnswers::take(const AnswerRecords& records) {
  for (const auto& [key, value] : records) {
    if (auto answer = decode<Answered>(value))
      table_.put(key, *std::move(answer));
    else
      removed_.push_back(key);
  }
  if (!removed_.empty())
    log::warning(
        "penapi_submission_map: {} of {} answers to earlier requests are not readable and forgotten: their "
        "Idempotency-Keys are new ones now",
        removed_.size(), records.size());
  loaded_.set();
}

async::Task<void> KeptAnswers::run(KeptAnswers* self) {
  if (!co_await self->load()) co_return;
  for (;;) {
    std::vector<lmdb::Change> old;
    for (std::string& key : std::exchange(self->removed_, {}))
      if (self->table_.find(key, WallTime::min()) == nullptr) old.push_back({std::move(key), {}});
    for (std::string& key : self->table_.take_old(self->loop_.clock().wall_now())) old.push_back({std::move(key), {}});
    if (!old.empty())
      if (const auto done = co_await self->write(std::move(old)); !done)
        log::warning("penapi_submission_map: {}", done.error().message());
    if (!co_await self->loop_.sleep(kClean, {.cancel = self->draining_})) break;
  }
  // The next process waits for the file.
  while (!self->turns_.empty() || self->writing_) (void)co_await self->idle_.wait();
  self->store_.reset();
}

KeptAnswers::Turn::Turn(KeptAnswers& answers, std::string key) : answers_(answers), key_(std::move(key)) {
  mine_ = answers_.turns_.insert(key_).second;
  if (mine_) answers_.idle_.reset();
}

KeptAnswers::Turn::~Turn() {
  if (!mine_) return;
  answers_.turns_.erase(key_);
  if (answers_.turns_.empty() && !answers_.writing_) answers_.idle_.set();
}

const Answered* KeptAnswers::find(const std::string& key) const { return table_.find(key, loop_.clock().wall_now()); }

async::Task<Result<void>> KeptAnswers::keep(std::string key, Answered answer) {
  lmdb::Change change{key, encode(answer)};
  table_.put(key, std::move(answer));
  co_return co_await write({std::move(change)});
}

async::Task<Result<void>> KeptAnswers::forget(std::string key) {
  table_.erase(key);
  co_return co_await write({{std::move(key), std::nullopt}});
}

async::Task<Result<void>> KeptAnswers::write(std::vector<lmdb::Change> changes) {
  if (!next_) next_ = std::make_shared<Batch>(loop_);
  const auto batch = next_;
  for (lmdb::Change& change : changes) batch->changes.push_back(std::move(change));
  if (!std::exchange(writing_, true)) {
    idle_.reset();
    tasks_.spawn("write answers", write_out(this));
  }
  (void)co_await batch->written.wait();  // the disk has no time limit
  co_return batch->result;
}

async::Task<void> KeptAnswers::write_out(KeptAnswers* self) {
  while (const auto batch = std::exchange(self->next_, nullptr)) {
    if (self->store_) {
      batch->result = co_await self->pool_.run(
          [store = self->store_, changes = std::move(batch->changes)] { return store->write(changes); });
    } else {
      batch->result = fail_errno("penapi_submission_map", EAGAIN);
    }
    batch->written.set();
  }
  self->writing_ = false;
  if (self->turns_.empty()) self->idle_.set();
}

}  // namespace pen::api
