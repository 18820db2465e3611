/// A model of Postfix's queue manager: queues by domain with an adaptive concurrency, and preemption by slots.
///
/// Modelled, from Postfix's SCHEDULER_README:
///   - jobs in order of arrival; the first that is not blocked is the current one; its destinations take turns
///   - for every slot_cost entries that a job has had selected it earns one slot; a job that needs no more slots than
///     the current one has (half of them and three more on credit) goes before it; of all jobs that the current one
///     could ever let pass, the one with the largest age divided by its remaining entries is tried
///   - a domain's concurrency starts at 5, rises with each success up to the limit and falls with each failure to
///     connect; a pseudo-cohort of such failures makes the domain dead for minimal_backoff_time: what waits for it is
///     deferred at once
///   - connections are cached for two seconds (workers.h)
/// Not modelled: the limits on recipients in memory, the second's rest of the candidate's choice.
#include <map>
#include <set>

#include "bench/scheduler/workers.h"
#include "lib/base/check.h"

namespace pen::simulation {

namespace {

constexpr std::int64_t kSlotCost = 5, kSlotLoan = 3, kSlotDiscount = 50, kMinimumSlots = 3;
constexpr std::uint32_t kInitialConcurrency = 5;
constexpr seconds kDeadTime{300};  // minimal_backoff_time

class Slots final : public WithWorkers {
 public:
  Slots(World& world, const Limits& limits, std::uint64_t seed) : WithWorkers(world, limits, seed) {}

  void admit(MessageNumber number, const Ordinals& recipients) override {
    Job& job = jobs_[number];
    job.number = number;
    job.arrival = world_.arrival_of(number);
    list(job, ++arrivals_ << 32U);
    for (Task& t : tasks_of(world_, number, recipients, limits_.destination_recipients)) {
      Queue& q = queues_[t.domain];
      if (q.dead_until > world_.now()) {
        world_.deferred(number, t.ordinals);
        continue;
      }
      if (q.dead_until != SteadyTime{}) {  // tried again as if new
        q.dead_until = {};
        q.failed_cohorts = 0;
        q.window = kInitialConcurrency;
      }
      auto& peer = job.peers[t.domain];
      if (peer.empty()) job.turn.push_back(t.domain);
      ++job.left;
      peer.push_back(std::move(t));
    }
    if (job.left == 0) unlist(job);
    enter(job);
    pump();
  }
  void forget(MessageNumber number) override {
    Job& job = jobs_.at(number);
    leave(job);
    unlist(job);
    jobs_.erase(number);
  }

 private:
  struct Job {
    MessageNumber number = 0;
    SteadyTime arrival{};
    std::uint64_t key = 0;    // place in the list of jobs
    std::int64_t left = 0;    // entries not selected
    std::int64_t earned = 0;  // entries selected, less what preemption has cost
    std::unordered_map<DomainNumber, std::deque<Task>> peers;
    std::deque<DomainNumber> turn;  // peers with entries and with a queue that is not known to be full
    bool runnable = false;
    bool listed = false;
  };
  struct Queue {
    std::uint32_t busy = 0;
    std::uint32_t window = kInitialConcurrency;
    double failed_cohorts = 0;
    SteadyTime dead_until{};
    std::set<std::pair<std::uint64_t, MessageNumber>> waiting;  // jobs, by their place
  };
  // By remaining entries, then age: the best candidate is the oldest for some number of entries.
  using Age = std::pair<SteadyTime, MessageNumber>;

  void list(Job& job, std::uint64_t key) {
    job.key = key;
    job.listed = order_.insert(key).second;
    PEN_CHECK(job.listed, "two jobs at one place");
  }
  void unlist(Job& job) {
    if (job.listed) order_.erase(job.key);
    job.listed = false;
  }
  void enter(Job& job) {
    if (job.runnable || job.turn.empty()) return;
    job.runnable = true;
    runnable_.emplace(job.key, &job);
    by_left_[job.left].insert({job.arrival, job.number});
  }
  void leave(Job& job) {
    if (!job.runnable) return;
    job.runnable = false;
    runnable_.erase(job.key);
    const auto at = by_left_.find(job.left);
    at->second.erase({job.arrival, job.number});
    if (at->second.empty()) by_left_.erase(at);
  }

  Job* candidate(const Job& current, std::int64_t most) {
    Job* best = nullptr;
    double best_score = 0;
    for (const auto& [left, ages] : by_left_) {
      if (left >= most) break;
      for (const auto& [arrival, number] : ages) {
        if (number == current.number) continue;
        const double age = std::chrono::duration<double>(world_.now() - arrival).count() + 1e-3;
        const double score = age / static_cast<double>(left);
        if (best == nullptr || score > best_score) {
          best = &jobs_.at(number);
          best_score = score;
        }
        break;
      }
    }
    return best;
  }
  /// Puts the best candidate before the current job, if that has slots for it.
  bool preempt(Job& current) {
    const std::int64_t most = (current.earned + current.left) / kSlotCost;
    if (most < kMinimumSlots) return false;
    Job* best = candidate(current, most);
    if (best == nullptr) return false;
    const std::int64_t need = best->left * (100 - kSlotDiscount) / 100;
    if (current.earned / kSlotCost + kSlotLoan < need) return false;
    auto at = order_.find(current.key);
    const std::uint64_t before = at == order_.begin() ? 0 : *std::prev(at);
    // Right behind the job before it, so that there is room for many more before the current job.
    const std::uint64_t key = before + std::max<std::uint64_t>(1, (current.key - before) / 1024);
    if (key == current.key) return false;
    current.earned -= best->left * kSlotCost;  // the credit becomes a debt
    leave(*best);
    unlist(*best);
    list(*best, key);
    enter(*best);
    return true;
  }

  void pump() override {
    while (workers_.free() > 0 && !runnable_.empty()) {
      Job* job = runnable_.begin()->second;
      // A job that passed another may be passed in turn: the depth shrinks by slot_cost each time.
      while (preempt(*job)) job = runnable_.begin()->second;
      const DomainNumber domain = job->turn.front();
      leave(*job);
      job->turn.pop_front();
      Queue& q = queues_[domain];
      if (q.busy >= q.window) {
        q.waiting.emplace(job->key, job->number);
        enter(*job);
        continue;
      }
      auto& entries = job->peers.at(domain);
      Task task = std::move(entries.front());
      entries.pop_front();
      if (!entries.empty()) {
        job->turn.push_back(domain);
      } else {
        job->peers.erase(domain);
      }
      ++job->earned;
      if (--job->left == 0) unlist(*job);
      enter(*job);
      ++q.busy;
      workers_.start(std::move(task));
    }
  }

  void finished(const Task& task, bool unreachable) override {
    Queue& q = queues_.at(task.domain);
    --q.busy;
    if (unreachable) {
      q.failed_cohorts += 1.0 / q.window;
      if (q.window > 1) --q.window;
      if (q.failed_cohorts >= 1 && q.dead_until <= world_.now()) {
        q.dead_until = world_.now() + kDeadTime;
        defer_waiting(task.domain, q);
      }
    } else {
      q.failed_cohorts = 0;
      const std::uint32_t limit = limits_.destination_concurrency == 0 ? 1'000'000 : limits_.destination_concurrency;
      if (q.window < limit && q.window < q.busy + 1 + kInitialConcurrency) ++q.window;
    }
    for (std::uint32_t n = q.busy; n < q.window && !q.waiting.empty(); ++n) {
      Job& job = jobs_.at(q.waiting.begin()->second);
      q.waiting.erase(q.waiting.begin());
      leave(job);
      job.turn.push_back(task.domain);
      enter(job);
    }
    if (q.busy == 0 && q.waiting.empty() && q.dead_until == SteadyTime{} && q.failed_cohorts == 0 &&
        q.window >= limits_.destination_concurrency)
      queues_.erase(task.domain);
  }
  void defer_waiting(DomainNumber domain, Queue& q) {
    for (auto& [number, job] : jobs_) {
      const auto at = job.peers.find(domain);
      if (at == job.peers.end()) continue;
      leave(job);
      for (const Task& t : at->second) world_.deferred(number, t.ordinals);
      job.left -= static_cast<std::int64_t>(at->second.size());
      if (job.left == 0) unlist(job);
      job.peers.erase(at);
      std::erase(job.turn, domain);
      enter(job);
    }
    q.waiting.clear();
  }

  std::unordered_map<MessageNumber, Job> jobs_;
  std::unordered_map<DomainNumber, Queue> queues_;
  std::map<std::uint64_t, Job*> runnable_;
  std::set<std::uint64_t> order_;
  std::map<std::int64_t, std::set<Age>> by_left_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace

std::unique_ptr<Discipline> make_slots(World& world, const Limits& limits, std::uint64_t seed) {
  return std::make_unique<Slots>(world, limits, seed);
}

}  // namespace pen::simulation
