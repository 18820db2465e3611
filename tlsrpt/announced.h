#pragma once
/// What servers of policies say of domains' policies (smtp_tls_policy_maps): the policy that results are counted under.
///
/// Use:     announced.take(attempt, now);       // one with `announced`
///          announced.name(attempt, now);       // gives a result its policy, and the domain that it is reported to
/// Rules:   a result under TLSA records that smtp has looked up itself is left alone.
/// Bounds:  kMost domains; while there are more that hold, others are not remembered, which take() says. In memory: a
///          route that is looked up again announces it again.
/// Thread:  one. No clock. Source: Postfix TLSRPT_README, policy_type and its like.
#include <map>
#include <string>

#include "lib/base/time.h"
#include "lib/suite/ipc/tls_report.h"

namespace pen::tlsrpt {

class Announced {
 public:
  static constexpr std::size_t kMost = 20000;
  /// False: there is no room for it.
  bool take(const ipc::tls_report::Attempt& announcement, SteadyTime now);
  void name(ipc::tls_report::Attempt& attempt, SteadyTime now) const;
  std::size_t size() const { return known_.size(); }

 private:
  struct Known {
    ipc::tls_report::Attempt policy;
    SteadyTime until{};
  };
  std::map<std::string, Known> known_;
};

}  // namespace pen::tlsrpt
