#pragma once
/// Asks what pentop shows: qmgr, anvil, and the pages in which the programs count.
///
/// Use:     TopSource source(loop, config);  TopSnapshot now = co_await source.look();
/// Rules:   what is quick is asked at each look(). Every message and destination is looked at in a task of its own, and
///          kShare times as seldom as that takes; look() has what the last one found. Of messages the kOldest oldest
///          are kept, of destinations kKept by each order: nothing here grows with the queue.
/// Pages:   are master's, and other users can open them only through a process that has one: so only root, and the user
///          who runs the instance, sees what they hold; TopSnapshot::pages_problem says why not.
/// Thread:  the loop's.
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "lib/base/async/sync.h"
#include "lib/base/metrics/page.h"
#include "lib/config/config.h"
#include "tools/top_data.h"

namespace pen::tools {

class TopSource {
 public:
  static constexpr std::size_t kOldest = 200, kKept = 200;
  static constexpr int kShare = 50;
  static constexpr seconds kLeast{5}, kAnswer{10}, kSurvey{600};
  static constexpr seconds kGreets{3};  // qmgr; one that takes longer hangs

  TopSource(async::Loop& loop, const config::Config& config);
  async::Task<TopSnapshot> look();
  /// Waits until the queue has been looked through once, or cannot be.
  async::Task<void> surveyed();
  /// Why the message is where it is (lib/queue/views/story.h), as text.
  async::Task<std::string> tell(std::string queue_id);

 private:
  template <class FromQmgr>
  using See = std::function<void(FromQmgr&)>;
  async::Task<Result<ipc::queue::Done>> ask(ipc::queue::ToQmgr request, See<ipc::queue::FromQmgr> see,
                                            seconds patience);
  async::Task<Result<void>> ask(ipc::destinations::ToQmgr request, See<ipc::destinations::FromQmgr> see);
  static async::Task<void> go_through(TopSource* self);
  async::Task<void> look_at_destinations(TopSnapshot& now);
  void count(TopSnapshot& now);
  /// Opens the pages of services that run and are not open yet.
  Result<void> open_pages();
  std::string path(std::string_view name) const;

  async::Loop& loop_;
  const config::Config& config_;
  TopSurvey survey_;
  bool under_way_ = false;
  SteadyTime again_ = SteadyTime::min();
  async::Event surveyed_;
  int master_ = 0;                                // the master that has these pages
  std::map<std::string, metrics::Reader> pages_;  // by service
};

}  // namespace pen::tools
