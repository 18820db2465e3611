/// The two schedulers that docs/origins.md rejects: first come first served, and equal workers for each message. Both
/// keep default_destination_concurrency_limit by domain: tasks beyond it wait aside and cost no worker.
#include <map>
#include <set>

#include "bench/scheduler/workers.h"

namespace pen::simulation {

namespace {

class Simple : public WithWorkers {
 public:
  Simple(World& world, const Limits& limits, std::uint64_t seed) : WithWorkers(world, limits, seed) {}

 protected:
  virtual bool ready() const = 0;
  /// The next task in line; called only if ready().
  virtual Task take() = 0;
  /// Returns a task that waited for its domain; it goes before all later tasks.
  virtual void put_back(Task&& task) = 0;
  virtual void ended(MessageNumber) {}

  void pump() final {
    while (workers_.free() > 0 && ready()) {
      Task task = take();
      Domain& d = domains_[task.domain];
      if (limits_.destination_concurrency != 0 && d.busy >= limits_.destination_concurrency) {
        ended(task.message);
        d.aside.push_back(std::move(task));
        continue;
      }
      ++d.busy;
      workers_.start(std::move(task));
    }
  }

 private:
  struct Domain {
    std::uint32_t busy = 0;
    std::deque<Task> aside;
  };
  void finished(const Task& task, bool) override {
    ended(task.message);
    const auto at = domains_.find(task.domain);
    --at->second.busy;
    if (!at->second.aside.empty()) {
      Task next = std::move(at->second.aside.front());
      at->second.aside.pop_front();
      put_back(std::move(next));
    } else if (at->second.busy == 0) {
      domains_.erase(at);
    }
  }
  std::unordered_map<DomainNumber, Domain> domains_;
};

class FirstCome final : public Simple {
 public:
  using Simple::Simple;
  void admit(MessageNumber m, const Ordinals& recipients) override {
    for (Task& t : tasks_of(world_, m, recipients, limits_.destination_recipients)) queue_.push_back(std::move(t));
    pump();
  }
  void forget(MessageNumber) override {}

 private:
  bool ready() const override { return !queue_.empty(); }
  Task take() override {
    Task t = std::move(queue_.front());
    queue_.pop_front();
    return t;
  }
  void put_back(Task&& task) override { queue_.push_front(std::move(task)); }
  std::deque<Task> queue_;
};

class Equal final : public Simple {
 public:
  using Simple::Simple;
  void admit(MessageNumber m, const Ordinals& recipients) override {
    Message& message = messages_[m];
    for (Task& t : tasks_of(world_, m, recipients, limits_.destination_recipients))
      message.tasks.push_back(std::move(t));
    enter(m, message);
    pump();
  }
  void forget(MessageNumber m) override { messages_.erase(m); }

 private:
  struct Message {
    std::deque<Task> tasks;
    std::uint32_t workers = 0;
    std::uint64_t turn = 0;  // when it last got a worker
    bool in_line = false;
  };
  // The message with the fewest workers is next; among equals, the one that has waited longest.
  using Place = std::tuple<std::uint32_t, std::uint64_t, MessageNumber>;
  static Place place(MessageNumber number, const Message& m) { return {m.workers, m.turn, number}; }
  void enter(MessageNumber number, Message& m) {
    if (m.in_line || m.tasks.empty()) return;
    m.in_line = true;
    line_.insert(place(number, m));
  }
  void leave(MessageNumber number, Message& m) {
    if (!m.in_line) return;
    m.in_line = false;
    line_.erase(place(number, m));
  }
  bool ready() const override { return !line_.empty(); }
  Task take() override {
    const MessageNumber number = std::get<2>(*line_.begin());
    Message& m = messages_.at(number);
    leave(number, m);
    Task t = std::move(m.tasks.front());
    m.tasks.pop_front();
    ++m.workers;
    m.turn = ++turns_;
    enter(number, m);
    return t;
  }
  void put_back(Task&& task) override {
    const MessageNumber number = task.message;
    Message& m = messages_.at(number);
    m.tasks.push_front(std::move(task));
    enter(number, m);
  }
  void ended(MessageNumber number) override {
    Message& m = messages_.at(number);
    leave(number, m);
    --m.workers;
    enter(number, m);
  }
  std::unordered_map<MessageNumber, Message> messages_;
  std::set<Place> line_;
  std::uint64_t turns_ = 0;
};

}  // namespace

std::unique_ptr<Discipline> make_first_come(World& world, const Limits& limits, std::uint64_t seed) {
  return std::make_unique<FirstCome>(world, limits, seed);
}
std::unique_ptr<Discipline> make_equal(World& world, const Limits& limits, std::uint64_t seed) {
  return std::make_unique<Equal>(world, limits, seed);
}

}  // namespace pen::simulation
