#include "lib/config/process_count.h"

#include <algorithm>
#include <thread>

#include "lib/config/compatibility.h"

namespace pen::config {

unsigned process_count(const Config& config, const Service& entry, unsigned processors) {
  const bool server = entry.command == "smtpd" && std::ranges::find(entry.arguments, kScreens) == entry.arguments.end();
  const bool client = (entry.command == "smtp" || entry.command == "lmtp") && entry.is_private &&
                      entry.type == ServiceType::unix_stream;
  if (!server && !client) return 1;
  const bool lmtp = entry.command == "lmtp";
  const std::string name = entry.command + "_process_count";
  const bool said = std::ranges::any_of(config.overrides(entry), [&](const auto& o) { return o.name == name; });
  const Settings settings = (said ? config.with(entry) : config).settings();
  const int wanted = server ? settings.smtpd_process_count : settings.client(lmtp).process_count;
  const int limit = entry.process_limit.value_or(static_cast<int>(config.settings().default_process_limit));
  const unsigned count = wanted == 0 ? processors : static_cast<unsigned>(wanted);
  return limit == 0 ? count : std::min(count, static_cast<unsigned>(limit));  // each has a place for a session
}

unsigned processors() { return std::max(1U, std::thread::hardware_concurrency()); }

}  // namespace pen::config
