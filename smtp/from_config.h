#pragma once
/// The client's Settings out of main.cf: smtp_* for SMTP, lmtp_* for LMTP.
#include "lib/config/config.h"
#include "smtp/settings.h"

namespace pen::smtp {
Settings settings_from(const config::Settings& from, bool lmtp);
}  // namespace pen::smtp
