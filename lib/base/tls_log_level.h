#pragma once
/// The text of a TLS log level, as in smtpd_tls_loglevel and its tables: "1", or "1,trace", as since Postfix 3.12.
///
/// Use:     const TlsLogLevel level = split_tls_log_level("1,trace");      // {"1", true}
/// Pure.
#include <string_view>

#include "lib/base/text.h"

namespace pen {

struct TlsLogLevel {
  std::string_view level;
  bool trace = false;  // a trace of the session into a file: not written here
};

inline TlsLogLevel split_tls_log_level(std::string_view text) {
  const auto comma = text.find(',');
  if (comma == std::string_view::npos || !iequals(trim(text.substr(comma + 1)), "trace")) return {trim(text), false};
  return {trim(text.substr(0, comma)), true};
}

}  // namespace pen
