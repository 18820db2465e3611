#pragma once
/// One policy service as check_policy_service names it: its address and how to ask it.
///
/// Use:     auto service = PolicyService::read("{ inet:127.0.0.1:10023, timeout=10s }", settings);
/// Text:    "unix:path" (below queue_directory if it is relative) or "inet:host:port", alone or at the head of a list
///          in braces; what follows it there goes before smtpd_policy_service_*: timeout, max_idle, max_ttl,
///          request_limit, try_limit, retry_delay, default_action, policy_context. A value with blanks has braces
///          around its name and itself: { default_action = 451 4.3.5 later }.
/// Errors:  bad_service.
/// Thread:  any.
/// Source:  Postfix SMTPD_POLICY_README, postconf(5) smtpd_policy_service_*.
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/config/settings.h"
#include "lib/meaning/smtpd/proxy_settings.h"
#include "lib/net/helper/server_address.h"

namespace pen::smtpd {

enum class PolicyServiceError { bad_service = 1 };
inline std::string_view error_module(PolicyServiceError) { return "policy service"; }
std::string_view describe(PolicyServiceError e);

struct PolicyService {
  std::string text;  // as written: services of the same text share their connections
  std::string name;  // "inet:host:port" or "unix:path" as written, for the log
  helper::ServerAddress address;
  Families families;
  milliseconds timeout{seconds(100)};  // for connecting, for sending, and for the answer, each
  milliseconds max_idle{seconds(300)}, max_ttl{seconds(1000)};
  int request_limit = 0;  // requests of one connection; 0: no limit
  int try_limit = 2;
  milliseconds retry_delay{seconds(1)};
  std::string default_action, context;

  static Result<PolicyService> read(std::string_view text, const config::Settings& s);
};

}  // namespace pen::smtpd
