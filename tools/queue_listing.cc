#include "tools/queue_listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/queue/views/destinations.h"
#include "lib/queue/views/queue.h"

namespace pen::tools {

using ipc::queue::Entry;
using ipc::queue::Place;

std::string mailq_header() { return "----Queue ID------ --Size-- ---Arrival Time---- --Sender/Recipient------\n"; }

std::string mailq_line(const Entry& e) {
  const std::string when = local_text(e.arrival, "%a %b %e %H:%M:%S");
  const char mark = e.place == Place::active ? '*' : e.place == Place::hold ? '!' : e.forced_expire ? '#' : ' ';
  const std::string id = readable(e.queue_id) + mark;  // in maildrop the id is a file's name
  const std::string sender = !e.fault.empty() && e.sender.empty() ? "?"
                             : e.sender.empty()                   ? "MAILER-DAEMON"
                                                                  : readable(e.sender);
  return fmt::format("{:<18} {:>8} {:<19} {}\n", id, e.size, when, sender);
}

std::string mailq_entry(const Entry& e) {
  std::string out = mailq_line(e);
  if (!e.fault.empty()) out += fmt::format("{:>76}\n", "(" + readable(e.fault) + ")");
  if (e.release != WallTime{} && e.place == Place::deferred &&
      std::ranges::all_of(e.recipients, [](const auto& r) { return r.delay_reason.empty(); })) {
    out += fmt::format("{:>76}\n", "(not before " + local_text(e.release) + ")");
  }
  // Recipients with the same reason stand together below it, in their order.
  const std::string* last = nullptr;
  const auto recipient = [&](const std::string& address, const std::string& why) {
    if (!why.empty() && (last == nullptr || *last != why)) {
      const std::string reason = "(" + readable(why) + ")";
      out += reason.size() < 75 ? fmt::format("{:>76}\n", reason) : reason + "\n";
      last = &why;
    }
    out += fmt::format("{:48}{}\n", "", readable(address));
  };
  for (const auto& r : e.recipients) recipient(r.address, r.delay_reason);
  for (const auto& r : e.bounced) recipient(r.address, r.reason);
  return out + "\n";
}

std::string mailq_footer(std::uint64_t bytes, std::uint64_t entries) {
  return fmt::format("-- {} Kbytes in {} Request{}.\n", (bytes + 1023) / 1024, entries, entries == 1 ? "" : "s");
}

std::string json_entry(const Entry& e) { return views::text_of(views::to_json(e)); }

}  // namespace pen::tools
