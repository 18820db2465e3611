/// Penstock's scheduler: the object that qmgr runs, driven as qmgr drives it.
#include <arpa/inet.h>

#include <algorithm>
#include <optional>

#include "lib/base/check.h"

#include "bench/scheduler/discipline.h"

namespace pen::simulation {

namespace {

// The start of simulated time in the calendar, because destdb remembers wall clock times.
constexpr seconds kEpoch{1'800'000'000};
// The validity of a route, as trivial-rewrite derives it from a domain's time to live.
constexpr seconds kRouteValid{3600};

ipc::Destination destination(const Internet& internet, HostNumber n) {
  ipc::Destination d;
  d.transport = "smtp";
  d.host = internet.host_name(n);
  char text[INET_ADDRSTRLEN];
  const in_addr address{htonl((10U << 24U) + n)};
  ::inet_ntop(AF_INET, &address, text, sizeof text);
  d.address = text;
  d.port = 25;
  return d;
}

class Penstock final : public Discipline {
 public:
  Penstock(World& world, const Limits& limits, std::uint64_t seed)
      : world_(world), random_(seed), limits_(limits), scheduler_(options(limits), limits_of(), table_, random_) {}

  void admit(MessageNumber m, const Ordinals& recipients) override {
    tell([&] { scheduler_.admit(m, recipients, world_.sender_of(m)); });
  }
  void looked_up(MessageNumber m, std::uint32_t ordinal) override {
    const DomainNumber d = world_.domain_of(m, ordinal);
    const Cluster& c = world_.internet().cluster(world_.internet().cluster_of(d));
    ipc::route::Resolved r;
    r.transport = "smtp";
    r.nexthop = "d" + std::to_string(d) + ".example";
    r.recipient = "user@" + r.nexthop;
    r.valid_for = kRouteValid;
    auto& primary = r.levels.emplace_back();
    for (HostNumber h = 0; h < c.primary; ++h)
      primary.destinations.push_back(destination(world_.internet(), c.first + h));
    if (c.backup > 0) {
      auto& backup = r.levels.emplace_back();
      for (HostNumber h = 0; h < c.backup; ++h)
        backup.destinations.push_back(destination(world_.internet(), c.first + c.primary + h));
    }
    tell([&] { scheduler_.routed(m, ordinal, r); });
  }
  void opened(ConnectionNumber connection, const Host& host) override {
    ipc::delivery::Features f;
    f.pipelining = f.chunking = host.window > 1;
    f.window = host.window;
    f.round_trip = microseconds(host.round_trip);
    f.connect_time = 3 * f.round_trip;
    tell([&] { scheduler_.opened(connection, f); });
  }
  void closed(ConnectionNumber connection, bool was_opened, ipc::delivery::Trouble trouble,
              const std::vector<JobNumber>& unstarted) override {
    const mail::DeliveryStatus status{mail::Action::deferred, "4.4.1", "no answer", {}, {}};
    tell([&] { scheduler_.closed(connection, was_opened, trouble, status, unstarted); });
  }
  void done(ConnectionNumber, JobNumber job, microseconds service_time) override {
    tell([&] { scheduler_.job_done(job, service_time, qmgr::JobEnd::served); });
  }
  void forget(MessageNumber m) override {
    tell([&] { scheduler_.forget(m); });
  }
  void session_granted(ConnectionNumber connection) override {
    tell([&] { scheduler_.session_granted(connection); });
  }
  void session_refused(ConnectionNumber connection) override {
    tell([&] { scheduler_.session_refused(connection); });
  }
  void session_room(std::uint32_t session_class) override {
    tell([&] { scheduler_.session_room(session_class); });
  }
  bool yield_session(std::uint32_t session_class) override {
    bool closing = false;
    tell([&] { closing = scheduler_.yield_session(session_class); });
    return closing;
  }
  void tick() override {
    tell([&] { scheduler_.tick(); });
  }
  void make_room() override {  // as in qmgr/active_set.cc
    constexpr int kSlice = 16;
    for (int i = 0; i < kSlice && scheduler_.crowded(); ++i) {
      std::optional<MessageNumber> excess;
      Ordinals back;
      tell([&] {
        excess = scheduler_.excess();
        if (excess) back = scheduler_.withdraw(*excess);
      });
      if (!excess) return;
      world_.parked(*excess, back);
    }
  }
  SteadyTime next_wake() const override { return wake_; }
  std::uint32_t workers_held() const override { return static_cast<std::uint32_t>(scheduler_.figures().connections); }
  /// Without the time of this adapter, which makes the router's answers.
  std::optional<microseconds> own_time() const override { return std::chrono::duration_cast<microseconds>(own_); }

 private:
  // The defaults of main.cf.
  static qmgr::Options options(const Limits& limits) {
    qmgr::Options o;
    if (limits.share_limit) o.share_limit = std::max<std::size_t>(1, limits.active_messages / 4);  // active_share_limit
    o.fairness.max_message_concurrency = 4;
    o.fairness.scale_max_concurrency = 10;
    if (limits.session_classes != nullptr) {  // every mask here is a name, or all
      o.session_class = [classes = limits.session_classes](
                            std::string_view host,
                            std::string_view address) -> std::optional<qmgr::Options::SessionClass> {
        const auto found = classes->find(host, address);
        if (!found) return std::nullopt;
        return qmgr::Options::SessionClass{*found, classes->list()[*found].mask};
      };
    }
    return o;
  }
  std::function<qmgr::TransportLimits(std::string_view)> limits_of() const {
    return [this](std::string_view) {
      qmgr::TransportLimits t;
      t.workers = limits_.workers;
      t.destination_concurrency = limits_.destination_concurrency;
      t.initial_concurrency = limits_.initial_concurrency;
      t.destination_recipients = limits_.destination_recipients;
      t.idle_age = limits_.idle_age;
      return t;
    };
  }

  /// The time that reading the clock twice adds: the least of many tries.
  static std::chrono::steady_clock::duration clock_cost() {
    static const auto cost = [] {
      auto least = std::chrono::steady_clock::duration::max();
      for (int i = 0; i < 1000; ++i) {
        const auto start = std::chrono::steady_clock::now();
        least = std::min(least, std::chrono::steady_clock::now() - start);
      }
      return least;
    }();
    return cost;
  }
  /// Handles an event and all that follows. Only the scheduler's own work counts as its time.
  template <class Call>
  void tell(Call&& call) {
    const SteadyTime now = world_.now();
    const auto timed = [&](auto&& f) {
      const auto start = std::chrono::steady_clock::now();
      f();
      own_ += std::chrono::steady_clock::now() - start - clock_cost();
    };
    timed([&] {
      scheduler_.set_time(now, WallTime(std::chrono::duration_cast<microseconds>(now.time_since_epoch() + kEpoch)));
      call();
      scheduler_.take_actions(actions_);
      wake_ = scheduler_.next_wake();
    });
    for (auto& a : actions_) std::visit([this](auto& x) { this->act(x); }, a);
  }
  void act(const qmgr::RouteRecipient& a) { world_.look_up(a.message, a.ordinal); }
  void act(const qmgr::OpenConnection& a) {
    in_addr address{};
    PEN_CHECK(::inet_pton(AF_INET, a.destination.address.c_str(), &address) == 1);
    const HostNumber host = ntohl(address.s_addr) - (10U << 24U);
    if (a.session_class)
      world_.open_in_class(a.connection, host);
    else
      world_.open(a.connection, host);
  }
  void act(const qmgr::HandJob& a) { world_.hand(a.connection, a.job, a.message, a.ordinals); }
  void act(const qmgr::CloseConnection& a) { world_.close(a.connection); }
  void act(const qmgr::DeferRecipients& a) { world_.deferred(a.message, a.ordinals); }

  World& world_;
  Random random_;
  Limits limits_;
  destdb::MemoryTable table_;
  qmgr::Scheduler scheduler_;
  std::vector<qmgr::Action> actions_;
  SteadyTime wake_ = kNever;
  std::chrono::steady_clock::duration own_{};
};

}  // namespace

std::unique_ptr<Discipline> make_penstock(World& world, const Limits& limits, std::uint64_t seed) {
  return std::make_unique<Penstock>(world, limits, seed);
}

}  // namespace pen::simulation
