#pragma once
/// How addresses and delays look in the log of this process: info_log_address_format, delay_logging_resolution_limit.
///
/// Use:     log::info("{}: from=<{}>", id, logged(sender));
/// Owns:    what set_log_form() has set. Until then: the external form, two digits.
/// Thread:  any; set_log_form() before the first line.
#include <string>
#include <string_view>

namespace pen::mail {

struct LogForm {
  bool internal = false;  // addresses without the quotes of their local parts
  int delay_digits = 2;   // behind the point, at most
};
void set_log_form(LogForm form);
LogForm log_form();

/// An address in external form, as the log shows it.
std::string logged(std::string_view address);

}  // namespace pen::mail
