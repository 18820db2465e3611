#pragma once
/// The log as a handler: libraries do not log, and leave what they have to say to the program. log::as_warning, which
/// most need alone, is in lib/base/log.h.
///
/// Use:     resolve::watch_key_records(loop, signing, name_servers, draining, log::as_said);
#include "lib/base/log.h"

namespace pen::log {

inline void as_info(const std::string& line) { write(Level::info, line); }
/// A warning, or else for information.
inline void as_said(bool warning, const std::string& line) { write(warning ? Level::warning : Level::info, line); }

}  // namespace pen::log
