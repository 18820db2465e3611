#pragma once
/// Conversation "logins": smtpd has logins of its clients decided by the program cyrus. Behind the hellos both speak
/// Dovecot's protocol (lib/trust/sasl/dovecot_requests.h), line by line, as smtpd does with Dovecot itself.
#include <string_view>

namespace pen::ipc::logins {

inline constexpr std::string_view kName = "logins";

}  // namespace pen::ipc::logins
