#pragma once
/// Free space on the disks of the mail system, looked at in threads of their own: a disk that hangs holds up the
/// thread that asks for its space, and must not hold up anything else here.
///
/// Use:     for (const Disk& d : co_await server.disks.look()) …       // bounded by kWait
///          for (const Disk& d : server.disks.known()) …               // waits for nothing
/// Rules:   what is known is at most kFresh old when look() or known() is called while disks answer. At most one thread
///          waits for each disk.
/// Thread:  the loop's.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/sync.h"

namespace pen::api {

struct Disk {
  const char* setting;  // that names its directory
  std::string directory;
  std::string problem = {};                          // why nothing is known of it; empty: it is
  std::uint64_t free = 0, size = 0, free_files = 0;  // bytes; files
};

class Disks {
 public:
  Disks(async::Loop& loop, std::vector<Disk> disks);
  ~Disks();
  Disks(const Disks&) = delete;
  Disks& operator=(const Disks&) = delete;

  /// A disk that does not answer in time has that as its problem.
  async::Task<std::vector<Disk>> look();
  /// What the last look has found, at once; it has a new look begin if that is older than kFresh.
  const std::vector<Disk>& known();

  static constexpr milliseconds kWait{300};
  static constexpr seconds kFresh{1};

 private:
  struct State {
    bool under_way = false;
    SteadyTime at = SteadyTime::min();  // of the last answer
  };
  void renew();
  bool waits() const;
  static async::Task<void> look_at(Disks* self, std::size_t i);

  async::Loop& loop_;
  std::vector<Disk> disks_;
  std::vector<State> states_;
  std::unique_ptr<async::HandlerPool> pool_;
  async::Event answered_;
};

}  // namespace pen::api
