#pragma once
/// smtpd_reject_footer: text behind a reply that refuses something.
///
/// Form:    "\n" in the text (two characters) begins a further line; "\c" at its beginning keeps the first line on the
///          reply's own. Each new line has the reply's code and status code.
/// Source:  postconf(5) smtpd_reject_footer. Pure; any thread.
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/expand.h"

namespace pen::smtpd {

/// The reply ("550 5.1.1 text", its last line) with the footer, as lines without CRLF. The reply alone if the footer
/// is malformed.
std::vector<std::string> with_footer(std::string_view reply, std::string_view footer, const config::Lookup& names,
                                     std::string_view filter);

}  // namespace pen::smtpd
