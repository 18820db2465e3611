#include "bench/scheduler/simulation.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <numeric>
#include <utility>

namespace pen::simulation {

namespace {

// To save memory, waiting messages are made only so far ahead of their admission.
constexpr std::size_t kAhead = 1000;
// The allocator's memory for a single message's list of domains.
constexpr std::size_t kDomainsBytes = 32;

float in_seconds(auto duration) { return std::chrono::duration<float>(duration).count(); }

double clock_seconds(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

std::size_t resident_memory() {
  std::ifstream statm("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

Simulation::Simulation(Kind kind, const Internet& internet, std::vector<Stream> streams, const Parameters& parameters)
    : internet_(internet),
      parameters_(parameters),
      workload_(internet, std::move(streams), parameters.seed),
      network_(internet, events_, *this),
      discipline_(make(kind, *this, parameters.limits, parameters.seed)),
      looked_up_(internet.domains()) {
  outcome_.streams.resize(workload_.streams().size());
  if (parameters.limits.session_classes == nullptr) return;
  Sessions::Listener& listener = *this;
  sessions_ = std::make_unique<Sessions>(parameters.limits.session_classes, parameters.callers, parameters.seed,
                                         events_, listener);
}

Outcome Simulation::run() {
  const double cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double elapsed = clock_seconds(CLOCK_MONOTONIC);
  const SteadyTime until = parameters_.until ? SteadyTime(*parameters_.until) : kNever;
  events_.add(SteadyTime{}, Event::Kind::sample);
  for (;;) {
    settle();
    const bool idle = workload_.ended() && active_ == 0 && waiting_ == 0 && new_.empty();
    if (idle) break;
    const SteadyTime wake = discipline_->next_wake();
    const SteadyTime next = std::min(events_.next(), wake);
    PEN_CHECK(next != kNever, "work is left and nothing will happen");
    if (next > until) {
      now_ = until;
      break;
    }
    now_ = std::max(now_, next);
    if (events_.next() <= wake) {
      happened(events_.take());
    } else {
      tell([&] { discipline_->tick(); });
    }
  }
  take_sample();
  outcome_.counts = network_.counts();
  if (sessions_) outcome_.sessions = sessions_->seen();
  outcome_.end = now_;
  outcome_.cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  // The calls' elapsed time, without the share of other processes.
  const double share = outcome_.cpu / (clock_seconds(CLOCK_MONOTONIC) - elapsed);
  const auto measured = std::chrono::duration_cast<microseconds>(own_);
  outcome_.own_cpu =
      std::chrono::duration<double>(discipline_->own_time().value_or(measured)).count() * std::min(1.0, share);
  return std::move(outcome_);
}

void Simulation::happened(const Event& event) {
  switch (event.kind) {
    case Event::Kind::arrival:
      arrival_event_ = kNever;
      break;  // settle() takes the message
    case Event::Kind::looked_up:
      tell([&] { discipline_->looked_up(event.a, event.b); });
      break;
    case Event::Kind::connected:
    case Event::Kind::result:
      network_.happened(now_, event);
      break;
    case Event::Kind::again:
      --waiting_;
      again_.push_back(event.a);
      break;
    case Event::Kind::sample:
      take_sample();
      events_.add(now_ + parameters_.sample, Event::Kind::sample);
      break;
    case Event::Kind::leases:
    case Event::Kind::call:
    case Event::Kind::hang_up:
      sessions_->happened(now_, event);
      break;
  }
}

void Simulation::arrivals() {
  while (new_.size() < kAhead && workload_.next_time() <= now_) {
    Arrival a = workload_.take();
    MessageNumber number = messages_.size();
    if (free_.empty()) {
      messages_.emplace_back();
    } else {
      number = free_.back();
      free_.pop_back();
    }
    Message& m = messages_[number];
    m = {};
    m.arrival = a.at;
    m.stream = static_cast<std::uint32_t>(a.stream);
    m.domains = std::move(a.domains);
    if (parameters_.keep_delays) m.ideal = ideal_time(m.domains);
    StreamOutcome& s = outcome_.streams[m.stream];
    if (s.messages++ == 0) s.first = m.arrival;
    s.recipients += m.domains.size();
    new_.push_back(number);
  }
  const SteadyTime next = workload_.next_time();
  if (next > now_ && next != kNever && arrival_event_ == kNever) {
    arrival_event_ = next;
    events_.add(next, Event::Kind::arrival);
  }
}

void Simulation::admit() {
  while (active_ < parameters_.limits.active_messages && (!new_.empty() || !again_.empty())) {
    // New and deferred messages in turn.
    turn_of_again_ = !turn_of_again_;
    auto& from = again_.empty() || (!turn_of_again_ && !new_.empty()) ? new_ : again_;
    const MessageNumber number = from.front();
    from.pop_front();
    Message& m = messages_[number];
    Ordinals recipients;
    if (m.round == 0 && m.deferred.empty()) {
      recipients.resize(m.domains.size());
      std::iota(recipients.begin(), recipients.end(), 0U);
    } else {
      recipients.swap(m.deferred);
    }
    m.outstanding = static_cast<std::uint32_t>(recipients.size());
    ++active_;
    tell([&] { discipline_->admit(number, recipients); });
    arrivals();
  }
}

void Simulation::settle() {
  arrivals();
  admit();
  if (active_ >= parameters_.limits.active_messages && !(new_.empty() && again_.empty()))
    tell([&] { discipline_->make_room(); });
  while (!ended_.empty()) {
    const MessageNumber number = ended_.back();
    ended_.pop_back();
    end_round(number);
    if (ended_.empty()) admit();
  }
}

void Simulation::end_round(MessageNumber number) {
  tell([&] { discipline_->forget(number); });
  --active_;
  Message& m = messages_[number];
  StreamOutcome& s = outcome_.streams[m.stream];
  const bool parked = std::exchange(m.parked, false);
  if (!parked) s.deferred += m.deferred.size();
  if (!m.deferred.empty() && (parked || ++m.round < parameters_.rounds)) {
    const std::uint32_t doublings = parked || m.round == 0 ? 0 : m.round - 1;
    const auto wait =
        std::min<std::int64_t>(parameters_.retry_first.count() << doublings, parameters_.retry_most.count());
    ++waiting_;
    events_.add(now_ + seconds(wait), Event::Kind::again, number);
    return;
  }
  s.given_up += m.deferred.size();
  s.last = now_;
  m.domains = {};
  m.deferred = {};
  free_.push_back(number);
}

void Simulation::look_up(MessageNumber m, std::uint32_t ordinal) {
  const InWorld world(*this);
  const DomainNumber d = messages_[m].domains[ordinal];
  const auto wait = looked_up_[d] ? parameters_.look_up_cached : parameters_.look_up_first;
  looked_up_[d] = true;
  events_.add(now_ + wait, Event::Kind::looked_up, m, ordinal);
}

void Simulation::open(ConnectionNumber connection, HostNumber host) {
  const InWorld world(*this);
  network_.open(now_, connection, host);
}

void Simulation::open_in_class(ConnectionNumber connection, HostNumber host) {
  const InWorld world(*this);
  PEN_CHECK(sessions_ != nullptr, "a lease is asked for and nobody counts");
  for_lease_.emplace(connection, host);
  // Addresses do not matter: every mask is a name, or all.
  sessions_->take(now_, connection, internet_.host_name(host), "192.0.2.1");
}

void Simulation::lease_answered(ConnectionNumber connection, bool granted) {
  const auto at = for_lease_.find(connection);
  PEN_CHECK(at != for_lease_.end(), "a lease for nobody");
  const HostNumber host = at->second;
  for_lease_.erase(at);
  if (granted) network_.open(now_, connection, host);
  tell([&] { granted ? discipline_->session_granted(connection) : discipline_->session_refused(connection); });
}

void Simulation::room(std::uint32_t session_class) {
  tell([&] { discipline_->session_room(session_class); });
}

bool Simulation::yield(std::uint32_t session_class) {
  bool closing = false;
  tell([&] { closing = discipline_->yield_session(session_class); });
  return closing;
}

void Simulation::connection_ended(ConnectionNumber connection) {
  if (sessions_) sessions_->release(now_, connection);
}

void Simulation::hand(ConnectionNumber connection, JobNumber job, MessageNumber m, const Ordinals& ordinals) {
  const InWorld world(*this);
  network_.hand(now_, connection, {job, m, ordinals, {}});
}

void Simulation::close(ConnectionNumber connection) {
  const InWorld world(*this);
  if (for_lease_.erase(connection) > 0)
    sessions_->release(now_, connection);
  else
    network_.close(connection);
}

void Simulation::deferred(MessageNumber number, const Ordinals& ordinals) {
  const InWorld world(*this);
  Message& m = messages_[number];
  PEN_CHECK(m.outstanding >= ordinals.size(), "a recipient has two results");
  m.deferred.insert(m.deferred.end(), ordinals.begin(), ordinals.end());
  m.outstanding -= static_cast<std::uint32_t>(ordinals.size());
  if (m.outstanding == 0) ended_.push_back(number);
}

void Simulation::parked(MessageNumber number, const Ordinals& ordinals) {
  messages_[number].parked = true;
  deferred(number, ordinals);
}

void Simulation::connection_opened(ConnectionNumber connection, const Host& host) {
  tell([&] { discipline_->opened(connection, host); });
}

void Simulation::connection_closed(ConnectionNumber connection, bool was_opened, ipc::delivery::Trouble trouble,
                                   const std::vector<JobNumber>& unstarted) {
  tell([&] { discipline_->closed(connection, was_opened, trouble, unstarted); });
}

void Simulation::result(ConnectionNumber connection, const Host& host, Network::Delivery&& delivery,
                        microseconds service_time) {
  Message& m = messages_[delivery.message];
  const auto count = static_cast<std::uint32_t>(delivery.ordinals.size());
  PEN_CHECK(m.outstanding >= count, "a recipient has two results");
  m.outstanding -= count;
  if (host.greylists && m.round == 0) {
    m.deferred.insert(m.deferred.end(), delivery.ordinals.begin(), delivery.ordinals.end());
  } else {
    delivered(m, count, m.domains[delivery.ordinals.front()]);
  }
  if (m.outstanding == 0) ended_.push_back(delivery.message);
  tell([&] { discipline_->done(connection, delivery.job, service_time); });
}

void Simulation::delivered(Message& m, std::uint32_t recipients, DomainNumber domain) {
  StreamOutcome& s = outcome_.streams[m.stream];
  const std::uint64_t total = workload_.streams()[m.stream].messages == s.messages ? s.recipients : 0;
  s.delivered += recipients;
  if (total != 0 && s.half == kNever && s.delivered * 2 >= total) s.half = now_;
  if (total != 0 && s.ninety == kNever && s.delivered * 10 >= total * 9) s.ninety = now_;
  const std::size_t all = m.domains.size();
  const std::size_t most = all - all / 10;
  const bool crossed = m.delivered < most && m.delivered + recipients >= most;
  m.delivered += recipients;
  if (!parameters_.keep_delays || !crossed) return;
  const float delay = in_seconds(now_ - m.arrival);
  if (all == 1) {
    if (!internet_.ordinary(domain)) return;
    s.delays.push_back({in_seconds(m.arrival.time_since_epoch()), delay});
  }
  s.slowdowns.push_back({static_cast<std::uint32_t>(all), delay / m.ideal});
}

float Simulation::ideal_time(const std::vector<DomainNumber>& domains) const {
  // With every worker available: the time that the nearest nine tenths need, or that the workers need for all.
  std::vector<float> alone;
  alone.reserve(domains.size());
  for (const DomainNumber d : domains) {
    const Host& h = internet_.host(internet_.cluster(internet_.cluster_of(d)).first);
    alone.push_back(
        in_seconds(5 * microseconds(h.round_trip) + microseconds(h.processing) + parameters_.look_up_cached));
  }
  const double work = std::accumulate(alone.begin(), alone.end(), 0.0);
  const auto at = alone.begin() + static_cast<std::ptrdiff_t>((alone.size() - 1) * 9 / 10);
  std::nth_element(alone.begin(), at, alone.end());
  return std::max(*at, static_cast<float>(work / parameters_.limits.workers));
}

void Simulation::take_sample() {
  Sample sample;
  sample.at = in_seconds(now_.time_since_epoch());
  sample.held = discipline_->workers_held();
  sample.serving = network_.serving();
  sample.active = static_cast<std::uint32_t>(active_);
  if (parameters_.measure_memory) {
    const std::size_t own = messages_.capacity() * sizeof(Message) + (messages_.size() - free_.size()) * kDomainsBytes;
    sample.memory = resident_memory();
    sample.memory -= std::min(sample.memory, own);
  }
  for (const StreamOutcome& s : outcome_.streams) sample.delivered.push_back(s.delivered);
  outcome_.samples.push_back(std::move(sample));
}

}  // namespace pen::simulation
