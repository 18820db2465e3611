#include "lib/map/ask.h"

#include <fmt/format.h>

#include <cerrno>

#include "lib/base/async/error.h"
#include "lib/base/async/readiness.h"
#include "lib/base/async/stream.h"
#include "lib/base/check.h"
#include "lib/map/source.h"
#include "lib/net/helper/reach.h"

namespace pen::map {

using async::Task;
using async::Until;
using async::WaitError;

namespace {

thread_local Inquiry* current_inquiry = nullptr;

// A chain of this many questions would never end; its keys may be random values.
constexpr std::size_t kMaxAnswers = 100'000;
// Names of table servers are looked up again after this time; after a failure at the next question.
constexpr seconds kNameFresh{60};
// A question under way for longer than kSlow no longer counts among Limits::connections: a server that answers some
// keys and hangs at others still answers the former. The total number of connections is at most kMostSlow times
// Limits::connections.
constexpr seconds kSlow{1};
constexpr std::size_t kMostSlow = 10;

/// The error of a wait as an error of a table.
Error trouble(const ServerSource& server, const Error& error) {
  if (error.is(WaitError::timed_out)) return Error(MapError::unreadable, server.name() + ": no answer", ETIMEDOUT);
  if (error.is(WaitError::closed))
    return Error(MapError::unreadable, server.name() + ": the server closed the connection");
  return Error(MapError::unreadable, server.name() + ": " + error.message());
}

}  // namespace

Inquiry* Inquiry::current() { return current_inquiry; }
Inquiry::Scope::Scope(Inquiry& inquiry) {
  PEN_CHECK(current_inquiry == nullptr, "one piece of work at a time");
  current_inquiry = &inquiry;
}
Inquiry::Scope::~Scope() { current_inquiry = nullptr; }

Value Inquiry::answer(const std::shared_ptr<const Source>& source, std::string_view key) {
  if (const auto known = answers_.find(Key(source->name(), key)); known != answers_.end()) return known->second;
  if (answers_.size() + questions_.size() >= kMaxAnswers)
    return fail(MapError::too_large, source->name() + ": endless look-ups");
  questions_.push_back({source, std::string(key)});
  return fail(MapError::pending, source->name());
}
void Inquiry::settle(const Question& question, Value value) {
  answers_.insert_or_assign(Key(question.source->name(), question.key), std::move(value));
}

Value answer_from(const std::shared_ptr<const Source>& source, std::string_view key) {
  if (Inquiry* inquiry = Inquiry::current()) return inquiry->answer(source, key);
  return source->ask_now(std::string(key));
}

struct Asker::Pending {
  explicit Pending(async::Loop& loop) : done(loop) {}
  async::Event done;
  Value value = std::nullopt;
};

/// The connections to one table server, and the questions that wait for one.
class Asker::Line {
 public:
  Line(async::Loop& loop, async::Gate& gate, std::size_t connections)
      : loop_(loop),
        gate_(gate),
        places_(loop, connections),
        sockets_(loop, kMostSlow * connections),
        resolved_(loop) {}

  Task<Value> ask(std::shared_ptr<const ServerSource> server, std::string key, Until until) {
    if (auto place = co_await places_.acquire(until); !place)
      co_return std::unexpected(trouble(*server, place.error()));
    if (auto socket = co_await sockets_.acquire(until); !socket) {
      places_.release();
      co_return std::unexpected(trouble(*server, socket.error()));
    }
    bool counted = true;
    const auto slow = loop_.call_at(loop_.now() + kSlow, [this, &counted] {
      counted = false;
      places_.release();
    });
    Value value = co_await ask_over_connection(*server, std::move(key), until);
    if (counted) places_.release();
    sockets_.release();
    co_return value;
  }

 private:
  Task<Value> ask_over_connection(const ServerSource& server, std::string key, Until until) {
    const std::string request = server.request(key);
    while (!idle_.empty()) {
      async::Stream stream = std::move(idle_.back());
      idle_.pop_back();
      // Unexpected input would be taken for the answer.
      if (stream.poll_input() || stream.broken()) continue;
      auto answer = co_await talk(server, std::move(stream), request, until);
      if (answer) co_return server.meaning(*answer);
      if (answer.error().is_errno(ETIMEDOUT)) co_return std::unexpected(std::move(answer).error());
      idle_.clear();  // the server has closed its connections, perhaps to restart
    }
    auto fresh = co_await connect_to(server, until);
    if (!fresh) co_return std::unexpected(std::move(fresh).error());
    auto answer = co_await talk(server, *std::move(fresh), request, until);
    if (!answer) co_return std::unexpected(std::move(answer).error());
    co_return server.meaning(*answer);
  }

  Task<Result<std::string>> talk(const ServerSource& server, async::Stream stream, std::string request, Until until) {
    stream.write(request);
    std::string got;
    for (;;) {
      const auto more = co_await stream.read_some(ServerSource::kMaxReply, until);
      if (!more) co_return std::unexpected(trouble(server, more.error()));
      got.append(*more);
      const auto all = server.complete(got);
      if (!all) co_return std::unexpected(all.error());
      if (!*all) continue;
      stream.shrink_input();
      if (idle_.size() < ServerSource::kMaxIdle) idle_.push_back(std::move(stream));
      co_return got;
    }
  }

  Task<Result<async::Stream>> connect_to(const ServerSource& server, Until until) {
    auto addresses = co_await addresses_of(server, until);
    if (!addresses) co_return std::unexpected(std::move(addresses).error());
    auto stream = co_await helper::reach(loop_, *std::move(addresses), until);
    if (!stream) co_return std::unexpected(trouble(server, stream.error()));
    co_return stream;
  }

  Task<Result<std::vector<async::SocketAddress>>> addresses_of(const ServerSource& server, Until until) {
    const auto& at = server.address();
    if (!at.has_name()) co_return at.ways();
    if (loop_.now() >= fresh_until_) {
      if (!resolving_) {
        resolving_ = true;
        resolved_.reset();
        gate_.spawn("address of " + at.host, resolve(this, at));
      }
      if (auto waited = co_await resolved_.wait(until); !waited)
        co_return std::unexpected(trouble(server, waited.error()));
    }
    if (!found_) co_return fail(MapError::unreadable, server.name() + ": " + found_.error().context());
    co_return found_;
  }
  static Task<void> resolve(Line* self, ServerSource::Address server) {
    if (!self->resolver_) self->resolver_.emplace(self->loop_, 1);
    self->found_ = co_await self->resolver_->run([server] { return helper::look_up(server); });
    self->fresh_until_ = self->found_ ? self->loop_.now() + kNameFresh : SteadyTime();
    self->resolving_ = false;
    self->resolved_.set();
  }

  async::Loop& loop_;
  async::Gate& gate_;
  async::Semaphore places_;   // for questions that are not slow
  async::Semaphore sockets_;  // for all
  std::vector<async::Stream> idle_;
  // For a server known by name: one look-up at a time, in a thread of its own.
  std::optional<async::HandlerPool> resolver_;
  Result<std::vector<async::SocketAddress>> found_;
  SteadyTime fresh_until_{};
  bool resolving_ = false;
  async::Event resolved_;
};

Asker::Asker(async::Loop& loop, Limits limits) : loop_(loop), limits_(limits), gate_(loop) {}
Asker::~Asker() = default;

std::string Asker::status_line() const {
  return fmt::format("tables: asked={}, joined={}, failed={}, under_way={}", counts_.asked, counts_.joined,
                     counts_.failed, counts_.under_way);
}

Asker::Line& Asker::line_to(const Inquiry::Question& question) {
  auto& line = lines_[question.source->name()];
  if (!line) line = std::make_unique<Line>(loop_, gate_, limits_.connections);
  return *line;
}

Task<Value> Asker::from_accounts(Inquiry::Question question) {
  if (!accounts_) accounts_.emplace(loop_, limits_.account_threads);
  co_return co_await accounts_->run(
      [question = std::move(question)] { return question.source->ask_now(question.key); });
}

/// The questions to one database: as many at once as it has connections, and as many threads for what blocks.
struct Asker::Lane {
  Lane(async::Loop& loop, std::size_t width) : threads(loop, width), places(loop, width) {}
  async::HandlerPool threads;
  async::Semaphore places;
};

Task<Value> Asker::from_lane(std::shared_ptr<const PooledSource> source, std::string key, Until until) {
  auto& slot = lanes_[source->lane()];
  if (!slot) slot = std::make_unique<Lane>(loop_, source->lane_width());
  Lane& lane = *slot;
  const SteadyTime since = system_clock().now();
  if (!source->in_steps())
    co_return co_await lane.threads.run(
        [source = std::move(source), key = std::move(key), since] { return source->ask(key, since); });
  if (auto place = co_await lane.places.acquire(until); !place)
    co_return fail(MapError::unreadable, source->name() + ": no answer", ETIMEDOUT);
  Value value = co_await through_steps(lane.threads, std::move(source), std::move(key), since);
  lane.places.release();
  co_return value;
}

Task<Value> Asker::through_steps(async::HandlerPool& threads, std::shared_ptr<const PooledSource> source,
                                 std::string key, SteadyTime since) {
  auto changed = std::make_shared<async::Event>(loop_);
  // Others give connections back, in their threads.
  auto begun =
      source->begin(key, since, [&loop = loop_, changed] { loop.post_from_thread([changed] { changed->set(); }); });
  if (!begun) co_return std::unexpected(std::move(begun).error());
  if (*begun == nullptr) co_return std::nullopt;
  const std::shared_ptr<Steps> steps = *std::move(begun);
  for (;;) {
    switch (steps->next()) {
      case Steps::Next::thread:
        co_await threads.run_erased([steps] { steps->in_thread(); });
        break;
      case Steps::Next::descriptor: {
        // What ends the wait, readiness, time or an error, the next step finds out.
        const auto [fd, write] = steps->descriptor();
        const Until until{.deadline = steps->until()};
        async::Readiness readiness(loop_, fd);
        const auto ready = write ? co_await readiness.writable(until) : co_await readiness.readable(until);
        // A descriptor that cannot be watched must not make this a loop without a wait.
        if (!ready && !ready.error().is(WaitError::timed_out)) (void)co_await loop_.sleep(milliseconds(16), until);
        break;
      }
      case Steps::Next::room:
        (void)co_await changed->wait({.deadline = steps->until()});
        changed->reset();
        break;
      case Steps::Next::done:
        co_return steps->take();
    }
  }
}

Task<void> Asker::answer(Asker* self, Inquiry::Question question, std::shared_ptr<Pending> pending) {
  const Until until{.deadline = self->loop_.now() + self->limits_.patience};
  if (auto server = std::dynamic_pointer_cast<const ServerSource>(question.source))
    pending->value = co_await self->line_to(question).ask(std::move(server), question.key, until);
  else if (auto pooled = std::dynamic_pointer_cast<const PooledSource>(question.source))
    pending->value = co_await self->from_lane(std::move(pooled), question.key, until);
  else
    pending->value = co_await self->from_accounts(question);
  if (!pending->value) ++self->counts_.failed;
  self->under_way_.erase({question.source->name(), question.key});
  --self->counts_.under_way;
  pending->done.set();
}

std::shared_ptr<Asker::Pending> Asker::begin(const Inquiry::Question& question) {
  auto& pending = under_way_[{question.source->name(), question.key}];
  ++counts_.asked;
  if (pending) {
    ++counts_.joined;
    return pending;
  }
  pending = std::make_shared<Pending>(loop_);
  ++counts_.under_way;
  gate_.spawn("ask " + question.source->name(), answer(this, question, pending));
  return pending;
}

Task<void> Asker::settle(Inquiry& inquiry) {
  const auto questions = inquiry.take_questions();
  std::vector<std::shared_ptr<Pending>> pending;
  pending.reserve(questions.size());
  for (const auto& question : questions) pending.push_back(begin(question));
  const Until until{.deadline = loop_.now() + limits_.patience};
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const auto waited = co_await pending[i]->done.wait(until);
    // The name service has no time limit of its own.
    inquiry.settle(questions[i],
                   waited ? pending[i]->value
                          : fail(MapError::unreadable, questions[i].source->name() + ": no answer", ETIMEDOUT));
  }
}

}  // namespace pen::map
