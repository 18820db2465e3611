#pragma once
/// Lines in the name of another program, which log readers look for: "penstock/postscreen[123]: PASS NEW …".
///
/// Use:     log::info_as("postscreen", "CONNECT from [{}]:{}", address, port);
/// Else:    as lib/base/log.h has it.
#include "lib/base/log.h"

namespace pen::log {

void write_as(std::string_view program, Level level, std::string_view text);

template <class... Args>
void info_as(std::string_view program, fmt::format_string<Args...> format, Args&&... args) {
  write_as(program, Level::info, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace pen::log
