#pragma once
/// The enhanced status code of a refusal, as it fits what is refused. Pure.
///
/// Tables say codes about the address that their writer had in mind, and are asked about other things: a code about a
/// recipient that refuses a sender becomes that about a sender, and codes about addresses say nothing of hosts.
/// Source:  RFC 3463 section 3.2, RFC 7505; Postfix, which does the same.
#include <string>
#include <string_view>

namespace pen::smtpd {

/// kind: of Name, as "Sender address"; dsn: "5.1.1". For other kinds and other codes: the code itself.
std::string named_status(std::string_view kind, std::string_view dsn);

}  // namespace pen::smtpd
