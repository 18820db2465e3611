#pragma once
/// Makes the client's Settings from main.cf: smtp_* for SMTP, lmtp_* for LMTP.
#include "lib/config/config.h"
#include "lib/meaning/smtp/settings.h"

namespace pen::smtp {
/// If inet_interfaces has exactly one address of a family, not counting loopback, connections are made from it unless
/// smtp_bind_address is set. own: the addresses of inet_interfaces.
void bind_to_single_address(Settings& settings, const std::vector<std::string>& own);
Settings settings_from(const config::Settings& from, bool lmtp);
}  // namespace pen::smtp
