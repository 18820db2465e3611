#pragma once
/// The values of $name in replies and footers: what is known of a session and its transaction.
///
/// Use:     config::Lookup names = [&](std::string_view name) { return session_attribute(name, about, s, now); };
/// Names:   those of postconf(5) default_rbl_reply but for rbl_*, and of smtpd_reject_footer.
/// Pure. Thread: any.
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/config/settings.h"
#include "smtpd/subject.h"

namespace pen::smtpd {

/// nullopt: there is no such name. What is not known (no sender yet) is "".
std::optional<std::string> session_attribute(std::string_view name, const Subject& about, const config::Settings& s,
                                             WallTime now);

}  // namespace pen::smtpd
