#include "tools/queue_selection.h"

#include <algorithm>
#include <iterator>

#include "lib/base/text.h"
#include "lib/config/values.h"

namespace pen::tools {
std::vector<service::Option> Selection::rows() {
  using service::Given;
  return {{"--sender ADDRESS", "from that address, or @DOMAIN, or <>: notifications",
           [this](const Given& given) {
             // Listings show the empty sender so.
             return condition(filter_.sender, given.value == "MAILER-DAEMON" ? "<>" : given.value);
           }},
          {"--recipient ADDRESS", "to that address, or @DOMAIN",
           [this](const Given& given) { return condition(filter_.recipient, given.value); }},
          {"--domain DOMAIN", "to that domain",
           [this](const Given& given) {
             return condition(filter_.domain, given.value.substr(given.value.starts_with('@') ? 1 : 0));
           }},
          {"--tenant NAME", "mail of this tenant",
           [this](const Given& given) { return condition(filter_.tenant, given.value); }},
          {"--older TIME", "arrived at least that long ago: 90s, 5m, 2h, 3d, 1w",
           [this](const Given& given) { return older(given.value); }},
          {"--reply TEXT", "waiting for a reason that contains this text",
           [this](const Given& given) { return condition(filter_.reply, given.value); }}};
}

std::string Selection::condition(std::string& to, const std::string& text) {
  to = text;
  return text.empty() ? "an empty condition chooses nothing" : "";
}

std::string Selection::older(const std::string& text) {
  const auto time = config::parse_time(text, 's');
  if (text.empty()) return "an empty condition chooses nothing";
  if (!time || *time < seconds(1)) return "not a time: " + printable(text) + " (90s, 5m, 2h, 3d, 1w)";
  filter_.older = std::chrono::duration_cast<seconds>(*time);
  return {};
}

bool Selection::take_queue(std::string_view name) {
  const auto* found = std::ranges::find(ipc::queue::kPlaceNames, name);
  if (found == std::end(ipc::queue::kPlaceNames)) return false;
  filter_.places |= ipc::queue::bit_of(static_cast<ipc::queue::Place>(found - ipc::queue::kPlaceNames));
  return true;
}

}  // namespace pen::tools
