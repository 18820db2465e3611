#pragma once
/// penstock explain: why a message is where it is, what happens next and when. Manual: man/penstock.1.
///
/// Use:     return explain_message(config, options);
/// Past:    of a message that has left the queue it shows what history.h does, where events are kept.
/// Returns: 0; EX_DATAERR: there is no such message; EX_NOPERM; EX_UNAVAILABLE.
#include <string>

#include "lib/config/config.h"

namespace pen::tools {

struct ExplainOptions {
  std::string queue_id;
  bool json = false;
};

int explain_message(const config::Config& config, const ExplainOptions& options);

}  // namespace pen::tools
