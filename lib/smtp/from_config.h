#pragma once
/// The client's Settings out of main.cf: smtp_* for SMTP, lmtp_* for LMTP.
#include "lib/config/config.h"
#include "lib/smtp/settings.h"

namespace pen::smtp {
/// From the one address of a family that inet_interfaces names, a loopback one not counted, connections are made where
/// smtp_bind_address says nothing. own: the addresses of inet_interfaces.
void bind_to_single_address(Settings& settings, const std::vector<std::string>& own);
Settings settings_from(const config::Settings& from, bool lmtp);
}  // namespace pen::smtp
