#pragma once
/// Checks that the limits on messages and on mailboxes fit together. Pure.
///
/// Source:  postconf(5), mailbox_size_limit and virtual_mailbox_limit: a limit below message_size_limit would return
///          accepted messages from an empty mailbox.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/config/config.h"

namespace pen::mailbox {

/// setting: the name of the mailbox limit, for the error text. 0 means no limit, for both. The error:
/// config::ConfigError::bad_value.
inline Result<void> check_limit(std::string_view setting, std::uint64_t mailbox, std::uint64_t message) {
  if (mailbox == 0 || (message != 0 && message <= mailbox)) return {};
  const auto allowed = message == 0 ? std::string("without a limit") : std::to_string(message);
  return fail(config::ConfigError::bad_value,
              fmt::format("{} = {} is smaller than message_size_limit ({}): set it to that, to more, or to 0", setting,
                          mailbox, allowed));
}

}  // namespace pen::mailbox
