#pragma once
/// The weights of tenants (tenant_weight_maps), looked up when a tenant comes.
///
/// Use:     PEN_TRY_ASSIGN(auto weights, TenantWeights::open(loop, settings));    // nullptr: all weigh the same
///          weights->when_known([…](name, weight) { … });      // a table that waits has answered
///          options.tenant_weight = [weights](std::string_view name) { return weights->of(name); };
/// Rules:   of() does not wait: until a slow table has answered a tenant has the weight that it had, or the usual one.
///          A weight is asked for again with the first message a minute later, so of() is for each message. A table
///          that fails, or a value that is no weight, changes nothing, and the log says so once a minute.
/// Bounds:  kMost tenants are remembered, those first that were asked for within the minute. Where so many are asked
///          for at a time, the next ones weigh what is usual.
/// Thread:  the loop's.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lib/base/async/loop.h"
#include "lib/base/async/sync.h"
#include "lib/map/ask.h"
#include "lib/map/map.h"

namespace pen::qmgr {

class TenantWeights {
 public:
  static constexpr std::size_t kMost = 10'000;
  static constexpr std::uint32_t kUsual = 100, kHeaviest = 1000;

  /// specs: tenant_weight_maps.
  static Result<std::shared_ptr<TenantWeights>> open(async::Loop& loop, std::string_view specs,
                                                     const map::OpenOptions& options);
  TenantWeights(async::Loop& loop, map::MapList maps);
  using Known = std::function<void(std::string_view tenant, std::uint32_t weight)>;
  void when_known(Known known) { known_ = std::move(known); }
  std::uint32_t of(std::string_view tenant);

 private:
  struct Weight {
    std::uint32_t value = kUsual;
    SteadyTime asked{};
    bool under_way = false;
  };
  static async::Task<void> ask(TenantWeights* self, std::string tenant);
  void answered(const std::string& tenant, const map::Value& value, bool tell);
  void warn(const std::string& what);

  async::Loop& loop_;
  map::MapList maps_;
  map::Asker tables_;
  Known known_;
  /// Makes room for one more. False: there is none.
  bool make_room(SteadyTime now);
  std::unordered_map<std::string, Weight> weights_;
  SteadyTime warned_ = SteadyTime::min();
  async::Gate gate_;  // declared last: questions under way are destroyed first
};

}  // namespace pen::qmgr
