#pragma once
/// Looks through the files of events (docs/events.md) for those of one message, or of one address.
///
/// Use:     auto found = search_events(settings.event_log_file, {.queue_id = "4Bcd12"}, 1000);
///          for (const auto& event : found->events) …               // JSON objects, the oldest first, each once
/// Files:   that of the setting and those that were renamed, by penevents or by logrotate(8), compressed with gzip or
///          not: all in its directory whose names begin as its own does, the newest first. What concerns a message ends
///          where it was received.
/// Bounds:  so many events are kept, the newest; a line longer than 1 MiB is passed over. A GiB of events takes 0.3 s
///          of processor time, compressed 0.5 s and more; the progress is shown on a terminal.
/// Errors:  errno, where no file can be read. What a single file has is in `troubles`, and the others are read.
/// Blocks. Any thread.
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace pen::tools {

/// One of them; addresses are compared without regard to case.
struct Sought {
  std::string queue_id = {};
  std::string address = {};
};
/// Whether it is an event of this message; or of mail from or to this address. Pure.
bool concerns(const nlohmann::ordered_json& event, const Sought& sought);

struct FoundEvents {
  std::vector<nlohmann::ordered_json> events;
  bool more = false;                  // there are older ones
  std::vector<std::string> troubles;  // "PATH: why it could not be read"
};
Result<FoundEvents> search_events(const std::string& path, const Sought& sought, std::size_t most);

}  // namespace pen::tools
