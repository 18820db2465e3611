#include "smtp/told_lately.h"

namespace pen::smtp {

mail::ErrorClasses ToldLately::tell(const std::string& host, mail::ErrorClasses classes, SteadyTime now) {
  if (classes.empty()) return {};
  auto it = hosts_.find(host);
  if (it == hosts_.end()) {
    if (hosts_.size() >= kMost) std::erase_if(hosts_, [&](const auto& h) { return h.second.until <= now; });
    if (hosts_.size() >= kMost) return {};
    it = hosts_.emplace(host, Told{}).first;
  }
  Told& told = it->second;
  if (told.until <= now) told = {.classes = {}, .until = now + kFor};
  const mail::ErrorClasses fresh = classes.without(told.classes);
  told.classes.add(classes);
  return fresh;
}

}  // namespace pen::smtp
