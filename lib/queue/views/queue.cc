#include "lib/queue/views/queue.h"

#include <nlohmann/json.hpp>

namespace pen::views {

nlohmann::ordered_json to_json(const ipc::queue::Entry& e) {
  nlohmann::ordered_json j;
  j["queue_name"] = name_of(e.place);
  j["queue_id"] = e.queue_id;
  j["arrival_time"] = unix_seconds(e.arrival);
  j["message_size"] = e.size;
  j["forced_expire"] = e.forced_expire;
  j["sender"] = e.sender.empty() ? "MAILER-DAEMON" : e.sender;
  if (!e.tenant.empty()) j["tenant"] = e.tenant;
  if (e.priority != 0) j["priority"] = e.priority;
  if (e.release != WallTime{}) j["release_time"] = unix_seconds(e.release);
  if (!e.fault.empty()) j["fault"] = e.fault;
  j["recipients"] = nlohmann::ordered_json::array();
  const auto recipient = [&](const std::string& original, const std::string& address, const char* what,
                             const std::string& reason) {
    nlohmann::ordered_json one;
    one["orig_address"] = original;
    one["address"] = address;
    if (!reason.empty()) one[what] = reason;
    j["recipients"].push_back(std::move(one));
  };
  for (std::size_t i = 0; i < e.recipients.size(); ++i) {
    const auto& r = e.recipients[i];
    recipient(i < e.originals.size() ? e.originals[i] : r.address, r.address, "delay_reason", r.delay_reason);
  }
  for (const auto& r : e.bounced) recipient(r.original, r.address, "bounce_reason", r.reason);
  return j;
}

}  // namespace pen::views
