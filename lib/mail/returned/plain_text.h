#pragma once
/// Notices that are only text: qmail's form and Exim's.
///
/// Use:     if (auto notice = read_qmail(text, original)) …
///          if (auto notice = read_exim(text, failed_recipients, original)) …   // the field X-Failed-Recipients
/// Rules:   nothing is guessed: a text that does not begin and go on as these programs write is no notice.
/// Bounds:  kMostRecipients, kMaxText.
/// Source:  D. J. Bernstein, the qmail-send bounce message format (QSBMF); Exim's specification, "Bounce messages" and
///          X-Failed-Recipients. Pure.
#include <optional>
#include <string_view>

#include "lib/mail/returned/report.h"

namespace pen::returned {

/// original: gets what the copy of the message has, if there is one.
std::optional<Notice> read_qmail(std::string_view text, Original& original);
std::optional<Notice> read_exim(std::string_view text, std::string_view failed_recipients, Original& original);
/// What we want of a message's header: lines of fields up to an empty line.
void read_original(std::string_view header, Original& original);

}  // namespace pen::returned
