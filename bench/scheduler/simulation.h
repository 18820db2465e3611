#pragma once
/// One run: a workload, a simulated internet and one scheduler, in virtual time.
///
/// Besides scheduling, a run does the queue manager's other work, equally for all schedulers: it bounds the active
/// messages, admits new and deferred ones in turn, retries deferred ones, and records the deliveries.
///
/// Use:     Simulation s(kind, internet, streams, parameters); Outcome o = s.run();
/// Results: the same for the same parameters, but for the figures of CPU time and memory.
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "bench/scheduler/discipline.h"
#include "bench/scheduler/network.h"
#include "bench/scheduler/sessions.h"
#include "bench/scheduler/workload.h"

namespace pen::simulation {

struct Parameters {
  std::uint64_t seed = 1;
  Limits limits;
  milliseconds look_up_first{30};  // of a domain; later ones come from a cache
  milliseconds look_up_cached{1};
  seconds retry_first{300};  // then doubled up to retry_most
  seconds retry_most{4000};
  std::uint32_t rounds = 3;      // then the remaining recipients are given up
  seconds sample{1};             // between two samples
  std::optional<seconds> until;  // virtual time; none: until everything has ended
  bool measure_memory = false;   // at each sample; takes time
  bool keep_delays = true;       // of every single-recipient message
  std::vector<Callers> callers;  // clients that share limits.session_classes with outgoing mail
};

/// The outcome of one stream.
struct StreamOutcome {
  std::uint64_t messages = 0, recipients = 0;  // arrived
  std::uint64_t delivered = 0, given_up = 0;   // recipients
  // recipients, once for each deferral; without parked ones
  std::uint64_t deferred = 0;
  SteadyTime first{}, half = kNever, ninety = kNever, last{};  // arrival; that share delivered; end
  struct Delay {
    float arrival, delay;  // s
  };
  /// Of single-recipient messages to hosts that neither fail nor delay nor greylist.
  std::vector<Delay> delays;
  struct Slowdown {
    std::uint32_t recipients;
    float ratio;  // the time until 90 % were delivered, divided by that in an otherwise idle system
  };
  std::vector<Slowdown> slowdowns;  // of messages that had nine of ten delivered
};

struct Sample {
  float at = 0;  // s
  std::uint32_t held = 0, serving = 0;
  std::uint32_t active = 0;
  std::size_t memory = 0;                // resident, less what the simulation's own messages take; bytes
  std::vector<std::uint64_t> delivered;  // by stream
};

struct Outcome {
  std::vector<StreamOutcome> streams;
  std::vector<Sample> samples;
  Network::Counts counts;
  std::vector<Sessions::Seen> sessions;  // of each class
  SteadyTime end{};
  double cpu = 0;      // s, of everything
  double own_cpu = 0;  // s, of the scheduler's own calls
  double jobs_per_connection() const {
    return counts.accepted == 0 ? 0 : static_cast<double>(counts.deliveries) / static_cast<double>(counts.accepted);
  }
};

/// The resident memory of this process, in bytes; 0: the system does not tell.
std::size_t resident_memory();

class Simulation final : private World, private Network::Listener, private Sessions::Listener {
 public:
  Simulation(Kind kind, const Internet& internet, std::vector<Stream> streams, const Parameters& parameters);
  Outcome run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Message {
    SteadyTime arrival{};
    std::uint32_t stream = 0;
    std::uint32_t round = 0;
    bool parked = false;
    std::uint32_t outstanding = 0;  // recipients of this round without a result
    std::uint32_t delivered = 0;
    float ideal = 0;  // s; see ideal_time()
    std::vector<DomainNumber> domains;
    Ordinals deferred;
  };

  // World
  SteadyTime now() const override { return now_; }
  const Internet& internet() const override { return internet_; }
  DomainNumber domain_of(MessageNumber m, std::uint32_t ordinal) const override {
    return messages_[m].domains[ordinal];
  }
  std::uint64_t sender_of(MessageNumber m) const override {
    const std::size_t stream = messages_[m].stream;
    return workload_.streams()[stream].one_sender ? stream + 1 : 0;
  }
  SteadyTime arrival_of(MessageNumber m) const override { return messages_[m].arrival; }
  void look_up(MessageNumber m, std::uint32_t ordinal) override;
  void open(ConnectionNumber connection, HostNumber host) override;
  void open_in_class(ConnectionNumber connection, HostNumber host) override;
  void hand(ConnectionNumber connection, JobNumber job, MessageNumber m, const Ordinals& ordinals) override;
  void close(ConnectionNumber connection) override;
  void deferred(MessageNumber m, const Ordinals& ordinals) override;
  void parked(MessageNumber m, const Ordinals& ordinals) override;
  // Network::Listener
  void connection_opened(ConnectionNumber connection, const Host& host) override;
  void connection_closed(ConnectionNumber connection, bool was_opened, ipc::delivery::Trouble trouble,
                         const std::vector<JobNumber>& unstarted) override;
  void result(ConnectionNumber connection, const Host& host, Network::Delivery&& delivery,
              microseconds service_time) override;
  void connection_ended(ConnectionNumber connection) override;
  // Sessions::Listener
  void lease_answered(ConnectionNumber connection, bool granted) override;
  void room(std::uint32_t session_class) override;
  bool yield(std::uint32_t session_class) override;

  /// Calls the discipline; the time counts as its own, except that of its calls to the World.
  template <class Call>
  void tell(Call&& call) {
    const auto start = Clock::now();
    const auto before = within_world_;
    call();
    own_ += Clock::now() - start - (within_world_ - before);
  }
  struct InWorld {
    explicit InWorld(Simulation& s) : simulation(s) {}
    ~InWorld() { simulation.within_world_ += Clock::now() - start; }
    InWorld(const InWorld&) = delete;
    InWorld& operator=(const InWorld&) = delete;
    Simulation& simulation;
    std::chrono::steady_clock::time_point start = Clock::now();
  };

  void happened(const Event& event);
  void arrivals();
  void admit();
  void delivered(Message& m, std::uint32_t recipients, DomainNumber domain);
  void settle();  // ends rounds, admits
  void end_round(MessageNumber number);
  void take_sample();
  float ideal_time(const std::vector<DomainNumber>& domains) const;

  const Internet& internet_;
  Parameters parameters_;
  Workload workload_;
  SteadyTime now_{};
  Events events_;
  Network network_;
  std::unique_ptr<Sessions> sessions_;                          // nullptr: no session classes
  std::unordered_map<ConnectionNumber, HostNumber> for_lease_;  // wait for theirs
  std::unique_ptr<Discipline> discipline_;
  std::vector<Message> messages_;
  std::vector<MessageNumber> free_;
  std::deque<MessageNumber> new_, again_;
  bool turn_of_again_ = false;
  std::size_t active_ = 0, waiting_ = 0;  // waiting: for the next round
  std::vector<MessageNumber> ended_;
  std::vector<bool> looked_up_;  // domains
  SteadyTime arrival_event_ = kNever;
  Clock::duration own_{}, within_world_{};
  Outcome outcome_;
};

}  // namespace pen::simulation
