#pragma once
/// Templates of replies and footers: default_rbl_reply, rbl_reply_maps, smtpd_reject_footer. A $name stands for what is
/// known of the session.
///
/// Use:     auto text = expand_reply("$rbl_what is listed", lookup, filter);
/// Safety:  a value is inserted as it is; names inside it are not expanded. Characters of values that are not in the
///          filter become '_', for values are the client's words. The text of the template itself is not filtered.
/// Source:  postconf(5) default_rbl_reply, smtpd_reject_footer, smtpd_expansion_filter.
/// Pure; any thread.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/config/expand.h"

namespace pen::smtpd {

/// Which names a template may use.
enum class ReplyNames : std::uint8_t { of_sessions, of_dns_lists };
/// Why the template cannot be used, for the administrator: a name that does not exist, or bad syntax. Empty: it can.
std::string template_problem(std::string_view text, ReplyNames names);

/// lookup: the values, unfiltered; nullopt: there is no such name, which then becomes nothing.
config::Expanded expand_reply(std::string_view text, const config::Lookup& lookup, std::string_view filter);

/// Replaces \t, \\, \40 (octal) and so on, as C has them.
std::string unescape(std::string_view text);

}  // namespace pen::smtpd
