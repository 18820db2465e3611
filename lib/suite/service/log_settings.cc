#include "lib/suite/service/log_settings.h"

#include <syslog.h>

#include <string_view>

namespace pen::service {
namespace {

struct Facility {
  std::string_view name;
  int value;
};
constexpr Facility kFacilities[] = {
    {"mail", LOG_MAIL},     {"daemon", LOG_DAEMON}, {"auth", LOG_AUTH},     {"user", LOG_USER},
    {"local0", LOG_LOCAL0}, {"local1", LOG_LOCAL1}, {"local2", LOG_LOCAL2}, {"local3", LOG_LOCAL3},
    {"local4", LOG_LOCAL4}, {"local5", LOG_LOCAL5}, {"local6", LOG_LOCAL6}, {"local7", LOG_LOCAL7},
};

Result<int> facility(const std::string& name) {
  for (const Facility& f : kFacilities) {
    if (f.name == name) return f.value;
  }
  return fail(config::ConfigError::bad_value, "syslog_facility = " + name);
}

/// The modes that Postfix takes too.
Result<unsigned> log_mode(const std::string& text) {
  if (text == "0600" || text == "600") return 0600;
  if (text == "0640" || text == "640") return 0640;
  if (text == "0644" || text == "644") return 0644;
  return fail(config::ConfigError::bad_value, "maillog_file_permissions = " + text + " (use 0600, 0640 or 0644)");
}

}  // namespace

Result<log::Options> log_options(const config::Settings& settings, const std::string& program, bool debug) {
  log::Options options;
  options.program = program;
  options.tag = settings.syslog_name;
  options.hostname = settings.myhostname;
  options.debug = debug;
  PEN_TRY_ASSIGN(options.syslog_facility, facility(settings.syslog_facility));
  if (settings.maillog_file.empty()) {
    options.target = log::Target::syslog;
  } else {
    options.target = log::Target::file;
    options.path = settings.maillog_file;
    PEN_TRY_ASSIGN(options.mode, log_mode(settings.maillog_file_permissions));
  }
  return options;
}

Result<void> open_log(const config::Settings& settings, const std::string& program, bool debug) {
  PEN_TRY_ASSIGN(auto options, log_options(settings, program, debug));
  return log::open(std::move(options));
}

}  // namespace pen::service
