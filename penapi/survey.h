#pragma once
/// Figures that are states, not counts: the queue by state, destinations, sessions; asked of qmgr and anvil at most as
/// often as it costs them next to nothing.
///
/// Use:     const auto now = co_await server.survey.look();   // a value that stays as it is
/// Rules:   what is quick (qmgr's and anvil's own figures) is at most kQuick old. What goes through the queue and all
///          destinations is renewed in the background, one at a time, kShare times as seldom as it takes: with a
///          million messages waiting, some seconds' work every few minutes. `looked` says when that was.
/// Thread:  the loop's.
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "lib/base/async/sync.h"
#include "lib/suite/ipc/destinations.h"
#include "lib/suite/ipc/queue.h"
#include "lib/suite/ipc/sessions.h"

namespace pen::api {

class Server;

inline constexpr std::size_t kPlaces = std::size(ipc::queue::kPlaceNames);
/// Upper bounds, in bytes and in seconds.
inline constexpr auto kSizes =
    std::to_array<std::uint64_t>({1'000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000});
inline constexpr auto kWaits =
    std::to_array<std::uint64_t>({60, 300, 900, 3'600, 14'400, 43'200, 86'400, 172'800, 432'000});

struct QueueState {
  std::uint64_t messages = 0, bytes = 0;
  WallTime oldest{};  // arrival; none: there are no messages
  std::array<std::uint64_t, kSizes.size() + 1> sizes{};
  std::array<std::uint64_t, kWaits.size() + 1> ages{};
  double age_sum = 0;
  /// A message of that age and so many bytes.
  void add(WallTime now, WallTime arrival, std::uint64_t size);
};

struct DestinationFigures {
  std::string shown, transport;
  std::uint64_t connections = 0, jobs = 0, failures = 0;
  std::uint64_t weight() const { return connections + jobs; }
};
/// Keeps a few of the destinations: half of them at most are those that failed most often in a row, which have neither
/// connections nor jobs while they are left alone; then come the busiest. The others are summed.
class Busiest {
 public:
  explicit Busiest(std::size_t limit) : limit_(limit) {}
  void add(DestinationFigures d);
  /// The busiest first, then those that failed most often.
  std::vector<DestinationFigures> take();
  const DestinationFigures& other() const { return other_; }

 private:
  std::size_t limit_;
  std::vector<DestinationFigures> troubled_;  // a heap: the one that failed least often first
  std::vector<DestinationFigures> busy_;      // a heap: the least busy first
  DestinationFigures other_;
};

/// A limit of what goes out, learned or set.
struct RateLimit {
  std::string group, source, scope;
  double per_minute = 0;
  bool operator<(const RateLimit& other) const {
    return std::tie(group, source, scope) < std::tie(other.group, other.source, other.scope);
  }
};

/// A slower rate of one, which holds within a minute, an hour or a day.
struct QuotaFigures {
  std::string group, source, scope, rate;
  std::uint64_t most = 0, used = 0;
  double opens = 0;  // seconds; 0: it is not full
  bool operator<(const QuotaFigures& other) const {
    return std::tie(group, source, scope, rate) < std::tie(other.group, other.source, other.scope, other.rate);
  }
};

struct QueueView {
  WallTime looked{};  // none: not yet
  std::array<QueueState, kPlaces> states;
  WallTime untried{};  // arrival of the oldest message that is still in its first try; none: there is none
  WallTime due{};      // since when the one that waits longest for a try that is due does; none: none waits
  std::vector<DestinationFigures> destinations;
  DestinationFigures other;
  std::set<RateLimit> limits;               // penapi_destination_limit of them at most
  std::set<QuotaFigures> quotas;            // as many
  std::array<std::uint64_t, 7> by_class{};  // destinations by ipc::destinations::Class
  /// A message of the listing, in the state of its place.
  void add(WallTime now, const ipc::queue::Entry& e);
};

struct Seen {
  std::shared_ptr<const QueueView> queue;
  std::map<std::string, std::string> qmgr;  // its status lines; empty: it did not answer
  std::string qmgr_problem;
  ipc::sessions::Status sessions;
  std::string sessions_problem;
};

/// Whether qmgr answers, and its status lines.
struct Answering {
  std::map<std::string, std::string> qmgr;
  std::string problem;  // it did not answer
};

struct Troubled {
  std::vector<ipc::destinations::FromQmgr> worst;  // Suspended and Entry, at most kMostTroubled of each
  std::uint64_t all = 0;
  std::string problem;  // qmgr did not answer
};

class Survey {
 public:
  explicit Survey(Server& server);
  async::Task<Seen> look();
  /// For health checks, which must not hang with what they ask about: qmgr's answer if it comes within kProbe, else
  /// what became of the question before; one that hangs for kAnswer has that as its problem from then on.
  async::Task<Answering> answering();
  /// The destinations that take nothing, as qmgr names them: asked again after kTroubled, however many pages there are.
  async::Task<std::shared_ptr<const Troubled>> troubled();

  static constexpr milliseconds kQuick{1000};
  static constexpr milliseconds kProbe{500};
  static constexpr seconds kTroubled{5};
  static constexpr std::uint32_t kMostTroubled = 100;
  static constexpr seconds kLeast{10};
  static constexpr int kShare = 50;
  // For qmgr and for anvil: together less than the ten seconds that a scrape of Prometheus may take.
  static constexpr seconds kAnswer = ipc::queue::kHangs;
  static constexpr seconds kFirst{5};  // how long the first one is waited for

 private:
  static async::Task<void> go_through(Survey* self);
  async::Task<bool> look_at_queue(QueueView& view);
  async::Task<void> ask_quick();
  static async::Task<void> ask_state(Survey* self);

  Server& server_;
  std::shared_ptr<const QueueView> queue_ = std::make_shared<QueueView>();
  Seen quick_;
  SteadyTime quick_at_ = SteadyTime::min(), again_ = SteadyTime::min();
  bool under_way_ = false, asking_ = false;
  Answering answering_{.qmgr = {}, .problem = "it has not answered yet"};
  SteadyTime answering_at_ = SteadyTime::min();
  bool asking_state_ = false;
  std::shared_ptr<const Troubled> troubled_;
  SteadyTime troubled_at_{};
  async::Event looked_, asked_, state_asked_;
};

}  // namespace pen::api
