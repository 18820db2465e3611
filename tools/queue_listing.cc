#include "tools/queue_listing.h"

#include <fmt/core.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "lib/base/text.h"

namespace pen::tools {

using ipc::queue::Entry;
using ipc::queue::Place;

std::string mailq_header() {
  return "-Queue ID-  --Size-- ----Arrival Time---- -Sender/Recipient-------\n";
}

std::string mailq_line(const Entry& e) {
  const std::time_t t = unix_seconds(e.arrival);
  std::tm tm{};
  ::localtime_r(&t, &tm);
  char when[32];
  std::strftime(when, sizeof when, "%a %b %d %H:%M:%S", &tm);
  const char mark = e.place == Place::active ? '*'
                    : e.place == Place::hold ? '!'
                    : e.forced_expire        ? '#'
                                             : ' ';
  const std::string id = e.queue_id + mark;
  const std::string sender = e.sender.empty() ? "MAILER-DAEMON" : printable(e.sender);
  return fmt::format("{:<17} {:>8} {:<19} {}\n", id, e.size, when, sender);
}

std::string mailq_entry(const Entry& e) {
  std::string out = mailq_line(e);
  // Recipients with the same reason stand together below it, as they come.
  const std::string* last = nullptr;
  for (const auto& r : e.recipients) {
    if (!r.delay_reason.empty() && (last == nullptr || *last != r.delay_reason)) {
      const std::string reason = "(" + printable(r.delay_reason) + ")";
      out += reason.size() < 75 ? fmt::format("{:>76}\n", reason) : reason + "\n";
      last = &r.delay_reason;
    }
    out += fmt::format("{:47}{}\n", "", printable(r.address));
  }
  return out + "\n";
}

std::string mailq_footer(std::uint64_t bytes, std::uint64_t entries) {
  return fmt::format("-- {} Kbytes in {} Request{}.\n", (bytes + 1023) / 1024, entries,
                     entries == 1 ? "" : "s");
}

std::string json_entry(const Entry& e) {
  static constexpr const char* kNames[] = {"incoming", "active", "deferred", "hold"};
  nlohmann::ordered_json j;
  j["queue_name"] = kNames[static_cast<std::size_t>(e.place)];
  j["queue_id"] = e.queue_id;
  j["arrival_time"] = unix_seconds(e.arrival);
  j["message_size"] = e.size;
  j["forced_expire"] = e.forced_expire;
  j["sender"] = e.sender.empty() ? "MAILER-DAEMON" : e.sender;
  j["recipients"] = nlohmann::ordered_json::array();
  for (const auto& r : e.recipients) {
    nlohmann::ordered_json one;
    one["address"] = r.address;
    if (!r.delay_reason.empty()) one["delay_reason"] = r.delay_reason;
    j["recipients"].push_back(std::move(one));
  }
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace pen::tools
