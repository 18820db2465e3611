#include "qmgr/scheduler/suspension.h"

#include "lib/base/text.h"
#include "lib/queue/destdb/name.h"

namespace pen::qmgr::scheduler {

std::string Suspensions::verdict(const std::vector<std::string>& names, std::string_view rule_name,
                                 std::string_view rule_address) const {
  const auto& by_hand = table_.suspensions();
  if (!by_hand.empty()) {
    for (const std::string& name : names) {
      const auto it = by_hand.find(name);
      if (it == by_hand.end()) continue;
      const std::string& reason = it->second.reason;
      return "delivery to " + name + " is suspended" + (reason.empty() ? "" : ": " + reason);
    }
  }
  if (options_.deferral_rule) {
    const std::string rule = options_.deferral_rule(rule_name, rule_address);
    if (!rule.empty())
      return "delivery to " + std::string(rule_name.empty() ? rule_address : rule_name) + " is suspended by " + rule;
  }
  return {};
}

std::string Suspensions::verdict_on_recipient(std::string_view recipient) const {
  if (nothing_is()) return {};
  const auto at = recipient.rfind('@');
  if (at == std::string_view::npos) return {};
  const auto names = destdb::names_of_nexthop(recipient.substr(at + 1));
  return names.empty() ? std::string() : verdict(names, names.front(), {});
}

void Suspensions::judge(RouteSet& r) const {
  r.judged = clock_.now;
  r.suspended.clear();
  if (nothing_is()) return;
  const auto names = destdb::names_of_nexthop(r.nexthop);
  if (!names.empty()) r.suspended = verdict(names, names.front(), names.front());
}

void Suspensions::judge(Destination& d) const {
  d.judged = clock_.now;
  d.suspended.clear();
  if (nothing_is()) return;
  const ipc::Destination& a = d.address;
  d.suspended =
      verdict(destdb::names_of(a.host.empty() ? a.unix_path : a.host, a.address, a.port), to_lower(a.host), a.address);
}

}  // namespace pen::qmgr::scheduler
