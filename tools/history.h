#pragma once
/// penstock history: what became of a message, or of the mail of an address, by the files of events. Manual:
/// man/penstock.1.
///
/// Use:     return show_history(config, {.sought = {.queue_id = id}});
/// Returns: 0; EX_DATAERR: nothing is known; EX_NOPERM, EX_NOINPUT: the files cannot be read; EX_UNAVAILABLE: no
///          events are kept.
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "tools/event_search.h"

namespace pen::tools {

struct HistoryOptions {
  Sought sought;
  std::size_t most = 1000;  // events that are shown: the newest
  bool json = false;        // the events as they stand, one in a line
};

int show_history(const config::Config& config, const HistoryOptions& options);

/// A paragraph for each message, in the order of their first events; a line for each event, in local time. Texts of
/// strangers are made printable. Pure but for the time zone.
std::string history_text(const std::vector<nlohmann::ordered_json>& events);

}  // namespace pen::tools
